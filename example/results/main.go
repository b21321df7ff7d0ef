// Results enqueues jobs and learns what becomes of them: it watches one until it is done, waits for the result of
// another, learns why a third failed, and cancels a fourth while it runs.
//
//	go run ./example/results
//	REDIS_URL=redis://cache:6379/2 go run ./example/results
//
// While it runs, redis-cli shows what is kept of each job:
//
//	redis-cli --scan --pattern 'resque:go:result:*'
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/goworker/goworker"
)

// Sum is the class of jobs that add numbers. What becomes of them is known until a minute after their end.
var Sum = goworker.Define[[]int, int]("Sum", goworker.OnQueue("numbers"), goworker.WithResult(time.Minute))

var errEmpty = errors.New("there is nothing to add")

// sum takes a second for each number, and says how far it is.
func sum(ctx context.Context, numbers []int) (total int, err error) {
	if len(numbers) == 0 {
		return 0, errEmpty
	}
	for i, n := range numbers {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		total += n
		goworker.Progress(ctx, int64(i+1), int64(len(numbers)), fmt.Sprintf("%d so far", total))
	}
	return total, nil
}

func main() {
	d := goworker.New(goworker.WorkerSettings{QueuesString: "numbers", Concurrency: 4, LogLevel: "warn"})
	defer d.Close()
	Sum.Handle(d, sum)

	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	go func() { // a web server that asks is usually another program
		defer stop()
		must(ask(ctx, d.Client()))
	}()
	must(d.Run(ctx))
}

// ask enqueues jobs and asks what becomes of them.
func ask(ctx context.Context, client *goworker.Client) error {
	var ids []string
	for _, numbers := range [][]int{{1, 2, 3}, {4, 5}, {}, make([]int, 1000)} {
		receipt, err := Sum.Enqueue(ctx, client, numbers)
		if err != nil {
			return err
		}
		ids = append(ids, receipt.ID)
	}

	for status, err := range client.Watch(ctx, ids[0]) { // each change, until the job has ended
		if err != nil {
			return err
		}
		if p := status.Progress; p != nil {
			fmt.Printf("watched: %s, %d of %d, %s\n", status.State, p.Done, p.Total, p.Note)
		}
	}

	total, err := Sum.Await(ctx, client, ids[1])
	if err != nil {
		return err
	}
	fmt.Println("awaited:", total)

	_, err = Sum.Await(ctx, client, ids[2])
	var failed *goworker.JobError
	if !errors.As(err, &failed) {
		return fmt.Errorf("the empty sum ended with %v", err)
	}
	fmt.Println("failed:", failed.Message)

	if err := client.Cancel(ctx, ids[3]); err != nil {
		return err
	}
	if _, err = Sum.Await(ctx, client, ids[3]); errors.Is(err, goworker.ErrCancelled) {
		fmt.Println("cancelled:", err)
	}
	return nil
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
