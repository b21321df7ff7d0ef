package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker"
)

// fleet is the processes and what the controls reach.
type fleet struct {
	redis   *redisServer
	key     string
	client  *goworker.Client
	daemons []*goworker.Daemon

	mended atomic.Bool   // ChargeCard succeeds
	rested chan struct{} // closed: jobs of Report end
	rest   sync.Once

	followed chan struct{} // closed: the second try of Follow ends
	follow   sync.Once
}

// daemon is a process of the fleet.
func (f *fleet) daemon(name, queues string) *goworker.Daemon {
	d := goworker.New(goworker.WorkerSettings{
		URI: f.redis.uri(), QueuesString: queues, Concurrency: 6, Name: name, Logger: slog.New(slog.DiscardHandler),
		Control: goworker.ControlFull, ControlKeyFile: f.key, DynamicSchedule: true, ShutdownTimeout: time.Second,
	})
	d.Register("SendMail", func(to, text string) error { return nil })
	d.Register("Thumbnail", func(ctx context.Context, file string) (string, error) {
		return file + ".small", sleep(ctx, 20*time.Millisecond)
	}, goworker.WithResult(time.Hour), goworker.CaptureLogs())
	d.Register("Report", f.report, goworker.Timeout(4*time.Hour), goworker.WithResult(time.Hour), goworker.MaxRunning(2))
	d.Register("ChargeCard", func(order int, bank string) error {
		if f.mended.Load() {
			return nil
		}
		return fmt.Errorf("the bank %s declined order %d", bank, order)
	})
	d.Register("ImportRow", func(row int, _ string) error { return fmt.Errorf("line %d: want 7 columns, got %d", row, row%5) })
	d.Register("SyncCustomer", func(id int) error {
		//lint:ignore ST1005 it reads as an error of net/http
		return fmt.Errorf("Post \"https://crm.example.com/v2/customers/%d\": context deadline exceeded after 30.%ds", id, id%10)
	})
	d.Register("Webhook", func(int) error { return errors.New("503 Service Unavailable") }, goworker.Retry(8, goworker.Delays{time.Hour}))
	d.Register("Follow", func(ctx context.Context, id int) (string, error) {
		goworker.Logger(ctx).Info("followed", "id", id)
		if goworker.FromContext(ctx).Attempt == 1 {
			return "", errors.New("not yet")
		}
		select { // a page shows the first error until the job has ended
		case <-ctx.Done():
			return "", ctx.Err()
		case <-f.followed:
			return fmt.Sprintf("done %d", id), nil
		}
	}, goworker.Retry(3, goworker.Delays{time.Second}), goworker.WithResult(time.Hour), goworker.CaptureLogs())
	d.Register("Account", func(ctx context.Context, id int) error { return sleep(ctx, 5*time.Millisecond) },
		goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0))), goworker.Unique(goworker.UntilDone()))
	d.Register("Invoice", func() error { return nil })
	d.Register("Sweep", func(string) error { return nil })
	d.Register("Fetch", func(name string) (string, error) { return name + ".png", nil })
	d.Register("Resize", func(_ int, path string) (string, error) { return path + "@100", nil })
	d.Register("Approve", func(string, string) error { return nil })
	d.Register("Publish", func(_ string, _ any) error { return nil })
	for name, r := range map[string]goworker.Recurring{
		"invoices": {Cron: "30 4 * * mon-fri Europe/Berlin", Class: "Invoice", Queue: "payments", Description: "sends the invoices of the day"},
		"sweep":    {Every: 10 * time.Minute, Class: "Sweep", Queue: "mail", Args: []any{"tmp"}},
		"hourly":   {Cron: "@hourly", Class: "Sweep", Queue: "images", Args: []any{"cache"}},
	} {
		if err := d.Schedule(name, r); err != nil {
			panic(err) // the table above is wrong
		}
	}
	return d
}

// report runs until the controls end it.
func (f *fleet) report(ctx context.Context, month string) (string, error) {
	goworker.Progress(ctx, 37, 120, "page 37 of "+month)
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-f.rested:
		return month + ".pdf", nil
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
