package goworker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/goworker/goworker"
)

// The form goworker has always had: the queue, then the arguments as
// encoding/json decodes them.
func ExampleRegister() {
	goworker.Register("Hello", func(queue string, args ...interface{}) error {
		fmt.Printf("from %s: %v\n", queue, args)
		return nil
	})
}

// Arguments are decoded into the function's parameters, the Ruby job being
//
//	Resque.enqueue(SendEmail, "ann@example.com", 3)
func ExampleRegister_typed() {
	goworker.Register("SendEmail", func(ctx context.Context, to string, retries int) error {
		slog.InfoContext(ctx, "sending", "to", to, "retries", retries)
		return nil
	}, goworker.Timeout(time.Minute))
}

// A hash, or PHP's one array, is a struct or a map:
//
//	Resque::enqueue('images', 'Thumbnail', ['path' => 'a.png', 'width' => 200]);
func ExampleRegister_struct() {
	type thumbnail struct {
		Path  string `json:"path"`
		Width int    `json:"width"`
	}
	goworker.Register("Thumbnail", func(ctx context.Context, in thumbnail) (string, error) {
		if in.Width <= 0 {
			return "", errors.New("the width must be positive")
		}
		// The id is the one the producer gave; Resque's Ruby client gives none.
		slog.InfoContext(ctx, "thumbnail", "id", goworker.FromContext(ctx).ID)
		return in.Path + ".small", nil
	})
}

// A job of any shape: the last parameter takes what is left, uninterpreted.
func ExampleRegister_variadic() {
	goworker.Register("Audit", func(event string, details ...json.RawMessage) error {
		for _, d := range details {
			fmt.Println(event, string(d))
		}
		return nil
	})
}

// Whole jobs, with numbers as they were written.
func ExampleRegister_job() {
	goworker.Register("Forward", func(ctx context.Context, job *goworker.Job) error {
		if goworker.FromContext(ctx).Recovered > 0 {
			slog.WarnContext(ctx, "part of this may have been done", "class", job.Payload.Class)
		}
		return nil
	}, goworker.UseNumber())
}

// A Rails job, WelcomeJob.perform_later(user, greeting: "hi"), is registered by
// its own class. Models arrive as GlobalIDs, keywords as one object.
func ExampleRegister_activeJob() {
	goworker.Register("WelcomeJob", func(ctx context.Context, user goworker.GlobalID, opts struct{ Greeting string }) error {
		slog.InfoContext(ctx, opts.Greeting, "model", user.Model, "id", user.ID)
		return nil
	})
}

// Middleware sees every run of a class from outside.
func ExampleWithMiddleware() {
	timed := func(next goworker.Handler) goworker.Handler {
		return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
			start := time.Now()
			err := next.Perform(ctx, d)
			slog.InfoContext(ctx, "job", "class", d.Class, "took", time.Since(start), "result", d.Result)
			return err
		})
	}
	goworker.Register("Report", func(month string) (int, error) { return len(month), nil }, goworker.WithMiddleware(timed))
}

func ExampleMiddleware() {
	secondTry := func(next goworker.Handler) goworker.Handler {
		return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
			err := next.Perform(ctx, d)
			if err != nil {
				fmt.Println("once more:", err)
				err = next.Perform(ctx, d)
			}
			return err
		})
	}
	calls := 0
	h := secondTry(goworker.HandlerFunc(func(context.Context, *goworker.Delivery) error {
		if calls++; calls == 1 {
			return errors.New("no answer")
		}
		return nil
	}))
	fmt.Println(h.Perform(context.Background(), &goworker.Delivery{Class: "Fetch"}))
	// Output:
	// once more: no answer
	// <nil>
}

// A handler that asks for its Delivery is tested with NewContext.
func ExampleNewContext() {
	handler := func(ctx context.Context, name string) error {
		fmt.Println(name, "attempt", goworker.FromContext(ctx).Attempt)
		return nil
	}
	ctx := goworker.NewContext(context.Background(), &goworker.Delivery{Attempt: 2})
	_ = handler(ctx, "Ann")
	// Output: Ann attempt 2
}

