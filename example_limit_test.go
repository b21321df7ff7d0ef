package goworker_test

import (
	"context"
	"fmt"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
)

// One of each account runs at a time, in the order in which they were enqueued, on
// however many workers and processes.
func ExampleMaxRunning() {
	d := goworker.New(goworker.WorkerSettings{URI: "embedded:", QueuesString: "reports", ExitOnComplete: true, LogLevel: "error"})
	defer d.Close()
	d.RegisterDialer("embedded", embedded.Open)
	d.Register("Report", func(account string, month int) {
		time.Sleep(time.Duration(4-month) * time.Millisecond)
		fmt.Println(account, month)
	}, goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0))))
	d.LimitQueue("reports")
	for month := 1; month <= 3; month++ {
		if _, err := d.Client().Enqueue(context.Background(), goworker.NewJob("reports", "Report", "acme", month)); err != nil {
			fmt.Println(err)
		}
	}
	if err := d.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// acme 1
	// acme 2
	// acme 3
}

// The small tenant's job does not wait for all of the large one's.
func ExampleFairBy() {
	d := goworker.New(goworker.WorkerSettings{URI: "embedded:", QueuesString: "mail", Concurrency: 1, ExitOnComplete: true, LogLevel: "error"})
	defer d.Close()
	d.RegisterDialer("embedded", embedded.Open)
	d.Register("Mail", func(tenant string, n int) { fmt.Println(tenant, n) }, goworker.FairBy(goworker.ByArg(0)))
	d.LimitQueue("mail")
	_, err := d.Client().EnqueueMany(context.Background(),
		goworker.Item{Job: goworker.NewJob("mail", "Mail", "large", 1)},
		goworker.Item{Job: goworker.NewJob("mail", "Mail", "large", 2)},
		goworker.Item{Job: goworker.NewJob("mail", "Mail", "large", 3)},
		goworker.Item{Job: goworker.NewJob("mail", "Mail", "small", 1)},
	)
	if err != nil {
		fmt.Println(err)
	}
	if err := d.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// large 1
	// small 1
	// large 2
	// large 3
}
