package goworkertest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

// gathers is a daemon that indexes documents of a catalog together, and what it was called with.
func gathers() (d *goworker.Daemon, said *[]string) {
	said = new([]string)
	d = goworker.New(goworker.WorkerSettings{})
	d.Register("Index", func(_ context.Context, catalog string, ids []int) {
		*said = append(*said, fmt.Sprint(catalog, " ", ids))
	}, goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxCount(3), goworker.MaxWait(5*time.Second), goworker.Quiet(2*time.Second)))
	return d, said
}

// Items are gathered by Drain, and flushed by the Runner's clock or when their group is full.
func TestAggregate(t *testing.T) {
	t.Parallel()
	d, said := gathers()
	r := goworkertest.New(t, d)
	enqueue := func(catalog string, ids ...int) {
		for _, id := range ids {
			if _, err := r.Client().Enqueue(t.Context(), goworker.NewJob("low", "Index", catalog, id)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(*said, want) {
			t.Errorf("%s: %q, want %q", what, *said, want)
		}
		*said = nil
	}
	enqueue("books", 1, 2, 3, 4)
	enqueue("films", 5)
	results := r.Drain()
	want("a full group", "books [1 2 3]")
	gathered := 0
	for _, result := range results {
		if result.State == goworkertest.Gathered {
			gathered++
		}
	}
	if gathered != 5 || len(results) != 6 {
		t.Errorf("%d of %d were gathered", gathered, len(results))
	}
	r.Advance(time.Second)
	enqueue("books", 6)
	r.Advance(1500 * time.Millisecond)
	want("a quiet one", "films [5]")
	r.Advance(time.Second)
	want("the other one", "books [4 6]")
	for n := range 6 {
		enqueue("books", n)
		r.Advance(time.Second)
	}
	want("full again", "books [0 1 2]", "books [3 4 5]")
}

// Work runs an item alone: there is no Redis.
func TestAggregateWork(t *testing.T) {
	t.Parallel()
	d, said := gathers()
	goworkertest.Work(t, d, goworker.NewJob("low", "Index", "books", 7)).RequireDone(t)
	goworkertest.WorkPayload(t, d, "low", `{"class":"Index","args":["films",[1,2]],"gathered":2}`).RequireDone(t)
	if want := []string{"books [7]", "films [1 2]"}; !slices.Equal(*said, want) {
		t.Errorf("%q", *said)
	}
}
