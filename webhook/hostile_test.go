package webhook_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/webhook"
)

// What another program writes into the stream stops no deliverer: it is counted and passed over. What looks like an event is
// delivered with no more than a process writes.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	f, r := setup(t), receive(t)
	d, _ := f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, nil)
	f.heard()
	many := redis.Args{stream, "*"}
	for n := range 5000 {
		many = many.Add(n, "x")
	}
	large := strings.Repeat("x", 1<<20)
	foreign := []redis.Args{many, {stream, "*", "x", "y"}, {stream, "*", "n", "1e308", "e", `{"k":"failed"}`, "a", ""}, {stream, "*", "n", "9", "e", `{"k":"failed"}`, "a", large}, {stream, "*", "n", "9", "e", `{"k":"failed","e":"` + large + `"}`, "a", ""}}
	for _, e := range []string{
		"", "{", "null", "[]", "\xff\xfe", `{"k":"started","i":"foreign"}`, `{"k":"failed","t":9223372036854775807}`, `{"k":"failed","t":-9223372036854775808}`,
		`{"k":"failed","ms":1e999}`, `{"k":7}`, `{"kind":"notice-begun","at":"9999-12-31T23:59:59-23:59"}`, `{"kind":"notice-begun","at":"x"}`, strings.Repeat("[", 10_000),
	} {
		foreign = append(foreign, redis.Args{stream, "*", "n", f.redis.Int(t, "HINCRBY", state, "written", 1), "e", e, "a", ""})
	}
	for _, args := range foreign {
		f.redis.Do(t, "XADD", args...)
	}
	for _, e := range [][2]string{
		{`{"k":"failed","t":1,"i":"odd","e":"` + strings.Repeat("e", 5000) + `","c":"` + strings.Repeat("c", 5000) + `"}`, "[\"\xff\"]"},
		{`{"kind":"notice-begun","job":"odd","args":["x"],"check":"` + strings.Repeat("c", 5000) + `","command":"` + strings.Repeat("rm ", 1000) + `"}`, "x"},
	} {
		f.redis.Do(t, "XADD", stream, "*", "n", f.redis.Int(t, "HINCRBY", state, "written", 1), "e", e[0], "a", e[1])
	}
	r.all(f.fail(3))
	redistest.Eventually(t, daemontest.Soon, "nothing waits", func() bool { return f.redis.Int(t, "XLEN", stream) == 0 })
	if s := d.Stats(); s.Foreign != int64(len(foreign)) || s.Cut != 0 || s.Dead != 0 {
		t.Errorf("%d foreign entries: %+v", len(foreign), s)
	}
	if n := f.log.Count("entries of the webhook's stream are passed over"); n != 1 {
		t.Errorf("the log says it %d times", n)
	}
	odd := 0
	for _, i := range r.items() {
		text, err := json.Marshal(i)
		if err != nil || len(text) > 1000 || !utf8.Valid(text) || i.Job == "foreign" {
			t.Errorf("%.300s, %v", text, err)
		}
		if i.Job == "odd" || i.Kind == webhook.Begun {
			odd++
		}
	}
	if odd != 2 {
		t.Errorf("%d of 2 events are delivered that look like those of processes", odd)
	}
	for _, b := range r.bodies() {
		if len(b.Events) == 0 {
			t.Errorf("a delivery of nothing: %+v", b)
		}
	}
}

// A webhook that is announced goes on, whatever another program announces. A further one is refused.
func TestManyAreAnnounced(t *testing.T) {
	t.Parallel()
	f, r := setup(t), receive(t)
	f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, nil)
	f.heard()
	later := time.Now().Add(time.Hour).UnixMilli()
	for n := range 10 {
		f.redis.Do(t, "HSET", "resque:go:notice", fmt.Sprint("webhook:other", n), fmt.Sprint(later, " failed"))
	}
	f.redis.Do(t, "HSET", "resque:go:notice", "webhook:ops", fmt.Sprint(later, " failed,poison")) // to be extended
	redistest.Eventually(t, daemontest.Soon, "the announcement is extended", func() bool {
		return f.redis.Text(t, "HGET", "resque:go:notice", "webhook:ops") != fmt.Sprint(later, " failed,poison")
	})
	r.all(f.fail(1))
	w, err := webhook.New(f.client, webhook.Settings{Name: "another", URL: r.URL, NoNotices: true, Logger: slog.New(f.log)})
	if err != nil {
		t.Fatal(err)
	}
	f.start(w)
	redistest.Eventually(t, daemontest.Soon, "another one is refused", func() bool { return f.log.Count("which is the most") > 0 })
}

