package delayedbridge_test

import (
	"context"
	"log"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/delayedbridge"
)

// Send is a function whose tasks delayed's users enqueue.
func Send(to string, pages int) error { return nil }

// A daemon works the tasks for Send in the queue "mail" of delayed.
func ExamplePart() {
	d := goworker.New(goworker.WorkerSettings{Queues: []string{goworker.MessagePack("mail")}})
	d.RegisterFunc(Send, goworker.Retry(5), goworker.Timeout(time.Minute))
	d.AddPart(delayedbridge.Part(d, delayedbridge.Queue{Name: "mail"}))
	if err := d.Work(); err != nil {
		log.Fatal(err)
	}
}

// Workers of delayed in Python run this task.
func ExampleEnqueue() {
	client, err := goworker.NewClient(goworker.WorkerSettings{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	task := delayedbridge.PyTask("app.reports:build", []any{2026}, map[string]any{"format": "pdf"})
	if err := delayedbridge.Enqueue(context.Background(), client, "reports", task); err != nil {
		log.Fatal(err)
	}
}
