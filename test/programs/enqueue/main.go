// Program enqueue only enqueues: it needs no queues, and flags that goworker
// does not know are its own affair.
package main

import (
	"fmt"
	"os"

	"github.com/goworker/goworker"
)

func main() {
	err := goworker.Enqueue(&goworker.Job{
		Queue:   "greetings",
		Payload: goworker.Payload{Class: "Hello", Args: []interface{}{"world", 1}},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	fmt.Println("enqueued")
}
