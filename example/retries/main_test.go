package main

import (
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

func TestPayments(t *testing.T) {
	d := goworker.New(goworker.WorkerSettings{})
	register(d)
	pay := func(customer string, opts ...goworkertest.WorkOption) *goworkertest.Result {
		return goworkertest.Work(t, d, goworker.NewJob("payments", "Pay", customer), opts...)
	}
	pay("alice").RequireRetried(t, time.Second)
	pay("alice", goworkertest.Attempt(2)).RequireDone(t)
	pay("bob").RequireFailed(t, errDeclined)
	pay("carol").RequireDiscarded(t, errMade)

	r := goworkertest.New(t, d)
	if _, err := r.Client().Enqueue(t.Context(), goworker.NewJob("payments", "Pay", "alice")); err != nil {
		t.Fatal(err)
	}
	r.Advance(time.Minute)
	runs := r.ResultsOf("Pay")
	if len(runs) != 2 || runs[1].At.Sub(runs[0].At) != time.Second {
		t.Errorf("Alice paid by %v", runs)
	}
	runs[1].RequireDone(t)
}
