// Delayed enqueues jobs for later, looks at them, changes its mind about some, and runs
// the others when their times come.
//
//	go run ./example/delayed
//	REDIS_URL=redis://cache:6379/2 go run ./example/delayed
//
// While it runs, Ruby's resque-web shows the plain ones on its page Delayed, and
// Resque.remove_delayed cancels them.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/goworker/goworker"
)

func remind(who string) *goworker.Job {
	return &goworker.Job{Queue: "reminders", Payload: goworker.Payload{Class: "Remind", Args: []any{who}}}
}

func main() {
	d := goworker.New(goworker.WorkerSettings{QueuesString: "reminders", Concurrency: 2, LogLevel: "warn"})
	defer d.Close()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()

	left := make(chan struct{}, 3)
	d.Register("Remind", func(who string) {
		fmt.Println("time to call", who)
		left <- struct{}{}
	})

	now := time.Now()
	must(d.EnqueueIn(2*time.Second, remind("Ann")))
	must(d.EnqueueAt(now.Add(time.Hour), remind("Bob")))
	must(d.EnqueueAt(now.Add(2*time.Hour), remind("Cid")))
	// A job with more than class and arguments has an id to find it by.
	receipt, err := d.EnqueueWith(remind("Dot"), goworker.ProcessAt(now.Add(24*time.Hour)))
	must(err)

	jobs, err := d.Delayed().List(time.Time{}, 0, 100)
	must(err)
	for _, j := range jobs {
		fmt.Printf("delayed: %s %s in %s\n", j.Class, j.Args, j.At.Sub(now).Round(time.Second))
	}

	n, err := d.RemoveDelayed(remind("Cid"))
	must(err)
	fmt.Println("cancelled for Cid:", n)
	n, err = d.EnqueueDelayed(remind("Bob"))
	must(err)
	fmt.Println("not waiting any longer for Bob:", n)
	found, err := d.Delayed().Find(receipt.ID, now.Add(24*time.Hour))
	must(err)
	n, err = d.Delayed().Reschedule(now.Add(time.Second), found...)
	must(err)
	fmt.Println("sooner for Dot:", n)

	go func() {
		for range cap(left) {
			<-left
		}
		done()
	}()
	must(d.Run(ctx))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
