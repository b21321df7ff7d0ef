package main

import (
	"context"
	"time"

	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

// answered counts what Answer ran, in the process that works.
var answered probe.Handler

// Answer is a function that programs call by itself.
func Answer(filler string, number int64) (string, error) {
	err := answered("", filler, number)
	return probe.Answer(), err
}

// registerFunc makes Answer known to the process that runs it and to the one that calls it.
func registerFunc(c probe.Config) {
	goworker.RegisterFunc(Answer, goworker.OnQueue(c.Queues[0]), goworker.WithResult(time.Hour))
}

// callFunc calls Answer. The result is kept for an hour, as the class says.
func (p producer) callFunc(j probe.Job) (string, error) {
	receipt, err := goworker.Call(context.Background(), p.client, Answer, j.Args...)
	return receipt.ID, err
}
