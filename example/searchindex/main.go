// Searchindex indexes documents as they change. Each change is a job of its own, from anywhere; the documents of one
// catalog that change within a second are sent to the search engine in one request.
//
//	go run ./example/searchindex -queues=search
package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/goworker/goworker"
)

// index sends documents to the search engine. It runs again if it fails, perhaps with documents that were sent: the engine
// takes the same document twice.
func index(ctx context.Context, catalog string, ids []int) error {
	slices.Sort(ids)
	ids = slices.Compact(ids) // a document may have changed several times
	fmt.Printf("%s: one request with %d documents: %v\n", catalog, len(ids), ids)
	return ctx.Err()
}

func register(d *goworker.Daemon) {
	d.Register("Index", index,
		goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxCount(5), goworker.MaxWait(time.Second)),
		goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0))), // one request a catalog at a time
		goworker.Retry(5))
}

// changed is what a web application does when documents change.
func changed(ctx context.Context, jobs goworker.Enqueuer) error {
	for _, change := range []struct {
		catalog string
		ids     []int
	}{{"films", []int{1, 2, 1}}, {"books", []int{3, 4, 5, 6, 7}}} {
		for _, id := range change.ids {
			if _, err := jobs.Enqueue(ctx, goworker.NewJob("search", "Index", change.catalog, id)); err != nil {
				return err
			}
		}
	}
	return nil
}

func main() {
	register(goworker.Default())
	if err := changed(context.Background(), goworker.Default().Client()); err != nil {
		log.Fatal(err)
	}
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
