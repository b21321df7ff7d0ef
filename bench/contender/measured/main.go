// Command measured is this module with its metrics, in the variant "on" scraped each second. It is a program of its own: what links
// Prometheus's library is larger, which would show in the memory of the others.
package main

import (
	"io"
	"net"
	"net/http"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/metrics"

	"github.com/goworker/goworker/bench/probe"
)

func main() { probe.Main(work, nil) }

func work(c probe.Config, handlers map[string]probe.Handler) error {
	d := goworker.New(goworker.WorkerSettings{
		URI: "redis://" + c.Addr + "/", Namespace: "resque:", QueuesString: c.QueueList(), Concurrency: c.Workers, UseNumber: true,
	})
	for class, handler := range handlers {
		d.Register(class, handler)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, metrics.Handler(d)) }()
	if c.Variant == "on" {
		address := "http://" + l.Addr().String() + "/metrics"
		scrape(address) // the first one takes longer, once in the life of a process
		go func() {
			for range time.Tick(time.Second) {
				scrape(address)
			}
		}()
	}
	return d.Work()
}

// scrape is Prometheus, which would be another process: here its part of the work counts too.
func scrape(address string) {
	r, err := http.Get(address)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
}
