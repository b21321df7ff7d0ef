// Command configfile is a worker whose settings, and those of its own, are in a file:
//
//	configfile -config example/configfile/worker.yaml
//
// Change the file and send SIGHUP: the worker goes on with the new rate, or refuses the file and says why.
package main

import (
	"fmt"
	"log"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/config"
)

// Billing is the program's own section.
type Billing struct {
	Rate    int           // charges a second
	Timeout time.Duration // of one
}

// Check says what is wrong with the section; the error has its line.
func (b Billing) Check() error {
	if b.Rate < 1 || b.Rate > 100 {
		return fmt.Errorf("the rate is %d: it must be from 1 to 100", b.Rate)
	}
	return nil
}

var billing = config.Value[Billing]{Default: Billing{Rate: 1, Timeout: 30 * time.Second}}

func main() {
	billing.Changed = func(was, is Billing) { fmt.Printf("the rate was %d and is %d\n", was.Rate, is.Rate) }
	config.Section("billing", &billing)
	goworker.Register("Charge", func(account string) {
		fmt.Printf("charging %s at %d/s\n", account, billing.Get().Rate)
	})
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