// A receiver that wants a rest gets it of all deliverers, also of one that starts meanwhile. Another receiver does not wait.
func TestRestOfAll(t *testing.T) {
	t.Parallel()
	f, r, other := setup(t), receive(t), receive(t)
	long := func(d *webhook.Deliverer) { d.Hurry(time.Millisecond, 10); d.Gone(time.Hour) }
	_, stop := f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, long)
	f.heard()
	r.set(func(webhook.Body) int { return http.StatusGone })
	ids := f.fail(1)
	redistest.Eventually(t, daemontest.Soon, "Redis knows it", func() bool { return f.redis.Int(t, "HEXISTS", state, "rest") == 1 })
	stop()
	tried := len(r.tried())
	r.set(nil)
	d, stop := f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, long)
	redistest.Eventually(t, daemontest.Soon, "another deliverer has claimed it", func() bool { return d.Stats().Waiting > 0 })
	f.fail(3)
	for range 2 { // it looks several times a second whether it may deliver
		lease := f.redis.List(t, "ZRANGE", "resque:go:processes", 0, -1, "WITHSCORES")
		redistest.Eventually(t, daemontest.Soon, "time has passed", func() bool {
			return !slices.Equal(lease, f.redis.List(t, "ZRANGE", "resque:go:processes", 0, -1, "WITHSCORES"))
		})
	}
	stop()
	if n := len(r.tried()) - tried; n > 0 {
		t.Errorf("%d deliveries to a receiver that wants none", n)
	}
	f.run(f.client, webhook.Settings{URL: other.URL, NoNotices: true}, long)
	other.all(ids)
}

// What is cut is reported once, also while the delivery that reports it is tried again, or is given up.
func TestCutIsReportedOnce(t *testing.T) {
	t.Parallel()
	f, r := setup(t), receive(t)
	_, stop := f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, nil)
	f.heard()
	redistest.Eventually(t, daemontest.Soon, "all is delivered", func() bool { return f.redis.Int(t, "XLEN", stream) == 0 })
	stop()
	f.fail(5)
	f.redis.Do(t, "XTRIM", stream, "MAXLEN", 1)
	refused := "" // the first delivery that reports it
	r.set(func(b webhook.Body) int {
		if b.Cut > 0 && (refused == "" || refused == b.ID) {
			refused = b.ID
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	d, _ := f.run(f.client, webhook.Settings{URL: r.URL, NoNotices: true}, func(d *webhook.Deliverer) {
		d.Hurry(time.Millisecond, 10, slices.Repeat([]time.Duration{50 * time.Millisecond}, 20)...)
	})
	redistest.Eventually(t, daemontest.Soon, "the delivery that reports it has failed", func() bool { return d.Stats().Failed > 0 })
	r.all(f.fail(3)) // the other ones do not report it
	redistest.Eventually(t, daemontest.Soon, "it is given up", func() bool { return d.Stats().Dead > 0 })
	r.all(f.fail(1))
	redistest.Eventually(t, daemontest.Soon, "the log says it", func() bool { return f.log.Count("events of the webhook were lost") == 1 })
	r.all(f.fail(3))
	if n := r.cut(); n != 4 || d.Stats().Cut != 4 {
		t.Errorf("the receiver hears of %d events, and %+v", n, d.Stats())
	}
	redistest.Eventually(t, daemontest.Soon, "Redis knows it", func() bool { return f.redis.Text(t, "HGET", state, "said") == "4" })
}
