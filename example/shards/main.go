// Shards works the queues of two Redises with ten workers in common, and enqueues a
// job on each:
//
//	MAIL_REDIS=redis://localhost:6379 VIDEO_REDIS=redis://localhost:6380 go run ./example/shards
package main

import (
	"context"
	"fmt"
	"os"
	"time"

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
	failed := false
	for _, queue := range []string{"mail", "video"} {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, err := s.Client().Enqueue(ctx, goworker.NewJob(queue, "Say", "hello"))
		cancel()
		if err != nil {
			fmt.Fprintln(os.Stderr, err) // the other shard works all the same
			failed = true
		}
	}
	if err := s.Work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		failed = true
	}
	if failed {
		os.Exit(1)
	}
}
