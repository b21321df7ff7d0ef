package goworker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker"
)

// A program enqueues a job and waits for what its handler returns.
func ExampleAwait() {
	d := demo()
	defer d.Close()
	d.Register("Resize", func(path string) (string, error) {
		if path == "" {
			return "", errors.New("there is no image")
		}
		return path + ".small", nil
	}, goworker.WithResult(time.Hour))

	ctx, client := context.Background(), d.Client()
	var ids []string
	for _, path := range []string{"a.png", ""} {
		receipt, err := client.Enqueue(ctx, goworker.NewJob("mail", "Resize", path))
		if err != nil {
			fmt.Println(err)
			return
		}
		ids = append(ids, receipt.ID)
	}
	if err := d.Run(ctx); err != nil { // usually of another program
		fmt.Println(err)
	}
	for _, id := range ids {
		small, err := goworker.Await[string](ctx, client, id)
		var failed *goworker.JobError
		switch {
		case errors.As(err, &failed):
			fmt.Println(failed.Class, "failed:", failed.Message)
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Println(small)
		}
	}
	// Output:
	// a.png.small
	// Resize failed: there is no image
}

// A defined class knows the type of its result.
func ExampleClass_Await() {
	resize := goworker.Define[string, string]("Resize", goworker.OnQueue("mail"), goworker.WithResult(time.Hour))
	d := demo()
	defer d.Close()
	resize.Handle(d, func(_ context.Context, path string) (string, error) { return path + ".small", nil })

	ctx := context.Background()
	receipt, err := resize.Enqueue(ctx, d.Client(), "a.png")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := d.Run(ctx); err != nil {
		fmt.Println(err)
	}
	small, err := resize.Await(ctx, d.Client(), receipt.ID)
	fmt.Println(small, err)
	// Output: a.png.small <nil>
}

// A handler says how far it is, as often as it likes.
func ExampleProgress() {
	d := demo()
	defer d.Close()
	d.Register("Import", func(ctx context.Context, rows int64) {
		for n := range rows {
			goworker.Progress(ctx, n+1, rows, fmt.Sprint("row ", n+1))
		}
	}, goworker.WithResult(time.Hour))

	ctx := context.Background()
	receipt, err := d.Client().Enqueue(ctx, goworker.NewJob("mail", "Import", 1000))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := d.Run(ctx); err != nil {
		fmt.Println(err)
	}
	status, err := d.Client().Status(ctx, receipt.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s, %d of %d: %s\n", status.State, status.Progress.Done, status.Progress.Total, status.Progress.Note)
	// Output: done, 1000 of 1000: row 1000
}

// A job that fails half way goes on where it was.
func ExampleCursor() {
	d := demo()
	defer d.Close()
	d.Register("Export", func(ctx context.Context, table string) error {
		at := goworker.Cursor[int](ctx)
		last, _, err := at.Get()
		if err != nil {
			return err
		}
		fmt.Println(table, "behind row", last)
		for row := last + 1; row <= 100; row++ {
			if row == 61 && last == 0 {
				return errors.New("the disk is full")
			}
			if err := at.Set(ctx, row); err != nil {
				return err
			}
		}
		return nil
	}, goworker.Retry(1, goworker.Delays{0}))

	ctx := context.Background()
	if _, err := d.Client().Enqueue(ctx, goworker.NewJob("mail", "Export", "users"), goworker.WithID("export-7")); err != nil {
		fmt.Println(err)
	}
	if err := d.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// users behind row 0
	// users behind row 60
}

// A retry does not charge twice.
func ExampleOnce() {
	d := demo()
	defer d.Close()
	charge := func(_ context.Context, order, idempotencyKey string) (string, error) {
		fmt.Println("charging", order, "under the key", idempotencyKey)
		return "receipt 24", nil
	}
	d.Register("Order", func(ctx context.Context, order string) error {
		run := goworker.FromContext(ctx)
		receipt, err := goworker.Once(ctx, "charge", func(ctx context.Context) (string, error) {
			return charge(ctx, order, run.ID)
		})
		if err != nil {
			return err
		}
		if run.Attempt == 1 {
			return errors.New("the mail server is away")
		}
		fmt.Println("sent", receipt)
		return nil
	}, goworker.Retry(1, goworker.Delays{0}))

	ctx := context.Background()
	if _, err := d.Client().Enqueue(ctx, goworker.NewJob("mail", "Order", "a book"), goworker.WithID("order-7")); err != nil {
		fmt.Println(err)
	}
	if err := d.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// charging a book under the key order-7
	// sent receipt 24
}

// A job of a class with CaptureLogs keeps the lines that its handler logs.
func ExampleClient_Logs() {
	d := demo()
	defer d.Close()
	d.Register("Convert", func(ctx context.Context, path string) {
		goworker.Logger(ctx).Info("converting", "path", path)
	}, goworker.WithResult(time.Hour), goworker.CaptureLogs())

	ctx := context.Background()
	receipt, err := d.Client().Enqueue(ctx, goworker.NewJob("mail", "Convert", "a.png"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := d.Run(ctx); err != nil {
		fmt.Println(err)
	}
	lines, err := d.Client().Logs(ctx, receipt.ID)
	for _, line := range lines {
		fmt.Printf("%s %s %s\n", line.Level, line.Message, line.Attrs["path"])
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output: INFO converting "a.png"
}

// A program shows each change of a job until the job has ended.
func ExampleClient_Watch() {
	d := demo()
	defer d.Close()
	seen := make(chan struct{})
	d.Register("Import", func(ctx context.Context) {
		goworker.Progress(ctx, 30, 100, "row 30")
		<-seen // it goes on when the program has seen that
	}, goworker.WithResult(time.Hour))

	ctx := context.Background()
	receipt, err := d.Client().Enqueue(ctx, goworker.NewJob("mail", "Import"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }() // usually in another program
	running := false
	for status, err := range d.Client().Watch(ctx, receipt.ID) {
		switch p := status.Progress; {
		case err != nil:
			fmt.Println(err)
		case status.Over():
			fmt.Println(status.State)
		case p != nil && status.State == goworker.StateRunning && !running:
			fmt.Printf("%s, %d of %d: %s\n", status.State, p.Done, p.Total, p.Note)
			running = true
			close(seen)
		}
	}
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
	// Output:
	// running, 30 of 100: row 30
	// done
}
