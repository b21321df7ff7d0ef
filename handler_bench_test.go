package goworker

import (
	"context"
	"testing"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
)

// BenchmarkPerform is one job from its parsed payload to the handler's return.
func BenchmarkPerform(b *testing.B) {
	tests := []struct {
		name string
		fn   any
		args string
	}{
		{"goworker", func(string, ...interface{}) error { return nil }, `[]`},
		{"goworker string", func(string, ...interface{}) error { return nil }, `["someone"]`},
		{"none", func() error { return nil }, `[]`},
		{"context", func(context.Context) error { return nil }, `[]`},
		{"context string", func(context.Context, string) error { return nil }, `["someone"]`},
		{"context string int", func(context.Context, string, int) error { return nil }, `["someone",5]`},
		{"struct", func(context.Context, customer) error { return nil }, `[{"name":"A","age":3}]`},
		{"delivery", func(context.Context, *Delivery) error { return nil }, `[]`},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			r := newRegistry()
			r.register("Noop", tt.fn, nil)
			raw := []byte(`{"class":"Noop","args":` + tt.args + `}`)
			p, err := payload.Parse(raw)
			if err != nil {
				b.Fatal(err)
			}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				c := r.Class(p.Class)
				j := outcome.Job{Name: p.Class, Class: c, Handler: c.Handler, ID: p.ID, Attempt: p.Attempt, Args: p.Args}
				j.Queue, j.Payload = "q", raw
				if err := r.delivery(&j, nil).perform(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
