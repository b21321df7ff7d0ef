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

func job(class string, args ...any) *goworker.Job {
	return goworker.NewJob("unique", class, args...)
}

func main() {
	goworker.Register("Report", func(month string) { fmt.Println("report of", month) },
		goworker.Unique())

	// A user who types saves often: one job waits for each document, with the latest text.
	goworker.Register("Save", func(document int, text string) { fmt.Printf("document %d is %q\n", document, text) },
		goworker.Unique(
			goworker.ByKeyOf(func(j *goworker.Job) string { return fmt.Sprint("document ", j.Payload.Args[0]) }),
			goworker.UntilStart(), goworker.ReplaceWaiting()))

	goworker.Register("Remind", func(of string) { fmt.Println("remember", of) },
		goworker.OnExpired(func(_ context.Context, d *goworker.Delivery) error {
			fmt.Println("too late to remember", d.Job().Payload.Args[0])
			return nil
		}))

	ctx, client := context.Background(), goworker.Default().Client()
	for range 3 {
		_, err := client.Enqueue(ctx, job("Report", "October"))
		var duplicate *goworker.DuplicateError
		switch {
		case errors.As(err, &duplicate):
			fmt.Println("refused: there is a job for it in", duplicate.Queue)
		case err != nil:
			log.Fatal(err)
		}
	}
	for _, text := range []string{"W", "Wo", "Word"} {
		if _, err := client.Enqueue(ctx, job("Save", 7, text)); err != nil {
			log.Fatal(err)
		}
	}
	for of, expiry := range map[string]goworker.EnqueueOption{
		"the meeting today":     goworker.ExpireAfter(time.Hour),
		"the meeting yesterday": goworker.ExpiresAt(time.Now().AddDate(0, 0, -1)),
	} {
		if _, err := client.Enqueue(ctx, job("Remind", of), expiry); err != nil {
			log.Fatal(err)
		}
	}
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
