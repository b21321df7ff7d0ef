package goworker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
)

func ExampleDaemon_Schedule() {
	d := demo()
	defer d.Close()

	// Each weekday at half past four, by the clocks of Berlin.
	err := d.Schedule("invoices", goworker.Recurring{
		Cron:  "30 4 * * mon-fri Europe/Berlin",
		Class: "SendInvoices",
		Queue: "billing",
	})
	if err != nil {
		fmt.Println(err)
	}
	err = d.Schedule("sweep", goworker.Recurring{
		Every:  10 * time.Minute,
		Class:  "Sweep",
		Queue:  "low",
		Args:   []any{"tmp"},
		Missed: goworker.MissedSkip, // the next one comes soon enough
	})
	if err != nil {
		fmt.Println(err)
	}
	// A mistake is said at once.
	fmt.Println(d.Schedule("report", goworker.Recurring{Cron: "every day", Queue: "low"}))
	// Output:
	// goworker: recurring schedule report: the cron "every day" is not understood: it has 2 fields; there must be 5, or 6 with the seconds in front, and a time zone may follow
}

// What resque-scheduler keeps in Redis is a Recurring's JSON form.
func ExampleRecurring() {
	var r goworker.Recurring
	if err := json.Unmarshal([]byte(`{"class":"Echo","every":["1h",{"first_in":"5m"}],"queue":"low","args":{"a":1}}`), &r); err != nil {
		fmt.Println(err)
	}
	fmt.Println(r.Class, r.Every, r.FirstIn)
	text, _ := json.Marshal(goworker.Recurring{Cron: "0 3 * * *", Class: "Echo", Queue: "low", Args: []any{"a"}})
	fmt.Println(string(text))
	// Output:
	// Echo 1h0m0s 5m0s
	// {"class":"Echo","cron":"0 3 * * *","queue":"low","args":["a"]}
}

// The script that fires ticks is plain enough for the embedded Redis.
func TestScheduleEmbedded(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{URI: "embedded:", Queues: []string{"q"}, Concurrency: 1, Logger: slog.New(slog.DiscardHandler)})
	d.RegisterDialer("embedded", embedded.Open)
	defer d.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	runs := 0
	d.Register("Tick", func(at time.Time) {
		if runs++; runs == 2 {
			stop()
		}
	})
	for name, shared := range map[string]bool{"own": false, "shared": true} {
		if err := d.Schedule(name, goworker.Recurring{Cron: "* * * * * *", Class: "Tick", Queue: "q", TickArg: true, Shared: shared}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Run(ctx); err != nil || runs < 2 {
		t.Errorf("%d ticks, %v", runs, err)
	}
}
