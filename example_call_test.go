package goworker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/goworker/goworker"
)

// multiply is what other programs call by its name, github.com/goworker/goworker_test.multiply.
func multiply(_ context.Context, a, b int) (int, error) { return a * b, nil }

// label has a name of its own choice, so that it may be renamed.
func label(text string, numbers ...int) (string, error) { return fmt.Sprint(text, " ", numbers), nil }

// A program registers a function and calls it. The name of its class stands nowhere.
func ExampleCall() {
	d := demo()
	defer d.Close()
	d.RegisterFunc(multiply, goworker.OnQueue("mail"), goworker.WithResult(time.Hour))

	ctx, client := context.Background(), d.Client()
	receipt, err := goworker.Call(ctx, client, multiply, 6, 7)
	if err != nil {
		log.Fatal(err)
	}
	if err := d.Run(ctx); err != nil { // usually of another program
		log.Fatal(err)
	}
	fmt.Println(goworker.Await[int](ctx, client, receipt.ID))

	_, err = goworker.Call(ctx, client, multiply, 6, "seven")
	fmt.Println(err)
	var wrong *goworker.ArgumentError
	fmt.Println(errors.As(err, &wrong), wrong.Index, wrong.Want)
	// Output:
	// 42 <nil>
	// goworker: Call: goworker_test.multiply takes (int, int); argument 2 is a string
	// true 2 int
}

// The functions of a package run on the default daemon too.
func ExampleRegisterFunc() {
	goworker.RegisterFunc(multiply, goworker.OnQueue("numbers"), goworker.Retry(3))
	goworker.RegisterFunc(label, goworker.OnQueue("numbers"), goworker.As("text.Label"))
}

// A web server links the package of the function and registers no handler. Function tells its Client what RegisterFunc tells the worker.
func ExampleFunction() {
	client := producer(goworker.Function(label, goworker.OnQueue("numbers"), goworker.As("text.Label")))
	defer client.Close()

	ctx := context.Background()
	if _, err := goworker.Call(ctx, client, label, "odd", 1, 3, 5); err != nil {
		log.Fatal(err)
	}
	page, err := client.Inspect().List(ctx, "numbers", "", 1)
	for _, waiting := range page.Jobs {
		fmt.Println(string(waiting.Payload))
	}
	fmt.Println(err)
	// Output:
	// {"class":"text.Label","args":["odd",1,3,5]}
	// <nil>
}

// The function had another name when the job was enqueued.
func ExampleAlias() {
	d := demo()
	defer d.Close()
	d.RegisterFunc(multiply, goworker.Alias("github.com/acme/app/numbers.Times"), goworker.WithMiddleware(func(next goworker.Handler) goworker.Handler {
		return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
			err := next.Perform(ctx, d)
			fmt.Println(d.Class, d.Result)
			return err
		})
	}))
	ctx := context.Background()
	if _, err := d.Client().Enqueue(ctx, goworker.NewJob("mail", "github.com/acme/app/numbers.Times", 6, 7)); err != nil {
		log.Fatal(err)
	}
	if err := d.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: github.com/goworker/goworker_test.multiply 42
}

// FuncJob makes the job of a call, for what Call has no place for.
func ExampleClient_FuncJob() {
	client := producer(goworker.Function(multiply, goworker.OnQueue("numbers")))
	defer client.Close()

	ctx := context.Background()
	var items []goworker.Item
	for n := range 3 {
		job, err := client.FuncJob(multiply, n, n)
		if err != nil {
			log.Fatal(err)
		}
		items = append(items, goworker.Item{Job: job, Options: []goworker.EnqueueOption{goworker.ProcessIn(time.Hour)}})
	}
	receipts, err := client.EnqueueMany(ctx, items...)
	fmt.Println(len(receipts), err)
	// Output: 3 <nil>
}

// Steps of a workflow call functions too. The result of a step goes behind the arguments of the next.
func ExampleFuncStep() {
	d := demo()
	defer d.Close()
	d.RegisterFunc(multiply, goworker.OnQueue("mail"))
	d.RegisterFunc(label, goworker.OnQueue("mail"))

	ctx, client := context.Background(), d.Client()
	receipt, err := client.Start(ctx, goworker.Chain(
		goworker.FuncStep(multiply, 2, 3),
		goworker.FuncStep(multiply, 7).With(goworker.Named("product"), goworker.Retry(5)),
		goworker.FuncStep(label, "the answer is"),
	))
	if err != nil {
		log.Fatal(err)
	}
	if err := d.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(goworker.Await[string](ctx, client, receipt.ID))
	// Output: the answer is [42] <nil>
}
