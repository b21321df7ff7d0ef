// Unique enqueues the same jobs several times, as web requests would, and runs those that
// were accepted: a report once, a save once with the latest text, a reminder only while it is
// useful.
//
//	go run ./example/unique -queues=unique -exit-on-complete
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/goworker/goworker"
)

func register(d *goworker.Daemon) {
	d.Register("Report", func(month string) { fmt.Println("report of", month) },
		goworker.Unique())

	// A user who types saves often: one job waits for each document, with the latest text.
	d.Register("Save", func(document int, text string) { fmt.Printf("document %d is %q\n", document, text) },
		goworker.Unique(
			goworker.ByKeyOf(func(j *goworker.Job) string { return fmt.Sprint("document ", j.Payload.Args[0]) }),
			goworker.UntilStart(), goworker.ReplaceWaiting()))

	d.Register("Remind", func(of string) { fmt.Println("remember", of) },
		goworker.OnExpired(func(_ context.Context, d *goworker.Delivery) error {
			fmt.Println("too late to remember", d.Job().Payload.Args[0])
			return nil
		}))
}

func enqueue(ctx context.Context, jobs goworker.Enqueuer) error {
	for range 3 {
		_, err := jobs.Enqueue(ctx, goworker.NewJob("unique", "Report", "October"))
		if duplicate := new(goworker.DuplicateError); errors.As(err, &duplicate) {
			fmt.Println("refused: there is a job for it in", duplicate.Queue)
		} else if err != nil {
			return err
		}
	}
	for _, text := range []string{"W", "Wo", "Word"} {
		if _, err := jobs.Enqueue(ctx, goworker.NewJob("unique", "Save", 7, text)); err != nil {
			return err
		}
	}
	if _, err := jobs.Enqueue(ctx, goworker.NewJob("unique", "Remind", "the meeting today"), goworker.ExpireAfter(time.Hour)); err != nil {
		return err
	}
	_, err := jobs.Enqueue(ctx, goworker.NewJob("unique", "Remind", "the meeting yesterday"), goworker.ExpiresAt(time.Now().AddDate(0, 0, -1)))
	return err
}

func main() {
	register(goworker.Default())
	if err := enqueue(context.Background(), goworker.Default().Client()); err != nil {
		log.Fatal(err)
	}
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
