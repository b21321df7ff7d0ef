// Calling calls functions of package shop as jobs, and waits for their results. A web server that calls and the worker that
// runs them are usually two programs; here they are two parts of one.
//
//	go run ./example/calling
//	go run ./example/calling -uri=redis://localhost:6379/
//
// With the flag -work it only works, so that programs in other languages can call:
//
//	go run ./example/calling -work -uri=redis://localhost:6379/
//	redis-cli RPUSH resque:queue:shop '{"class":"github.com/goworker/goworker/example/calling/shop.Price","args":["tea",3]}'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/example/calling/shop"
)

func main() {
	uri := flag.String("uri", "embedded:", "the URI of the Redis server")
	work := flag.Bool("work", false, "work until Ctrl-C, and call nothing")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, goworker.WorkerSettings{URI: *uri, Queues: []string{"shop"}, Concurrency: 4, LogLevel: "error"}, *work)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, settings goworker.WorkerSettings, work bool) error {
	d := goworker.New(settings)
	defer d.Close()
	d.RegisterDialer("embedded", embedded.Open)
	shop.Register(d)
	if work {
		return d.Run(ctx)
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- d.Run(ctx)
		stop()
	}()
	client := d.Client() // of a web server: goworker.NewClient(settings, shop.Functions()...)
	err := serve(ctx, client)
	stop()
	return errors.Join(err, <-ended)
}

// serve is what a web server does.
func serve(ctx context.Context, client *goworker.Client) error {
	receipt, err := goworker.Call(ctx, client, shop.Price, "tea", 3)
	if err != nil {
		return err
	}
	cost, err := goworker.Await[int](ctx, client, receipt.ID)
	if err != nil {
		return err
	}
	fmt.Println("three tea cost", cost)

	if _, err := goworker.Call(ctx, client, shop.Price, "tea", "three"); err != nil {
		fmt.Println("refused:", err)
	}

	// What was enqueued before Ship was renamed still runs.
	old := goworker.NewJob("shop", "github.com/goworker/goworker/example/calling/shop.Send", shop.Order{Item: "cup", Pieces: 1}, 1200)
	if receipt, err = client.Enqueue(ctx, old); err != nil {
		return err
	}
	shipped, err := goworker.Await[string](ctx, client, receipt.ID)
	if err != nil {
		return err
	}
	fmt.Println("by its old name:", shipped)

	// A step gets the result of the one before it behind its arguments.
	order := shop.Order{Item: "tea", Pieces: 3}
	workflow, err := client.Start(ctx, goworker.Chain(
		goworker.FuncStep(shop.Price, order.Item, order.Pieces),
		goworker.FuncStep(shop.Ship, order).With(goworker.Named("ship")),
	))
	if err != nil {
		return err
	}
	if shipped, err = goworker.Await[string](ctx, client, workflow.ID); err != nil {
		return err
	}
	fmt.Println("shipped:", shipped)
	return nil
}
