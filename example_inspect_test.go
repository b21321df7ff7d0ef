package goworker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
)

// failed is a daemon of whose jobs three have failed.
func failed() (d *goworker.Daemon, repair func()) {
	d = demo()
	broken := true
	d.Register("Mail", func(to string) error {
		if broken {
			return errors.New("dial tcp: i/o timeout")
		}
		fmt.Println("mail to", to)
		return nil
	})
	d.Register("Sum", func(a, b int) error { return errors.New("out of paper") })
	_, err := d.Client().EnqueueMany(context.Background(),
		goworker.Item{Job: goworker.NewJob("mail", "Mail", "Ada")},
		goworker.Item{Job: goworker.NewJob("mail", "Mail", "Grace")},
		goworker.Item{Job: goworker.NewJob("mail", "Sum", 1, 2)},
	)
	if err != nil {
		panic(err)
	}
	_ = d.Run(context.Background())
	return d, func() { broken = false }
}

// A queue in pages, the job that runs next first.
func ExampleClient_Inspect() {
	client := producer()
	defer client.Close()
	ctx := context.Background()
	for _, name := range []string{"Ada", "Grace", "Mary"} {
		if _, err := client.Enqueue(ctx, goworker.NewJob("mail", "Mail", name)); err != nil {
			fmt.Println(err)
		}
	}

	in := client.Inspect()
	for after := ""; ; {
		page, err := in.List(ctx, "mail", after, 2)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, job := range page.Jobs {
			fmt.Printf("%s %s\n", job.Class, job.Args)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	// Output:
	// Mail ["Ada"]
	// Mail ["Grace"]
	// Mail ["Mary"]
}

// A job is found wherever it is: by its id, or by class and arguments. Then it is changed.
func ExampleClient_Inspect_find() {
	client := producer()
	defer client.Close()
	ctx := context.Background()
	receipt, err := client.Enqueue(ctx, goworker.NewJob("mail", "Remind", "Ada"), goworker.ProcessIn(time.Hour))
	if err != nil {
		fmt.Println(err)
	}

	in := client.Inspect().By("ada", "INC-12") // for the audit: who changes something, and why
	page, err := in.Find(ctx, inspect.Query{ID: receipt.ID}, "", 10)
	if err != nil || len(page.Jobs) == 0 {
		fmt.Println("it has ended", err)
		return
	}
	fmt.Println(page.Jobs[0].Class, "is", page.Jobs[0].Place)
	n, err := in.RunNow(ctx, inspect.Head, page.Jobs...)
	fmt.Println(n, "runs now,", err)
	page, err = in.Find(ctx, inspect.Query{Class: "Remind", Args: []any{"Ada"}}, "", 10)
	fmt.Println(page.Jobs[0].Class, "is", page.Jobs[0].Place, "in", page.Jobs[0].Queue, err)
	// Output:
	// Remind is delayed
	// 1 runs now, <nil>
	// Remind is queued in mail <nil>
}

func ExampleClient_Inspect_failures() {
	d, repair := failed()
	defer d.Close()
	ctx := context.Background()

	failures := d.Client().Inspect().Failures()
	groups, err := failures.Groups(ctx, inspect.FailureFilter{})
	for _, g := range groups {
		fmt.Println(g.Count, g.Class, g.Exception, err)
	}
	repair()
	n, err := failures.RetryWhere(ctx, inspect.FailureFilter{Class: "Mail", Text: "timeout"})
	fmt.Println("retried", n, err)
	_ = d.Run(ctx)
	n, err = failures.RemoveWhere(ctx, inspect.FailureFilter{Retried: true})
	fmt.Println("removed", n, err)
	// Output:
	// 2 Mail Error <nil>
	// 1 Sum Error <nil>
	// retried 2 <nil>
	// mail to Ada
	// mail to Grace
	// removed 2 <nil>
}

func ExampleClient_Inspect_search() {
	d, _ := failed()
	defer d.Close()

	failures := d.Client().Inspect().Failures()
	for after := ""; ; {
		page, next, err := failures.Search(context.Background(), inspect.FailureFilter{Text: "timeout"}, after, 20)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, f := range page {
			fmt.Printf("%s %s: %s\n", f.Class, f.Payload, f.Error) // f.ID names it
		}
		if after = next; after == "" {
			break
		}
	}
	// Output:
	// Mail {"class":"Mail","args":["Grace"]}: dial tcp: i/o timeout
	// Mail {"class":"Mail","args":["Ada"]}: dial tcp: i/o timeout
}

func ExampleErrRetried() {
	d, repair := failed()
	defer d.Close()
	ctx := context.Background()

	failures := d.Client().Inspect().Failures()
	page, _, err := failures.Search(ctx, inspect.FailureFilter{Class: "Mail"}, "", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	id := page[0].ID // the log line of the job names it; keep it in a link, a ticket, a chat
	repair()
	_, err = failures.RetryID(ctx, id)
	fmt.Println(err)
	_, err = failures.RetryID(ctx, id) // a second operator presses the button, too
	fmt.Println(errors.Is(err, goworker.ErrRetried))
	_ = d.Run(ctx)
	// Output:
	// <nil>
	// true
	// mail to Grace
}

// A job that resque-scheduler's tools see, delayed and cancelled.
func ExampleResqueScheduler() {
	client := producer()
	defer client.Close()
	ctx := context.Background()

	noon := time.Date(2099, 1, 1, 12, 0, 0, 0, time.UTC)
	if _, err := client.Enqueue(ctx, goworker.NewJob("mail", "Remind", "Ada"), goworker.ProcessAt(noon), goworker.ResqueScheduler()); err != nil {
		fmt.Println(err)
	}
	same := &inspect.Job{Queue: "mail", Class: "Remind", Args: []any{"Ada"}}
	times, err := client.Inspect().DelayedUntil(ctx, same)
	fmt.Println(times[0].UTC(), err)
	removed, err := client.Inspect().RemoveDelayed(ctx, same) // or Resque.remove_delayed(Remind, "Ada") in Ruby
	fmt.Println(removed, err)
	// Output:
	// 2099-01-01 12:00:00 +0000 UTC <nil>
	// 1 <nil>
}

func ExampleProcessAt() {
	client := producer()
	defer client.Close()
	ctx := context.Background()

	noon := time.Date(2099, 1, 1, 12, 0, 0, 0, time.UTC)
	receipt, err := client.Enqueue(ctx, goworker.NewJob("mail", "Remind", "Ada"), goworker.ProcessAt(noon), goworker.WithID("reminder-7"))
	if err != nil {
		fmt.Println(err)
	}
	delayed := client.Inspect().Delayed()
	found, err := delayed.Find(ctx, receipt.ID, noon)
	if err != nil {
		fmt.Println(err)
	}
	if n, err := delayed.Reschedule(ctx, noon.Add(time.Hour), found...); n != 1 || err != nil {
		fmt.Println("it has left already", err)
	}
	jobs, err := delayed.List(ctx, noon, 0, 10)
	for _, j := range jobs {
		fmt.Println(j.At.UTC(), j.Queue, j.Class, string(j.Args[0]), j.ID, err)
	}
	// Output:
	// 2099-01-01 13:00:00 +0000 UTC mail Remind "Ada" reminder-7 <nil>
}

// A job that nobody wants any more does not run.
func ExampleClient_Cancel() {
	d := demo()
	defer d.Close()
	d.Register("Mail", func(to string) { fmt.Println("mail to", to) })
	ctx, client := context.Background(), d.Client()
	for _, name := range []string{"Ada", "Grace"} {
		if _, err := client.Enqueue(ctx, goworker.NewJob("mail", "Mail", name), goworker.WithID(name)); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(client.Cancel(ctx, "Ada"))
	fmt.Println(client.Cancel(ctx, "Mary"))
	if err := d.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// goworker: cancelling Mary: no such job is known: no job waits or runs under this id; force the cancel if the job is still to come
	// mail to Grace
}
