package goworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

func past() EnqueueOption { return ExpiresAt(time.Now().Add(-time.Hour)) }

// A job whose time is over is dropped, counted, and its lock given up; others run.
func TestExpired(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	var hooked []string
	b.daemon.AddHooks(Hooks{Expired: func(ctx context.Context, d *Delivery) {
		if FromContext(ctx) != d {
			t.Error("the hook's context is not the job's")
		}
		mu.Lock()
		defer mu.Unlock()
		hooked = append(hooked, d.Class+" "+d.ID)
	}})
	b.mustEnqueue("Mark", "old", past(), WithID("1"))
	b.mustEnqueue("Mark", "locked", past(), Unique())
	b.mustEnqueue("Nobody", "old", past())
	b.mustEnqueue("Fail", "started", past(), Unique(UntilStart()))
	b.mustEnqueue("Mark", "good", ExpireAfter(time.Hour), Unique())
	b.mustEnqueue("Mark", "never", ExpireAfter(0))
	b.push(`{"class":"Mark","args":["odd"],"expires_at":"soon"}`, `{"class":"Mark","args":["odder"],"expires_at":-1}`)
	b.start()
	b.eventually("the others run", func() bool { return b.stat("processed") == 4 })
	b.eventually("four have expired", func() bool { return b.redis.Text(t, "HGET", "resque:go:stats", "expired") == "4" })
	b.free()
	info, err := b.daemon.Info()
	if err != nil || info.Expired != 4 || info.Processed != 4 || info.Failed != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(hooked)
	if len(hooked) != 4 || hooked[1] != "Mark 1" && hooked[2] != "Mark 1" {
		t.Errorf("the hook saw %q", hooked)
	}
	if b.runs.starts("old")+b.runs.starts("locked") > 0 || !strings.Contains(b.log.text(), "job expired") {
		t.Errorf("log:\n%s", b.log.text())
	}
	b.redis.Do(t, "DEL", "resque:go:stats")
	b.onlyTotals()
}

// What Register is told of time holds for all that is enqueued by the same daemon.
func TestExpireClass(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := New(WorkerSettings{URI: server.URI()})
	defer d.Close()
	d.Register("Brief", func() {}, ExpireAfter(time.Hour))
	brief := &Job{"q", Payload{"Brief", nil}}
	from := time.Now().Add(time.Hour).UnixMilli()
	if err := d.Enqueue(brief); err != nil {
		t.Fatal(err)
	}
	if err := d.EnqueueAll(&Job{"q", Payload{"Plain", nil}}, brief); err != nil {
		t.Fatal(err)
	}
	if _, err := d.EnqueueWith(brief, ExpireAfter(0), WithID("i")); err != nil {
		t.Fatal(err)
	}
	for i, raw := range server.List(t, "LRANGE", "resque:queue:q", 0, -1) {
		text := []string{`{"class":"Brief","args":[],"expires_at":`, `{"class":"Plain","args":[]}`, `{"class":"Brief","args":[],"expires_at":`, `{"class":"Brief","args":[],"id":"i"}`}[i]
		rest, ok := strings.CutPrefix(raw, text)
		digits, _, _ := strings.Cut(strings.TrimSuffix(rest, "}"), ",")
		ms, _ := strconv.ParseInt(digits, 10, 64)
		if !ok || strings.HasSuffix(text, ":") && (ms < from || ms > from+60_000) {
			t.Errorf("job %d is %s", i, raw)
		}
	}
}

// A job handed to OnExpired ends as that says.
func TestOnExpired(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var seen atomic.Int64
	b.daemon.Register("Mail", func() { t.Error("an expired job ran") },
		OnExpired(func(ctx context.Context, d *Delivery) error {
			if FromContext(ctx) != d {
				t.Error("its context is not the job's")
			}
			seen.Add(1)
			if fmt.Sprint(d.Job().Payload.Args...) == "bad" {
				return errors.New("too late")
			}
			return nil
		}))
	b.daemon.AddHooks(Hooks{Expired: func(context.Context, *Delivery) { t.Error("it was not dropped") }})
	b.mustEnqueue("Mail", "good", past(), Unique())
	b.mustEnqueue("Mail", "bad", past(), Unique())
	b.start()
	b.eventually("both end", func() bool { return b.stat("processed") == 2 })
	b.free()
	if f := b.failures(); seen.Load() != 2 || len(f) != 1 || f[0].Error != "too late" {
		t.Errorf("%d seen, failures %+v", seen.Load(), f)
	}
	defer func() {
		if v := recover(); !strings.Contains(fmt.Sprint(v), "no function") {
			t.Errorf("OnExpired(nil) panics with %v", v)
		}
	}()
	b.daemon.Register("Mail", func(string) {}, OnExpired(nil))
}
