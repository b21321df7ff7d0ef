// Fromdelayed takes over the Go tasks of a queue of delayed: it sends the mails that delayed's users enqueue, with retries, and reports
// each to a function of Python, which workers of delayed run. docs/migrating-delayed.md explains it.
//
//	go run ./example/fromdelayed -queues=msgpack:mail
//
// A task by a program in Python, with delayed or without it:
//
//	queue.enqueue(GoTask("main.Send", ("ann@example.com", 3)))
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/delayedbridge"
)

// Send is the function of the tasks. delayed knows it by its path, main.Send.
func Send(ctx context.Context, to string, pages int) error {
	if to == "" {
		return goworker.Discard(errors.New("the mail has no recipient"))
	}
	fmt.Printf("sent %d pages to %s\n", pages, to)
	report := delayedbridge.PyTask("app.mail:sent", []any{to}, map[string]any{"pages": pages})
	return delayedbridge.Enqueue(ctx, goworker.Default().Client(), "reports", report)
}

// register makes a daemon work the queue "mail" of delayed.
func register(d *goworker.Daemon) {
	d.RegisterFunc(Send, goworker.Retry(5), goworker.Timeout(time.Minute))
	d.AddPart(delayedbridge.Part(d, delayedbridge.Queue{Name: "mail"}))
}

func main() {
	register(goworker.Default())
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
