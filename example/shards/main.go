// Shards works the queues of two Redises with ten workers in common, and enqueues a
// job on each:
//
//	MAIL_REDIS=redis://localhost:6379 VIDEO_REDIS=redis://localhost:6380 go run ./example/shards
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/goworker/goworker"
)

func main() {
	s := goworker.NewShards(goworker.WorkerSettings{Concurrency: 10},
		goworker.Shard{URI: os.Getenv("MAIL_REDIS"), Queues: []string{"mail", "*"}}, // and all the rest
		goworker.Shard{URI: os.Getenv("VIDEO_REDIS"), Queues: []string{"video"}},
	)
	s.Register("Say", func(ctx context.Context, text string) error {
		_, err := fmt.Println(goworker.FromContext(ctx).Queue, "says", text)
		return err
	})
	for _, queue := range []string{"mail", "video"} {
		err := s.Enqueue(&goworker.Job{Queue: queue, Payload: goworker.Payload{Class: "Say", Args: []any{"hello"}}})
		if err != nil {
			fmt.Fprintln(os.Stderr, err) // the other shard works all the same
		}
	}
	if err := s.Work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
