package goworker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
)

// producer is a Client on an in-process Redis.
func producer(opts ...goworker.ClientOption) *goworker.Client {
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: "embedded:"},
		append(opts, goworker.WithDialer("embedded", embedded.Open))...)
	if err != nil {
		panic(err)
	}
	return client
}

// A program that enqueues and works nothing, such as a web server, makes one Client.
func ExampleNewClient() {
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: "embedded:"}, // redis://localhost:6379/
		goworker.WithDialer("embedded", embedded.Open)) // only for the Redis of this example
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // in a web server r.Context()
	defer cancel()
	receipt, err := client.Enqueue(ctx, goworker.NewJob("mail", "SendEmail", "ada@example.com", 3))
	fmt.Printf("id %q, %v\n", receipt.ID, err) // as Ruby would have enqueued it: without an id
	n, err := client.Inspect().QueueSize(ctx, "mail")
	fmt.Println(n, "waits,", err)
	// Output:
	// id "", <nil>
	// 1 waits, <nil>
}

func ExampleClient_Enqueue() {
	client := producer()
	defer client.Close()
	ctx := context.Background()

	receipt, err := client.Enqueue(ctx, goworker.NewJob("mail", "Remind", "Ada"),
		goworker.WithID("order-4711"), goworker.ProcessIn(10*time.Minute), goworker.ExpireAfter(time.Hour))
	switch {
	case errors.Is(err, goworker.ErrUnconfirmed):
		fmt.Println("the job may be there or not; Inspect().Find with its id says which")
	case err != nil:
		fmt.Println("nothing was enqueued:", err)
	default:
		fmt.Println("enqueued", receipt.ID)
	}
	// Output: enqueued order-4711
}

// Jobs for any queues, each with its own options, in one step.
func ExampleClient_EnqueueMany() {
	client := producer()
	defer client.Close()

	unique := []goworker.EnqueueOption{goworker.Unique()}
	receipts, err := client.EnqueueMany(context.Background(),
		goworker.Item{Job: goworker.NewJob("mail", "SendEmail", "ada@example.com")},
		goworker.Item{Job: goworker.NewJob("reports", "Report", "May"), Options: unique},
		goworker.Item{Job: goworker.NewJob("reports", "Report", "May"), Options: unique},
	)
	if err != nil { // then none of them is in its queue
		fmt.Println(err)
	}
	for i, r := range receipts {
		switch {
		case r.Duplicate != nil:
			fmt.Println(i, "was left out: the one before it holds the lock:", r.Duplicate.Holder == receipts[1].ID)
		case r.ID != "":
			fmt.Println(i, "is enqueued with an id")
		default:
			fmt.Println(i, "is enqueued")
		}
	}
	// Output:
	// 0 is enqueued
	// 1 is enqueued with an id
	// 2 was left out: the one before it holds the lock: true
}

func ExampleErrDuplicate() {
	client := producer()
	defer client.Close()

	for range 2 {
		receipt, err := client.Enqueue(context.Background(), goworker.NewJob("reports", "Report", "May"), goworker.Unique())
		var duplicate *goworker.DuplicateError
		switch {
		case errors.As(err, &duplicate): // errors.Is(err, goworker.ErrDuplicate) says only that there is one
			fmt.Println("there is one in", duplicate.Queue, "with an id:", duplicate.Holder != "")
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Println("enqueued, with an id:", receipt.ID != "")
		}
	}
	// Output:
	// enqueued, with an id: true
	// there is one in reports with an id: true
}

// Mail is the argument of SendMail: an object in JSON, a Hash in Ruby.
type Mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

// SendMail stands in a package that both programs import, the one that enqueues and the worker.
var SendMail = goworker.Define[Mail, goworker.None]("SendMail", goworker.OnQueue("mail"), goworker.Retry(5))

func ExampleDefine() {
	d := demo() // works the queue mail
	defer d.Close()

	SendMail.Handle(d, goworker.NoResult(func(ctx context.Context, m Mail) error {
		fmt.Printf("%q to %s\n", m.Subject, m.To)
		return nil
	}))
	// The compiler refuses anything but a Mail here.
	if _, err := SendMail.Enqueue(context.Background(), d.Client(), Mail{To: "ada@example.com", Subject: "Welcome"}); err != nil {
		fmt.Println(err)
	}
	_ = d.Run(context.Background())
	// Output: "Welcome" to ada@example.com
}

