// Recurring enqueues jobs again and again: its own, and those of a file of
// resque-scheduler, if one is given. Start it several times: each tick still gives one job.
//
//	go run ./example/recurring -queues=recurring
//	SCHEDULE=example/recurring/schedule.yml go run ./example/recurring -queues=recurring
package main

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/schedule"
)

// ping gets the moment of its tick, however late it runs.
func ping(tick time.Time) {
	fmt.Println("ping of", tick.UTC().Format("15:04:05"), "in second", tick.Unix()%60)
}

func register(d *goworker.Daemon) {
	d.Register("Ping", ping)
	d.Register("Tidy", func(what string) { fmt.Println("tidying", what) })
	for name, r := range map[string]goworker.Recurring{
		"ping":    {Cron: "* * * * * *", Class: "Ping", Queue: "recurring", TickArg: true},
		"nightly": {Cron: "0 3 * * * Europe/Berlin", Class: "Tidy", Queue: "recurring", Args: []any{"everything"}},
	} {
		if err := d.Schedule(name, r); err != nil {
			log.Fatal(err)
		}
	}
}

func main() {
	register(goworker.Default())
	if path := os.Getenv("SCHEDULE"); path != "" {
		if err := schedule.LoadFile(goworker.Default(), path); err != nil {
			log.Fatal(err) // names the entries that it cannot read
		}
	}
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
