package events_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/events"
)

// A program waits for the first job of a queue that fails.
func ExampleWatch() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d := goworker.New(goworker.WorkerSettings{URI: "embedded:", QueuesString: "mail", Logger: slog.New(slog.DiscardHandler), DisableSignals: true})
	d.RegisterDialer("embedded", embedded.Open)
	defer d.Close()
	d.Register("SendEmail", func(to string) error { return errors.New("no such mailbox") })
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- d.Run(running) }()
	go func() { // until one is heard of
		for running.Err() == nil {
			_, _ = d.Client().Enqueue(running, goworker.NewJob("mail", "SendEmail", "ada@example.com"))
			time.Sleep(100 * time.Millisecond)
		}
	}()

	filter := events.Filter{Kinds: []string{events.Failed}, Queues: []string{"mail*"}}
	for e, err := range events.Watch(ctx, d, filter) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Printf("%s: %s of %s: %s\n", e.Kind, e.Class, e.Queue, e.Text)
		break
	}
	stop()
	<-ended
	// Output: failed: SendEmail of mail: no such mailbox
}
