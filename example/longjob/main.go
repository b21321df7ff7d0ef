// Longjob imports a file row by row. Stop it in the middle, with Ctrl-C or with kill -9, and start it again: it goes on
// where it was, and announces the import once.
//
//	redis-cli RPUSH resque:queue:imports '{"class":"Import","args":["users.csv"],"id":"import-7"}'
//	go run ./example/longjob -queues=imports
//
// While it runs, redis-cli shows what it leaves for its next run:
//
//	redis-cli HGETALL resque:go:cursor:import-7
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/goworker/goworker"
)

const rows = 300

// importFile takes ten milliseconds for each row. Once, in the middle, the database is busy.
func importFile(ctx context.Context, file string) error {
	ticket, err := goworker.Once(ctx, "announce", func(context.Context) (string, error) {
		fmt.Println("announced the import of", file)
		return "ticket 24", nil // what a support system answers
	})
	if err != nil {
		return err
	}
	at := goworker.Cursor[int](ctx)
	last, again, err := at.Get()
	if err != nil {
		return err
	}
	if again {
		fmt.Println("goes on behind row", last)
	}
	for row := last + 1; row <= rows; row++ {
		select {
		case <-time.After(10 * time.Millisecond): // the work
		case <-ctx.Done():
			return ctx.Err() // the next run begins here
		}
		if err := at.Set(ctx, row); err != nil {
			return err
		}
		if row == rows/2 {
			return goworker.Snooze(0) // the database is busy: the worker has time for another job
		}
	}
	fmt.Printf("imported %d rows of %s, %s\n", rows, file, ticket)
	return nil
}

func main() {
	goworker.Register("Import", importFile, goworker.Retry(5))
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
