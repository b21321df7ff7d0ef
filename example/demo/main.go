// Demo shows a worker at work on a machine that has nothing but Go: on a Redis
// inside the process it enqueues some thousand jobs of several classes, runs
// them, retries the failed ones by hand, and sums up.
//
//	go run ./example/demo
//	go run ./example/demo -uri=redis://localhost:6379/ -concurrency=100
//
// This file tells the story; jobs.go has the jobs as a program would write them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/goworker/goworker"
)

// The demo has its own queues and by default its own namespace, so that it
// does not touch other programs' jobs in the same Redis.
const (
	mailQueue  = "demo_mail"
	webQueue   = "demo_web"
	imageQueue = "demo_images"
)

func main() {
	uri := flag.String("uri", "embedded:", "the URI of the Redis server")
	namespace := flag.String("namespace", "goworker-demo:", "the Redis namespace")
	jobs := flag.Int("jobs", 20000, "how many jobs to enqueue")
	concurrency := flag.Int("concurrency", goworker.DefaultConcurrency, "how many jobs run at the same time")
	command := flag.String("command", "", "the program goworker, to show a status of the demo's Redis at the end")
	flag.Parse()
	if *jobs < 1 || *concurrency < 1 {
		fail(errors.New("-jobs and -concurrency must be at least 1"))
	}

	// The terminal is for the progress; the worker logs to a file.
	logFile, err := os.CreateTemp("", "goworker-demo-*.log")
	if err != nil {
		fail(err)
	}
	d := &demo{
		Daemon: goworker.New(goworker.WorkerSettings{
			URI:          *uri,
			Namespace:    *namespace,
			QueuesString: mailQueue + "=3," + webQueue + "=3," + imageQueue + "=1",
			Concurrency:  *concurrency,
			Connections:  producers + 1,
			Logger:       slog.New(slog.NewTextHandler(logFile, nil)),
		}),
		jobs:    *jobs,
		workers: *concurrency,
		tally:   newTally(),
		uri:     *uri,
		command: *command,
	}
	d.RegisterDialer("embedded", d.open)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = d.show(ctx)
	stop()
	d.Close()
	if err != nil {
		fail(err)
	}
	fmt.Printf("What the worker logged: %s\n\n", logFile.Name())
	printHowTo(os.Stdout)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "Error:", err)
	os.Exit(1)
}

// demo is a daemon and its jobs.
type demo struct {
	*goworker.Daemon
	jobs    int // to enqueue
	workers int
	tally   *tally
	shop    shop
	uri     string // of its Redis, for other programs
	command string // the program goworker; "": show no status
}

// show is the whole story.
func (d *demo) show(ctx context.Context) error {
	if err := d.clean(ctx); err != nil {
		return err
	}
	before, err := d.Client().Inspect().Fleet(ctx)
	if err != nil {
		return err
	}
	server := before.Servers[0] // without a password
	if server == "embedded:" {
		server = "a Redis inside this process"
	}
	fmt.Printf("%s jobs for %d workers, on %s\n\n", thousands(d.jobs), d.workers, server)

	d.shop.register(d.Daemon)
	d.Use(d.tally.measure)
	d.AddHooks(d.tally.hooks())

	// Run works until its context ends. If it ends earlier, so does the story.
	running, stop := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() {
		err := d.Run(running)
		stop(errors.Join(errors.New("the worker has stopped"), err))
		ended <- err
	}()

	start := time.Now()
	failures, err := d.work(running, before.Failed)
	took := time.Since(start)
	if err == nil {
		err = d.byHand(running, failures)
	}
	var shown string
	if err == nil {
		shown = d.status(running)
	}
	stop(nil)
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	after, err := d.Client().Inspect().Fleet(ctx)
	if err != nil {
		return err
	}
	d.tally.print(os.Stdout, took)
	fmt.Printf("In Redis, as resque-web shows it: %s processed, %s failures, %d waiting\n",
		thousands(int(after.Processed-before.Processed)), thousands(int(after.Failed-before.Failed)), after.Pending)
	fmt.Print(shown)
	return nil
}
