// Enqueue puts jobs into queues and ends, as a script or a cron job would. It works
// none, so it names no queues in its settings.
//
//	go run ./example/enqueue
//	REDIS_URL=redis://cache:6379/2 go run ./example/enqueue
//
// The jobs are for the workers in ../hello, ../typed and ../middleware; Ruby's
// would run them just as well.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/goworker/goworker"
)

// mail becomes a JSON object: a Hash in Ruby, an array in PHP.
type mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	client, err := goworker.NewClient(goworker.WorkerSettings{}) // Redis is where REDIS_URL says
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	jobs := []*goworker.Job{
		goworker.NewJob("hello", "Hello", "world", 1),
		goworker.NewJob("mail", "SendMail", mail{"ann@example.com", "Welcome"}, []string{"terms.pdf"}),
		goworker.NewJob("images", "Thumbnail", "cat.png", 320, 240),
		goworker.NewJob("reports", "Report", "2026-10"),
	}
	for _, job := range jobs {
		if _, err := client.Enqueue(ctx, job); err != nil {
			return err // it names the class, and says whether the job may be in its queue
		}
		fmt.Println("enqueued", job.Payload.Class, "in queue", job.Queue)
	}

	// Many at once, each with its own options, in one step.
	receipts, err := client.EnqueueMany(ctx,
		goworker.Item{Job: goworker.NewJob("reports", "Report", "October")},
		goworker.Item{
			Job:     goworker.NewJob("hello", "Hello", "tomorrow"),
			Options: []goworker.EnqueueOption{goworker.ProcessIn(24 * time.Hour)},
		},
	)
	if err != nil {
		return err
	}
	fmt.Println("enqueued two at once; the later one is", receipts[1].ID)
	return nil
}
