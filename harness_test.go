package goworker

import (
	"context"
	"testing"

	"github.com/goworker/goworker/internal/payload"
)

// prepared takes a payload the way a worker gets it.
func prepared(t testing.TB, r *registry, raw string) (*Delivery, error) {
	t.Helper()
	p, err := payload.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("payload %s: %v", raw, err)
	}
	return r.prepare("mail", []byte(raw), p)
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
