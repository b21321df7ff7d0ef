package goworker_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
)

// Five workers for the queues of two Redises.
func ExampleNewShards() {
	s := goworker.NewShards(
		goworker.WorkerSettings{Concurrency: 5, ExitOnComplete: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))},
		goworker.Shard{URI: "embedded:", Queues: []string{"mail", "*"}}, // redis://redis-a:6379
		goworker.Shard{URI: "embedded:", Queues: []string{"video"}},     // redis://redis-b:6379
	)
	defer s.Close()
	s.RegisterDialer("embedded", embedded.Open)

	s.Register("Say", func(ctx context.Context, text string) {
		fmt.Println(goworker.FromContext(ctx).Queue, "says", text)
	})
	err := s.EnqueueAll(
		&goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: "Say", Args: []any{"hello"}}},
		&goworker.Job{Queue: "video", Payload: goworker.Payload{Class: "Say", Args: []any{"action"}}},
	)
	if err != nil { // the jobs of the other Redis are in their queues all the same
		fmt.Println(err)
	}
	if err := s.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// mail says hello
	// video says action
}
