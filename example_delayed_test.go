package goworker_test

import (
	"fmt"
	"time"

	"github.com/goworker/goworker"
)

func ExampleDaemon_EnqueueAt() {
	d := demo()
	defer d.Close()

	noon := time.Date(2099, 1, 1, 12, 0, 0, 0, time.UTC)
	job := &goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: "Remind", Args: []any{"Ada"}}}
	if err := d.EnqueueAt(noon, job); err != nil {
		fmt.Println(err)
	}
	times, err := d.ScheduledAt(job)
	fmt.Println(times[0].UTC(), err)
	removed, err := d.RemoveDelayed(job) // or Resque.remove_delayed(Remind, "Ada") in Ruby
	fmt.Println(removed, err)
	// Output:
	// 2099-01-01 12:00:00 +0000 UTC <nil>
	// 1 <nil>
}

func ExampleDelayedList_Reschedule() {
	d := demo()
	defer d.Close()

	noon := time.Date(2099, 1, 1, 12, 0, 0, 0, time.UTC)
	job := &goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: "Remind", Args: []any{"Ada"}}}
	receipt, err := d.EnqueueWith(job, goworker.ProcessAt(noon), goworker.WithID("reminder-7"))
	if err != nil {
		fmt.Println(err)
	}
	found, err := d.Delayed().Find(receipt.ID, noon)
	if err != nil {
		fmt.Println(err)
	}
	if n, err := d.Delayed().Reschedule(noon.Add(time.Hour), found...); n != 1 || err != nil {
		fmt.Println("it has left already", err)
	}
	jobs, err := d.Delayed().List(noon, 0, 10)
	for _, j := range jobs {
		fmt.Println(j.At.UTC(), j.Queue, j.Class, string(j.Args[0]), j.ID, err)
	}
	// Output:
	// 2099-01-01 13:00:00 +0000 UTC mail Remind "Ada" reminder-7 <nil>
}
