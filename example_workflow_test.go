package goworker_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
)

// mail is a step for the queue that the daemon of these examples works.
func mail(class string, args ...any) *goworker.Job { return goworker.NewJob("mail", class, args...) }

// Images are fetched side by side, and each is resized. When all are there, a page is made of them.
func ExampleClient_Start() {
	d := demo()
	defer d.Close()
	d.Register("Fetch", func(name string) (string, error) { return name + ".png", nil })
	d.Register("Resize", func(width int, path string) (string, error) { return fmt.Sprintf("%s@%d", path, width), nil })
	d.Register("Page", func(title string, images []string) (string, error) {
		return title + ": " + strings.Join(images, ", "), nil
	})

	one := func(name string) *goworker.Node {
		return goworker.Chain(goworker.Step(mail("Fetch", name)), goworker.Step(mail("Resize", 100)))
	}
	page := goworker.Chord(goworker.Group(one("cat"), one("dog")), goworker.Step(mail("Page", "Pets")))
	ctx, client := context.Background(), d.Client()
	receipt, err := client.Start(ctx, page, goworker.WorkflowName("page"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := d.Run(ctx); err != nil { // usually of another program
		fmt.Println(err)
	}
	fmt.Println(goworker.Await[string](ctx, client, receipt.ID))
	// Output: Pets: cat.png@100, dog.png@100 <nil>
}

// A failure calls the handlers around it, from the innermost outwards. OnComplete comes in each case.
func ExampleNode_OnError() {
	d := demo()
	defer d.Close()
	d.Register("Charge", func() error { return errors.New("the card was refused") })
	d.Register("Ship", func() { fmt.Println("shipped") })
	d.Register("Tell", func(who string, f goworker.StepFailure) { fmt.Printf("%s: %s failed: %s\n", who, f.Class, f.Error) })
	d.Register("Close", func() { fmt.Println("closed") })

	order := goworker.Chain(
		goworker.Step(mail("Charge")).OnError(mail("Tell", "the customer")),
		goworker.Step(mail("Ship")),
	).OnError(mail("Tell", "the shop")).OnComplete(mail("Close"))
	ctx := context.Background()
	if _, err := d.Client().Start(ctx, order); err != nil {
		fmt.Println(err)
		return
	}
	if err := d.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the customer: Charge failed: the card was refused
	// the shop: Charge failed: the card was refused
	// closed
}

// What waits for a group with Collect gets a result or a failure for each member.
func ExampleNode_Collect() {
	d := demo()
	defer d.Close()
	d.Register("Ask", func(shop string) (int, error) {
		if shop == "closed" {
			return 0, errors.New("nobody answers")
		}
		return len(shop), nil
	})
	d.Register("Compare", func(prices []goworker.Collected[int]) {
		for _, p := range prices {
			if p.Error != nil {
				fmt.Println("no price:", p.Error.Error)
			} else {
				fmt.Println("price:", p.Result)
			}
		}
	})

	ask := goworker.Group(goworker.Step(mail("Ask", "east")), goworker.Step(mail("Ask", "closed"))).Collect()
	ctx := context.Background()
	if _, err := d.Client().Start(ctx, goworker.Chord(ask, goworker.Step(mail("Compare")))); err != nil {
		fmt.Println(err)
		return
	}
	if err := d.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// price: 4
	// no price: nobody answers
}

// A graph is for what is no nesting of chains and groups. Each step gets the results of those that it is after.
func ExampleNewGraph() {
	d := demo()
	defer d.Close()
	d.Register("Load", func(table string) (string, error) { return table, nil })
	d.Register("Join", func(tables ...string) (string, error) { return strings.Join(tables, "+"), nil })

	g := goworker.NewGraph().
		Step("users", mail("Load", "users")).
		Step("orders", mail("Load", "orders")).
		Step("items", mail("Load", "items")).
		Step("sales", mail("Join"), goworker.After("orders", "items")).
		Step("report", mail("Join"), goworker.After("users", "sales"))
	ctx, client := context.Background(), d.Client()
	receipt, err := client.Start(ctx, g.Node())
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := d.Run(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(goworker.Await[string](ctx, client, receipt.ID))
	// Output: users+orders+items <nil>
}

// A typed workflow does not compile if a step cannot take the result before it.
func ExampleThen() {
	var (
		fetch = goworker.Define[string, []byte]("Fetch", goworker.OnQueue("mail"))
		count = goworker.Define[[]byte, int]("Count", goworker.OnQueue("mail"))
		sum   = goworker.Define[[]int, int]("Sum", goworker.OnQueue("mail"))
	)
	d := demo()
	defer d.Close()
	fetch.Handle(d, func(_ context.Context, name string) ([]byte, error) { return []byte(name), nil })
	count.Handle(d, func(_ context.Context, text []byte) (int, error) { return len(text), nil })
	sum.Handle(d, func(_ context.Context, all []int) (total int, err error) {
		for _, n := range all {
			total += n
		}
		return total, nil
	})

	one := func(name string) goworker.Typed[int] { return goworker.Then(fetch.Step(name), count) }
	all := goworker.Then(goworker.All(one("a"), one("bcd")), sum)
	ctx, client := context.Background(), d.Client()
	receipt, err := client.Start(ctx, all.Node())
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := d.Run(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sum.Await(ctx, client, receipt.ID))
	// Output: 4 <nil>
}

// A member of a batch adds the others. It may be killed and run again: it goes on behind what it has added.
func ExampleCurrentBatch() {
	rows := func(n int) iter.Seq2[goworker.Item, error] {
		return func(yield func(goworker.Item, error) bool) {
			for i := range n {
				if !yield(goworker.Item{Job: mail("Import", i)}, nil) {
					return
				}
			}
		}
	}
	d := goworker.New(goworker.WorkerSettings{URI: "embedded:", Queues: []string{"mail"}, LogLevel: "error"})
	d.RegisterDialer("embedded", embedded.Open)
	defer d.Close()
	imported := make(chan int, 100)
	d.Register("Load", func(ctx context.Context, n int) error { return goworker.CurrentBatch(ctx).AddSeq(ctx, rows(n)) })
	d.Register("Import", func(row int) { imported <- row })
	d.Register("Report", func() { fmt.Println(len(imported), "rows were imported") })

	ctx, client := context.Background(), d.Client()
	batch, err := client.NewBatch(ctx, goworker.Batch{Name: "import", OnSuccess: goworker.Step(mail("Report"))}, goworker.WithID("import-7"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := errors.Join(batch.Add(ctx, goworker.Step(mail("Load", 50))), batch.Close(ctx)); err != nil {
		fmt.Println(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- d.Run(running) }() // usually of another program
	if _, err := client.Wait(ctx, batch.ID()); err != nil {
		fmt.Println(err)
	}
	stop()
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
	// Output: 50 rows were imported
}

// Each night a workflow starts, however many processes have the schedule.
func ExampleDaemon_ScheduleWorkflow() {
	d := demo()
	defer d.Close()
	nightly := func() *goworker.Node {
		return goworker.Chain(goworker.Step(mail("Collect")), goworker.Step(mail("Send"), goworker.Retry(5)))
	}
	if err := d.ScheduleWorkflow("nightly", "0 3 * * * Europe/Berlin", nightly, goworker.UniqueAs("nightly")); err != nil {
		fmt.Println(err)
	}
	schedules, err := d.Schedules()
	fmt.Println(schedules[0].Name, schedules[0].Recurring.Cron, err)
	// Output: nightly 0 3 * * * Europe/Berlin <nil>
}
