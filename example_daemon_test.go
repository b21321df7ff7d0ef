package goworker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
)

// demo is a daemon on an in-process Redis that ends when its queues are empty.
func demo() *goworker.Daemon {
	d := goworker.New(goworker.WorkerSettings{
		URI:            "embedded:",
		Queues:         []string{"mail"},
		Concurrency:    1,
		ExitOnComplete: true,
		Logger:         slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	d.RegisterDialer("embedded", embedded.Open)
	return d
}

func Example() {
	d := demo() // on a real Redis: goworker.New(goworker.WorkerSettings{URI: …}), or no Daemon at all
	defer d.Close()

	d.Register("Greet", func(ctx context.Context, name string, times int) error {
		for range times {
			fmt.Println("hello", name)
		}
		return nil
	})
	if _, err := d.Client().Enqueue(context.Background(), goworker.NewJob("mail", "Greet", "Ada", 2)); err != nil {
		fmt.Println(err)
	}
	if err := d.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// hello Ada
	// hello Ada
}

func ExampleDaemon_Use() {
	d := demo()
	defer d.Close()

	d.Use(func(next goworker.Handler) goworker.Handler {
		return goworker.HandlerFunc(func(ctx context.Context, job *goworker.Delivery) error {
			fmt.Println("before", job.Class)
			defer fmt.Println("after", job.Class)
			return next.Perform(ctx, job)
		})
	})
	d.Register("Noop", func() {})
	_, _ = d.Client().Enqueue(context.Background(), goworker.NewJob("mail", "Noop"))
	_ = d.Run(context.Background())
	// Output:
	// before Noop
	// after Noop
}

func ExampleDaemon_AddPart() {
	d := demo()
	defer d.Close()

	d.AddPart(goworker.Part{
		Name:  "database",
		Start: func(context.Context) error { fmt.Println("database up"); return nil },
		Stop:  func(context.Context) error { fmt.Println("database down"); return nil },
	})
	d.Register("Report", func() { fmt.Println("reporting") })
	_, _ = d.Client().Enqueue(context.Background(), goworker.NewJob("mail", "Report"))
	_ = d.Run(context.Background())
	// Output:
	// database up
	// reporting
	// database down
}

// A part that works until its context ends, and is started again when it fails.
func ExampleDaemon_AddPart_run() {
	d := demo()
	defer d.Close()

	d.Register("Greet", func(name string) { fmt.Println("hello", name) })
	tries := 0
	d.AddPart(goworker.Part{
		Name:       "prices",
		Restart:    &goworker.Backoff{Min: time.Millisecond},
		AwaitReady: true,
		Run: func(ctx context.Context) error {
			if tries++; tries == 1 {
				return errors.New("the exchange is closed")
			}
			goworker.PartReady(ctx)
			<-ctx.Done()
			return nil
		},
		Info: func() any { return "7 prices" },
	})
	d.OnReady(func() {
		for _, p := range d.PartStates() {
			if p.Name == "prices" {
				fmt.Println(p.Name, p.State, p.Restarts, p.Err, p.Info)
			}
		}
	})
	d.OnStopping(func() { fmt.Println("stopping") })
	_ = d.Run(context.Background())
	// Output:
	// prices running 1 the exchange is closed 7 prices
	// stopping
}

// Without a Restart, a part that fails ends the daemon in order.
func ExamplePartError() {
	d := demo()
	defer d.Close()

	d.Register("Greet", func(name string) { fmt.Println("hello", name) })
	d.AddPart(goworker.Part{Name: "prices", Run: func(context.Context) error { return errors.New("no licence") }})
	err := d.Run(context.Background())
	var failed *goworker.PartError
	fmt.Println(errors.As(err, &failed), err)
	// Output: true goworker: part prices failed: no licence
}

func ExampleDaemon_Health() {
	d := demo()
	defer d.Close()

	ready := func(w http.ResponseWriter, _ *http.Request) { // for a probe of readiness
		if h := d.Health(); !h.Ready {
			http.Error(w, strings.Join(h.Reasons, "; "), http.StatusServiceUnavailable)
		}
	}
	w := httptest.NewRecorder()
	ready(w, nil)
	fmt.Print(w.Code, " ", w.Body)
	// Output: 503 the daemon does not run: call Run or Work
}

func ExampleDaemon_SetGate() {
	d := demo()
	defer d.Close()

	d.Register("Greet", func(name string) { fmt.Println("hello", name) })
	opens := time.Now().Add(500 * time.Millisecond)
	d.SetGate(func(context.Context) error {
		if time.Now().Before(opens) {
			return errors.New("the shop is closed")
		}
		return nil
	})
	if _, err := d.Client().Enqueue(context.Background(), goworker.NewJob("mail", "Greet", "Ada")); err != nil {
		fmt.Println(err)
	}
	_ = d.Run(context.Background())
	fmt.Println("in time:", !time.Now().Before(opens))
	// Output:
	// hello Ada
	// in time: true
}

func ExampleDaemon_Stats() {
	d := demo()
	defer d.Close()

	d.Register("Greet", func(name string) error { return errors.New("nobody is called " + name) })
	if _, err := d.Client().Enqueue(context.Background(), goworker.NewJob("mail", "Greet", "Ada")); err != nil {
		fmt.Println(err)
	}
	_ = d.Run(context.Background())
	stats := d.Stats()
	fmt.Println(stats.Jobs.Failed, stats.Queues["mail"].Failed, stats.Classes["Greet"].Runs)
	// Output: 1 1 1
}

func ExampleDaemon_Classes() {
	d := goworker.New(goworker.WorkerSettings{})
	d.Register("Greet", func(name string) {}, goworker.Timeout(time.Minute), goworker.MaxRunning(3))
	for _, class := range d.Classes() {
		fmt.Println(class.Name, class.Options)
	}
	// Output: Greet [how long a run may take: Timeout(1m0s) how many run: at most 3 at a time]
}