// A class with two arguments, as Ruby's perform(path, width) takes them, and a result.
func ExampleArgs2() {
	d := demo()
	defer d.Close()

	type args = goworker.Args2[string, int]
	thumbnail := goworker.Define[args, int]("Thumbnail", goworker.OnQueue("mail"))
	thumbnail.Handle(d, func(ctx context.Context, in args) (bytes int, err error) {
		fmt.Println("a thumbnail of", in.A, "with", in.B, "pixels")
		return 100 * in.B, nil
	})
	d.AddHooks(goworker.Hooks{Success: func(_ context.Context, job *goworker.Delivery) { fmt.Println(job.Result, "bytes") }})

	ctx := context.Background()
	if _, err := thumbnail.Enqueue(ctx, d.Client(), args{A: "cat.png", B: 320}); err != nil {
		fmt.Println(err)
	}
	waits, err := d.Client().Inspect().List(ctx, "mail", "", 1)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%s\n", waits.Jobs[0].Payload) // what Ruby's Resque.enqueue(Thumbnail, "cat.png", 320) writes
	_ = d.Run(ctx)
	// Output:
	// {"class":"Thumbnail","args":["cat.png",320]}
	// a thumbnail of cat.png with 320 pixels
	// 32000 bytes
}

// A class of which one job at a time is enough, whichever program enqueues it.
func ExampleClasses() {
	report := goworker.Define[string, goworker.None]("Report", goworker.OnQueue("reports"), goworker.Unique())
	client := producer(goworker.Classes(report))
	defer client.Close()

	for range 2 {
		_, err := client.Enqueue(context.Background(), &goworker.Job{Payload: goworker.Payload{Class: "Report", Args: []any{"May"}}})
		fmt.Println("a duplicate:", errors.Is(err, goworker.ErrDuplicate))
	}
	// Output:
	// a duplicate: false
	// a duplicate: true
}

// The tenant of a request goes with its jobs, and comes back to their handlers.
func ExampleEnqueueMiddleware() {
	type tenant struct{} // the context key under which the program keeps it
	d := demo()
	defer d.Close()

	d.UseEnqueue(func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
		return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
			meta := map[string]string{"tenant": fmt.Sprint(ctx.Value(tenant{}))}
			for i := range items {
				items[i].Options = append(items[i].Options, goworker.WithMeta(meta))
			}
			return next(ctx, items)
		}
	})
	d.Register("Report", func(ctx context.Context, month string) {
		fmt.Println(month, "for", goworker.FromContext(ctx).Meta["tenant"])
	})

	ctx := context.WithValue(context.Background(), tenant{}, "acme") // of a request
	if _, err := d.Client().Enqueue(ctx, goworker.NewJob("mail", "Report", "May")); err != nil {
		fmt.Println(err)
	}
	_ = d.Run(context.Background())
	// Output: May for acme
}

// Five workers for the queues of two Redises. The Client finds the Redis of a job by its queue.
func ExampleNewShards() {
	s := goworker.NewShards(
		goworker.WorkerSettings{Concurrency: 5, ExitOnComplete: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))},
		goworker.Shard{URI: "embedded:", Queues: []string{"mail", "*"}}, // redis://redis-a:6379
		goworker.Shard{URI: "embedded:", Queues: []string{"video"}},     // redis://redis-b:6379
	)
	defer s.Close()
	s.RegisterDialer("embedded", embedded.Open)

	s.Register("Say", func(ctx context.Context, text string) {
		fmt.Println(goworker.FromContext(ctx).Queue, "says", text)
	})
	_, err := s.Client().EnqueueMany(context.Background(),
		goworker.Item{Job: goworker.NewJob("mail", "Say", "hello")},
		goworker.Item{Job: goworker.NewJob("video", "Say", "action")},
	)
	if err != nil { // the jobs of the other Redis are in their queues all the same
		fmt.Println(err)
	}
	if err := s.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// mail says hello
	// video says action
}

func ExampleShards_Client() {
	s := goworker.NewShards(goworker.WorkerSettings{},
		goworker.Shard{URI: "embedded:", Queues: []string{"mail"}},
		goworker.Shard{URI: "embedded:", Queues: []string{"video"}},
	)
	defer s.Close()
	s.RegisterDialer("embedded", embedded.Open)

	client := s.Client()
	for _, queue := range []string{"mail", "video", "audio"} {
		_, err := client.Enqueue(context.Background(), goworker.NewJob(queue, "Say", "hello"))
		fmt.Println(queue, "is enqueued:", err == nil)
	}
	// Output:
	// mail is enqueued: true
	// video is enqueued: true
	// audio is enqueued: false
}
