package goworker

import (
	"context"
	"testing"

	"github.com/goworker/goworker/internal/resque"
)

// prepared takes a payload the way a worker gets it.
func prepared(t testing.TB, r *registry, payload string) (*Delivery, error) {
	t.Helper()
	p, err := resque.ParsePayload([]byte(payload))
	if err != nil {
		t.Fatalf("payload %s: %v", payload, err)
	}
	return r.prepare("mail", []byte(payload), p)
}

// runJob registers fn as class C and performs one job with these arguments.
func runJob(t testing.TB, fn any, args string, opts ...Option) (*Delivery, error) {
	t.Helper()
	var r registry
	r.register("C", fn, opts)
	d, err := prepared(t, &r, `{"class":"C","args":`+args+`}`)
	if err != nil {
		t.Fatal(err)
	}
	return d, d.perform(context.Background())
}
