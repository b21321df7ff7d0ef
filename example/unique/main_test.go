package main

import (
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

func TestUnique(t *testing.T) {
	d := goworker.New(goworker.WorkerSettings{})
	register(d)
	r := goworkertest.New(t, d)
	if err := enqueue(t.Context(), r.Client()); err != nil {
		t.Fatal(err)
	}
	goworkertest.RequireEnqueued(t, r, goworker.NewJob("unique", "Report"), goworkertest.Times(1))
	last := goworkertest.RequireEnqueued(t, r, goworker.NewJob("unique", "Save", 7, "Word"))
	if last.Replaced == "" {
		t.Errorf("%s has replaced no job", last)
	}
	r.Drain()
	for class, want := range map[string]int{"Report": 1, "Save": 1, "Remind": 2} {
		results := r.ResultsOf(class)
		if len(results) != want {
			t.Errorf("%d runs of %s, want %d", len(results), class, want)
		}
		for _, result := range results {
			result.RequireDone(t)
		}
	}
}