func ExampleGlobalID() {
	var id goworker.GlobalID
	err := json.Unmarshal([]byte(`"gid://shop/Admin::User/42"`), &id)
	fmt.Println(id.App, id.Model, id.ID, err)
	fmt.Println(id)
	// Output:
	// shop Admin::User 42 <nil>
	// gid://shop/Admin::User/42
}

func ExampleDelivery_Job() {
	d := &goworker.Delivery{Queue: "mail", Class: "Hello", Args: []json.RawMessage{[]byte(`"Ann"`), []byte(`3`)}}
	fmt.Printf("%+v\n", *d.Job())
	// Output: {Queue:mail Payload:{Class:Hello Args:[Ann 3]}}
}

// Each job runs in a process of its own, which is killed when it hangs or eats memory.
func ExampleIsolated() {
	goworker.Register("Convert", func(ctx context.Context, file string) error {
		// What crashes or never returns here is this job's failure only.
		return nil
	},
		goworker.Timeout(time.Minute), // its context ends
		goworker.Isolated(goworker.HardTimeout(90*time.Second), goworker.MaxMemory(512<<20)),
	)
	goworker.AddHooks(goworker.Hooks{Failure: func(ctx context.Context, d *goworker.Delivery, err error) {
		var crash *goworker.CrashError
		var late *goworker.TimeLimitError
		switch {
		case errors.As(err, &crash):
			slog.ErrorContext(ctx, "crashed", "status", crash.ExitCode, "signal", crash.Signal)
		case errors.As(err, &late):
			slog.ErrorContext(ctx, "killed", "limit", late.Limit)
		}
	}})
}

// Many short jobs share a process, which ends after a thousand of them, or with the first that harms it. On Linux.
func ExampleReuse() {
	goworker.Register("Resize", func(ctx context.Context, file string) error { return nil },
		goworker.Isolated(goworker.Reuse(1000), goworker.MaxMemory(512<<20)),
	)
}

// What only the daemon needs is left out in the children of isolated jobs.
func ExampleIsolatedChild() {
	if !goworker.IsolatedChild() {
		slog.Info("opening the metrics' port")
	}
	// Output:
}

// A number to watch: workers that jobs hold beyond their time limits.
func ExampleStuckJobs() {
	for _, job := range goworker.StuckJobs() {
		slog.Warn("stuck", "class", job.Class, "since", job.Started, "limit", job.Limit)
	}
	// Output:
}

type tenantKey struct{}

// The tenant of a request and its traceparent follow the jobs that the request enqueues: middleware
// around enqueueing writes what the context has, and middleware around handlers puts it into the
// context of the run.
func ExampleWithMeta() {
	d := demo()
	defer d.Close()
	d.UseEnqueue(func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
		return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
			if tenant, ok := ctx.Value(tenantKey{}).(string); ok {
				meta := goworker.WithMeta(map[string]string{
					"tenant":      tenant,
					"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", // of the context's span
				})
				for i := range items {
					items[i].Options = append(items[i].Options, meta)
				}
			}
			return next(ctx, items)
		}
	})
	d.Use(func(next goworker.Handler) goworker.Handler {
		return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
			return next.Perform(context.WithValue(ctx, tenantKey{}, d.Meta["tenant"]), d)
		})
	})
	d.Register("Report", func(ctx context.Context, month string) {
		fmt.Println("report of", month, "for", ctx.Value(tenantKey{}))
		fmt.Println("traced by", goworker.FromContext(ctx).Meta["traceparent"])
	})

	request := context.WithValue(context.Background(), tenantKey{}, "acme")
	if _, err := d.Client().Enqueue(request, goworker.NewJob("mail", "Report", "October")); err != nil {
		fmt.Println(err)
	}
	if err := d.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// report of October for acme
	// traced by 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
}
