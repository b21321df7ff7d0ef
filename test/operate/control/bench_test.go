package control

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkFifty measures by turns how long fifty idle processes take to answer a ping, to the first and to the last answer, and how long
// a pause of a queue and a limit of a class take until the last process has read them. The processes are in one program.
func BenchmarkFifty(b *testing.B) {
	const processes = 50
	server := redistest.Start(b)
	for n := range processes {
		d := goworker.New(goworker.WorkerSettings{
			URI: server.URI(), QueuesString: "work", Concurrency: 1, AllowNoHandlers: true, Name: fmt.Sprint("p", n), PollInterval: time.Minute,
			DisableSignals: true, Logger: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		b.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				b.Error(err)
			}
			d.Close()
		})
		redistest.Eventually(b, time.Minute, "it is ready", func() bool { return d.Health().Ready })
	}
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	c := control.New(client)
	m := monitored(b, server)
	took := make(map[string][]float64)
	note := func(what string, began time.Time) {
		took[what] = append(took[what], float64(time.Since(began))/float64(time.Millisecond))
	}
	ping := func() {
		began, answers := time.Now(), 0
		for _, err := range c.Inspect(b.Context(), control.Ping, control.Timeout(time.Minute)) {
			if answers++; err != nil {
				b.Fatal(err)
			}
			if answers == 1 {
				note("first", began)
			}
		}
		note("ping", began)
		if answers != processes {
			b.Fatalf("%d of %d answer", answers, processes)
		}
	}
	change := func(what, reads string, do func() error) {
		b.Helper()
		last := m.until(reads, processes)
		began := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		select {
		case at := <-last:
			if what != "" {
				took[what] = append(took[what], float64(at.Sub(began))/float64(time.Millisecond))
			}
		case <-time.After(time.Minute):
			b.Fatalf("not all processes have read %s", reads)
		}
	}
	const paused, rules = `"SMEMBERS" "resque:go:paused"`, `"HGETALL" "resque:go:rules"`
	server.Do(b, "SADD", "resque:queues", "work")
	ping()
	clear(took)
	for b.Loop() {
		ping()
		change("pause", paused, func() error { return c.PauseQueue(b.Context(), "work") })
		change("", paused, func() error { return c.ResumeQueue(b.Context(), "work") })
		change("limit", rules, func() error { return c.LimitClass(b.Context(), "Report", "5/s") })
		change("", rules, func() error { return c.ResetClass(b.Context(), "Report") })
	}
	for what, all := range took {
		slices.Sort(all)
		b.ReportMetric(all[(len(all)-1)*95/100], what+"-p95-ms")
		b.ReportMetric(all[(len(all)-1)/2], what+"-p50-ms")
	}
}

// monitor sees all commands that Redis gets.
type monitor struct {
	lines chan string
	asked chan question
}

// question asks when so many clients have read something since the next announcement.
type question struct {
	reads   string
	clients int
	at      chan time.Time
}

func monitored(b *testing.B, s *redistest.Server) *monitor {
	b.Helper()
	c, err := redis.Dial("tcp", s.Addr)
	if err == nil {
		_, err = c.Do("MONITOR")
	}
	if err != nil {
		b.Fatal(err)
	}
	m := &monitor{make(chan string, 1000), make(chan question)}
	ended := make(chan struct{})
	b.Cleanup(func() {
		c.Close()
		<-ended
	})
	go func() {
		defer close(m.lines)
		for {
			line, err := redis.String(c.Receive())
			if err != nil {
				return
			}
			m.lines <- line
		}
	}()
	go func() {
		defer close(ended)
		m.watch()
	}()
	return m
}

// until returns a channel that hears when so many clients have read something since the next announcement.
func (m *monitor) until(reads string, clients int) <-chan time.Time {
	q := question{reads, clients, make(chan time.Time, 1)}
	m.asked <- q
	return q.at
}

func (m *monitor) watch() {
	var q question
	var seen map[string]bool // nil: nothing is announced yet
	for {
		select {
		case q = <-m.asked:
			seen = nil
		case line, ok := <-m.lines:
			switch {
			case !ok:
				return
			case strings.Contains(line, `"PUBLISH" "resque:go:notice"`):
				seen = make(map[string]bool)
			case seen != nil && q.at != nil && strings.Contains(line, q.reads):
				if _, client, ok := strings.Cut(line, "["); ok {
					client, _, _ = strings.Cut(client, "]")
					if seen[client] = true; len(seen) == q.clients {
						q.at <- time.Now()
						q.at = nil
					}
				}
			}
		}
	}
}
