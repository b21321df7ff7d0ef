// Enqueue puts jobs into queues and ends, as a web server would while it
// answers a request. It works none, so it names no queues in its settings.
//
//	go run ./example/enqueue
//	REDIS_URL=redis://cache:6379/2 go run ./example/enqueue
//
// The jobs are for the workers in ../hello, ../typed and ../middleware; Ruby's
// would run them just as well.
package main

import (
	"fmt"
	"log"

	"github.com/goworker/goworker"
)

// mail becomes a JSON object: a Hash in Ruby, an array in PHP.
type mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

func main() {
	// The connections are made at the first Enqueue, and shared by all
	// goroutines that call it.
	defer goworker.Close()

	jobs := []goworker.Job{
		{Queue: "hello", Payload: goworker.Payload{Class: "Hello", Args: []any{"world", 1}}},
		{Queue: "mail", Payload: goworker.Payload{Class: "SendMail", Args: []any{mail{"ann@example.com", "Welcome"}, []string{"terms.pdf"}}}},
		{Queue: "images", Payload: goworker.Payload{Class: "Thumbnail", Args: []any{"cat.png", 320, 240}}},
		{Queue: "reports", Payload: goworker.Payload{Class: "Report", Args: []any{"2026-10"}}},
		{Queue: "reports", Payload: goworker.Payload{Class: "Report", Args: []any{"October"}}},
	}
	for _, job := range jobs {
		if err := goworker.Enqueue(&job); err != nil {
			log.Fatalf("enqueueing %s: %v", job.Payload.Class, err)
		}
		fmt.Println("enqueued", job.Payload.Class, "in queue", job.Queue)
	}
}
