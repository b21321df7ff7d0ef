// Pipeline makes a contact sheet of pictures, as one workflow with a group inside a group: each picture is fetched, shrunk to
// three widths side by side, and the three are put on a strip; when all strips are there, they become one sheet.
//
//	go run ./example/pipeline
//	go run ./example/pipeline -uri=redis://localhost:6379/ -pictures=50 -out=sheet.png
//
//	fetch 1 ─┬─▶ shrink to 48 ──┬─▶ strip 1 ─┐
//	         ├─▶ shrink to 96 ──┤            │
//	         └─▶ shrink to 192 ─┘            ├─▶ sheet
//	fetch 2 ─┬─▶ …                           │
//	         └─▶ …               ─▶ strip 2 ─┘
//
// This file has the workflow, images.go the jobs.
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
)

var widths = []int{48, 96, 192}

// sheet is the workflow. A result goes behind the arguments of what comes next: Shrink is called with a width and the
// path that Fetch returned, Strip with a number and the list of the three paths.
func sheet(pictures int, out string) *goworker.Node {
	var strips []*goworker.Node
	for i := range pictures {
		var sizes []*goworker.Node
		for _, width := range widths {
			sizes = append(sizes, goworker.Step(goworker.NewJob("images", "Shrink", width)))
		}
		strips = append(strips, goworker.Chain(
			goworker.Step(goworker.NewJob("net", "Fetch", i)),
			goworker.Group(sizes...),
			goworker.Step(goworker.NewJob("images", "Strip", i)),
		))
	}
	return goworker.Chord(goworker.Group(strips...), goworker.Step(goworker.NewJob("images", "Sheet", out))).
		OnError(goworker.NewJob("ops", "Alert", out))
}

// register gives a daemon the jobs. They keep their files in a folder that all workers reach.
func register(d *goworker.Daemon, folder string) {
	s := store(folder)
	d.Register("Fetch", s.fetch, goworker.Retry(2, goworker.Delays{100 * time.Millisecond}))
	d.Register("Shrink", s.shrink)
	d.Register("Strip", s.strip)
	d.Register("Sheet", s.sheet)
	d.Register("Alert", func(out string, f goworker.StepFailure) {
		fmt.Printf("there will be no %s: %s failed: %s\n", out, f.Class, f.Error)
	})
}

func main() {
	uri := flag.String("uri", "embedded:", "the URI of the Redis server")
	pictures := flag.Int("pictures", 4, "how many pictures there are")
	out := flag.String("out", "sheet.png", "the file that is made")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *uri, *pictures, *out)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, uri string, pictures int, out string) error {
	folder, err := os.MkdirTemp("", "pipeline")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	d := goworker.New(goworker.WorkerSettings{URI: uri, Queues: []string{"images", "net", "ops"}, Concurrency: 4, LogLevel: "error"})
	defer d.Close()
	d.RegisterDialer("embedded", embedded.Open)
	register(d, folder)

	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- d.Run(ctx)
		stop()
	}()
	err = watch(ctx, d.Client(), sheet(pictures, out)) // a web server that waits is usually another program
	stop()
	return errors.Join(err, <-ended)
}

// watch starts a workflow and says how far it is until it has ended.
func watch(ctx context.Context, client *goworker.Client, n *goworker.Node) error {
	receipt, err := client.Start(ctx, n, goworker.WorkflowName("sheet"), goworker.Deadline(10*time.Minute))
	if err != nil {
		return err
	}
	for status, err := range client.Watch(ctx, receipt.ID) {
		if err != nil {
			return err
		}
		fmt.Println("the workflow is", status.State)
	}
	made, err := goworker.Await[string](ctx, client, receipt.ID)
	if err != nil {
		return err
	}
	fmt.Println("made", made)
	return nil
}
