package main

import (
	"context"
	"time"

	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

// answering makes a handler return a value where its class is to, or its variant.
func answering(class, variant string, handler probe.Handler) any {
	if class == "Noop" && (variant == "results" || variant == "chord") {
		return func(filler string, number int64) (int64, error) { return number, handler("", filler, number) }
	}
	if !probe.Answers(class) {
		return handler
	}
	return func(filler string, number int64) (string, error) {
		err := handler("", filler, number)
		return probe.Answer(), err
	}
}

// Call pushes a job whose result is kept for an hour.
func (p producer) Call(j probe.Job) (string, error) {
	if p.variant == "called" {
		return p.callFunc(j)
	}
	opts := []goworker.EnqueueOption{goworker.WithResult(time.Hour)}
	if j.ID != "" {
		opts = append(opts, goworker.WithID(j.ID))
	}
	receipt, err := p.client.Enqueue(context.Background(), job(j), opts...)
	return receipt.ID, err
}

func (p producer) Await(id string) (string, error) {
	return goworker.Await[string](context.Background(), p.client, id)
}
