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
	"github.com/goworker/goworker/inspect"
)

func remind(who string) *goworker.Job {
	return goworker.NewJob("reminders", "Remind", who)
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
	client := d.Client()
	for who, in := range map[string]time.Duration{"Ann": 2 * time.Second, "Bob": time.Hour, "Cid": 2 * time.Hour} {
		// In resque-scheduler's schedule Ruby sees the job; it has no id there.
		_, err := client.Enqueue(ctx, remind(who), goworker.ProcessIn(in), goworker.ResqueScheduler())
		must(err)
	}
	receipt, err := client.Enqueue(ctx, remind("Dot"), goworker.ProcessAt(now.Add(24*time.Hour)))
	must(err)

	in := client.Inspect()
	jobs, err := in.Delayed().List(ctx, time.Time{}, 0, 100)
	must(err)
	for _, j := range jobs {
		fmt.Printf("delayed: %s %s in %s\n", j.Class, j.Args, j.At.Sub(now).Round(time.Second))
	}

	n, err := in.RemoveDelayed(ctx, &inspect.Job{Queue: "reminders", Class: "Remind", Args: []any{"Cid"}})
	must(err)
	fmt.Println("cancelled for Cid:", n)
	n, err = in.PromoteDelayed(ctx, &inspect.Job{Queue: "reminders", Class: "Remind", Args: []any{"Bob"}})
	must(err)
	fmt.Println("not waiting any longer for Bob:", n)
	found, err := in.Delayed().Find(ctx, receipt.ID, now.Add(24*time.Hour))
	must(err)
	n, err = in.Delayed().Reschedule(ctx, now.Add(time.Second), found...)
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
