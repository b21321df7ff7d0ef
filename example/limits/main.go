// Limits shows jobs with limits, and tenants that take turns:
//
//	go run ./example/limits -queues=calls,reports
package main

import (
	"fmt"
	"log"
	"time"

	"github.com/goworker/goworker"
)

func main() {
	// At most three reports at a time in the whole fleet, and one of each account.
	goworker.Register("Report", func(account string, month int) {
		fmt.Println("report of", account, "for month", month)
		time.Sleep(500 * time.Millisecond)
	}, goworker.MaxRunning(3), goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0))))

	// At most ten calls a second, and tenants take turns.
	goworker.Register("Call", func(tenant, url string) {
		fmt.Println("call for", tenant, "to", url)
	}, goworker.RateLimit(10, time.Second), goworker.FairBy(goworker.ByArg(0)))

	// Declared in advance, so that the order of each key holds from the first job on.
	goworker.LimitQueue("calls")
	goworker.LimitQueue("reports")
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
