package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// line is a network between some workers and Redis.
type line struct {
	a     *arena
	proxy *toxiproxy.Proxy
}

func (a *arena) line() *line {
	zerolog.SetGlobalLevel(zerolog.Disabled)
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, "line", "127.0.0.1:0", a.redis.Addr)
	if err := p.Start(); err != nil {
		a.Fatalf("toxiproxy: %v", err)
	}
	a.proxies = append(a.proxies, p.Stop)
	return &line{a: a, proxy: p}
}

func (l *line) uri() string { return "-uri=redis://" + l.proxy.Listen }

// toxic makes the line bad in one way, in one direction, and returns what ends that.
func (l *line) toxic(kind, stream, attributes string) (heal func()) {
	name := kind + stream
	text := fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"toxicity":1,"attributes":{%s}}`, name, kind, stream, attributes)
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
		l.a.Fatalf("toxic %s: %v", kind, err)
	}
	return func() { _ = l.proxy.Toxics.RemoveToxic(context.Background(), name) }
}

func (l *line) bothWays(kind string) (heal func()) {
	up := l.toxic(kind, "upstream", `"timeout":0`)
	down := l.toxic(kind, "downstream", `"timeout":0`)
	return func() { up(); down() }
}

// halfOpen swallows all bytes: connections stay open, and neither end notices.
func (l *line) halfOpen() (heal func()) { return l.bothWays("timeout") }

// reset breaks all connections, and each new one when it is used.
func (l *line) reset() (heal func()) { return l.bothWays("reset_peer") }

// shortPartition cuts a worker off for less than its lease.
func shortPartition(opts options) result {
	return without(contain(opts, "partition-short", nil, func(a *arena) {
		l := a.line()
		a.start(l.uri())
		a.start()
		a.produce(load{rate: 300, longest: 30})
		for _, sever := range []func() func(){l.halfOpen, l.reset} {
			time.Sleep(a.between(2*time.Second, 3*time.Second))
			heal := sever()
			time.Sleep(4 * time.Second)
			heal()
			a.inject()
			a.healed()
		}
		time.Sleep(3 * time.Second)
	}))
}

// longPartition cuts workers off for longer than their leases, one half-open and one by
// reset: another one runs their jobs, and they learn so when they are back.
func longPartition(opts options) result {
	return contain(opts, "partition-long", nil, func(a *arena) {
		l1, l2 := a.line(), a.line()
		first, second := a.start(l1.uri()), a.start(l2.uri())
		for i := range 10 {
			a.pushJobs(job{fmt.Sprint("held-", i), []string{"Nap", "Wait"}[i%2], 3000})
		}
		a.eventually("they hold them", func() bool { return a.number("LLEN", "resque:queue:work") == 0 })
		a.start("-concurrency=10")
		a.produce(load{rate: 200, longest: 60})
		time.Sleep(500 * time.Millisecond)
		a.silence(first, func() {
			a.silence(second, func() {
				heal1, heal2 := l1.halfOpen(), l2.reset()
				time.Sleep(14 * time.Second)
				heal1()
				heal2()
			})
		})
		a.inject()
		a.inject()
		a.healed()
		time.Sleep(4 * time.Second)
	})
}

// slow gives the workers lines that are slow, uneven, thin, that deliver in crumbs, or
// break in the middle of a reply.
func slow(opts options) result {
	return without(contain(opts, "slow", nil, func(a *arena) {
		l := a.line()
		a.start(l.uri())
		a.start(l.uri())
		a.produce(load{rate: 200, longest: 10})
		for _, bad := range []struct{ kind, attributes string }{
			{"latency", `"latency":100,"jitter":0`},
			{"latency", `"latency":50,"jitter":50`},
			{"bandwidth", `"rate":20`},
			{"slicer", `"average_size":7,"size_variation":5,"delay":500`},
			{"limit_data", `"bytes":1111`},
			{"limit_data", `"bytes":333`},
			{"slow_close", `"delay":500`},
		} {
			heal := l.toxic(bad.kind, "downstream", bad.attributes)
			time.Sleep(2 * time.Second)
			heal()
			a.inject()
			a.healed()
			time.Sleep(300 * time.Millisecond)
		}
	}))
}
