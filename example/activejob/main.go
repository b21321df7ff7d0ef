// Activejob runs a job that a Rails application enqueues through ActiveJob with
// queue_adapter = :resque:
//
//	class WelcomeJob < ApplicationJob
//	  queue_as :mailers
//	  def perform(user, kind, at:) = …
//	end
//
//	WelcomeJob.perform_later(User.find(1), :newcomer, at: 1.hour.from_now)
//
// It is registered by its own name, not by that of ActiveJob's wrapper.
//
//	go run ./example/activejob -queues=mailers
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/goworker/goworker"
)

// Options are the keyword arguments, which Ruby passes as one Hash, the last.
type Options struct {
	At time.Time `json:"at"`
}

// welcome gets the model as a GlobalID, to be loaded by its id: the job carries
// no data of it. A symbol is a string and a Rails time a time.Time.
func welcome(ctx context.Context, user goworker.GlobalID, kind string, options Options) error {
	job := goworker.FromContext(ctx)
	fmt.Printf("job %s, attempt %d: welcome %s %s of %s as %s at %s\n",
		job.ID, job.Attempt, user.Model, user.ID, user.App, kind, options.At.UTC().Format(time.RFC3339))
	return nil
}

func main() {
	goworker.Register("WelcomeJob", welcome)
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
