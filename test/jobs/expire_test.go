package jobs

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

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// A job whose time is over is dropped, counted, and its lock given up; others run.
func TestExpired(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	var mu sync.Mutex
	var hooked []string
	b.Daemon.AddHooks(goworker.Hooks{Expired: func(ctx context.Context, d *goworker.Delivery) {
		if goworker.FromContext(ctx) != d {
			t.Error("the hook's context is not the job's")
		}
		mu.Lock()
		defer mu.Unlock()
		hooked = append(hooked, d.Class+" "+d.ID)
	}})
	b.MustEnqueue("Mark", "old", daemontest.Past(), goworker.WithID("1"))
	b.MustEnqueue("Mark", "locked", daemontest.Past(), goworker.Unique())
	b.MustEnqueue("Nobody", "old", daemontest.Past())
	b.MustEnqueue("Fail", "started", daemontest.Past(), goworker.Unique(goworker.UntilStart()))
	b.MustEnqueue("Mark", "good", goworker.ExpireAfter(time.Hour), goworker.Unique())
	b.MustEnqueue("Mark", "never", goworker.ExpireAfter(0))
	b.Push(`{"class":"Mark","args":["odd"],"expires_at":"soon"}`, `{"class":"Mark","args":["odder"],"expires_at":-1}`)
	b.Start()
	b.Eventually("the others run", func() bool { return b.Stat("processed") == 4 })
	b.Eventually("four have expired", func() bool { return b.Redis.Text(t, "HGET", "resque:go:stats", "expired") == "4" })
	b.Free()
	info, err := b.Daemon.Info()
	if err != nil || info.Expired != 4 || info.Processed != 4 || info.Failed != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(hooked)
	if len(hooked) != 4 || hooked[1] != "Mark 1" && hooked[2] != "Mark 1" {
		t.Errorf("the hook saw %q", hooked)
	}
	if b.Runs.Starts("old")+b.Runs.Starts("locked") > 0 || !strings.Contains(b.Log.Text(), "job expired") {
		t.Errorf("log:\n%s", b.Log.Text())
	}
	b.Redis.Do(t, "DEL", "resque:go:stats")
	b.OnlyTotals()
}

// The time options of Register apply to all jobs that the same daemon enqueues.
func TestExpireClass(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: server.URI()})
	defer d.Close()
	d.Register("Brief", func() {}, goworker.ExpireAfter(time.Hour))
	brief := &goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "Brief", Args: nil}}
	from := time.Now().Add(time.Hour).UnixMilli()
	if err := d.Enqueue(brief); err != nil {
		t.Fatal(err)
	}
	if err := d.EnqueueAll(&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "Plain", Args: nil}}, brief); err != nil {
		t.Fatal(err)
	}
	if _, err := d.EnqueueWith(brief, goworker.ExpireAfter(0), goworker.WithID("i")); err != nil {
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
	b := daemontest.Setup(t)
	var seen atomic.Int64
	b.Daemon.Register("Mail", func() { t.Error("an expired job ran") },
		goworker.OnExpired(func(ctx context.Context, d *goworker.Delivery) error {
			if goworker.FromContext(ctx) != d {
				t.Error("its context is not the job's")
			}
			seen.Add(1)
			if fmt.Sprint(d.Job().Payload.Args...) == "bad" {
				return errors.New("too late")
			}
			return nil
		}))
	b.Daemon.AddHooks(goworker.Hooks{Expired: func(context.Context, *goworker.Delivery) { t.Error("it was not dropped") }})
	b.MustEnqueue("Mail", "good", daemontest.Past(), goworker.Unique())
	b.MustEnqueue("Mail", "bad", daemontest.Past(), goworker.Unique())
	b.Start()
	b.Eventually("both end", func() bool { return b.Stat("processed") == 2 })
	b.Free()
	if f := b.Failures(); seen.Load() != 2 || len(f) != 1 || f[0].Error != "too late" {
		t.Errorf("%d seen, failures %+v", seen.Load(), f)
	}
	defer func() {
		if v := recover(); !strings.Contains(fmt.Sprint(v), "no function") {
			t.Errorf("OnExpired(nil) panics with %v", v)
		}
	}()
	b.Daemon.Register("Mail", func(string) {}, goworker.OnExpired(nil))
}
