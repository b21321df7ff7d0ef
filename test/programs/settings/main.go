// Program settings has no flags and configures goworker in its code, in words
// that have always compiled. Flags of goworker still override the settings, and
// other flags are the program's own affair.
package main

import (
	"fmt"
	"os"

	"github.com/goworker/goworker"
)

func main() {
	goworker.SetSettings(goworker.WorkerSettings{
		URI:            os.Getenv("QUEUE_DATABASE"),
		Connections:    100,
		Queues:         []string{"greetings", "others"},
		UseNumber:      true,
		ExitOnComplete: true,
		Concurrency:    2,
		Namespace:      "resque:",
		Interval:       5.0,
	})
	goworker.Register("Hello", func(queue string, args ...interface{}) error {
		fmt.Printf("hello from %s to %v\n", queue, args)
		return nil
	})
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
