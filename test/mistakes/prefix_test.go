package mistakes

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cluster"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/schedule"
	"github.com/goworker/goworker/sentinel"
)

const prefix = "goworker: "

// wantPrefix expects that an error begins with the prefix and has it once. Of joined errors, each does.
func wantPrefix(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if text := err.Error(); strings.HasPrefix(text, prefix) && strings.Count(text, prefix) == 1 {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.HasPrefix(line, prefix) || strings.Count(line, prefix) != 1 {
			t.Errorf("%s returns %q, want the prefix %q once, in front", what, err, prefix)
			return
		}
	}
}

// calls calls every exported method of v that returns an error, once with zero arguments and once with
// some that are usual, and returns how many errors there were.
func calls(t *testing.T, when string, v any) (failed int) {
	t.Helper()
	value := reflect.ValueOf(v)
	for i := range value.NumMethod() {
		method, name := value.Method(i), value.Type().Method(i).Name
		of := method.Type()
		if of.NumOut() == 0 || of.Out(of.NumOut()-1) != reflect.TypeFor[error]() || name == "Work" {
			continue // it is Run, and might wait for ever
		}
		for _, usual := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			var args []reflect.Value
			for n := range of.NumIn() {
				if of.IsVariadic() && n == of.NumIn()-1 {
					if one := argument(ctx, of.In(n).Elem(), usual); usual && !one.IsZero() {
						args = append(args, one)
					}
					break
				}
				args = append(args, argument(ctx, of.In(n), usual))
			}
			results := method.Call(args)
			cancel()
			if lent, ok := results[0].Interface().(*goworker.RedisConn); ok {
				v.(*goworker.Daemon).PutConn(lent)
			}
			err, _ := results[of.NumOut()-1].Interface().(error)
			if err != nil {
				failed++
			}
			wantPrefix(t, fmt.Sprintf("%s, %T.%s (usual arguments: %t)", when, v, name, usual), err)
		}
	}
	return failed
}

// argument returns a value for a parameter: its zero, or one that is usual.
func argument(ctx context.Context, of reflect.Type, usual bool) reflect.Value {
	var v any
	switch of {
	case reflect.TypeFor[context.Context]():
		return reflect.ValueOf(ctx)
	case reflect.TypeFor[string]():
		v = "mail"
	case reflect.TypeFor[*goworker.Job]():
		v = &goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: "Send", Args: []any{1}}}
	case reflect.TypeFor[time.Time]():
		v = time.Now().Add(time.Hour)
	case reflect.TypeFor[goworker.Recurring]():
		v = goworker.Recurring{Cron: "nonsense", Queue: "mail"}
	case reflect.TypeFor[goworker.EnqueueOption]():
		return reflect.ValueOf(goworker.WithID(""))
	case reflect.TypeFor[goworker.Item]():
		v = goworker.Item{Job: goworker.NewJob("mail,letters", "Send", 1)}
	case reflect.TypeFor[int]():
		v = 1
	}
	if !usual || v == nil {
		return reflect.Zero(of)
	}
	return reflect.ValueOf(v)
}

// Every error that a public call returns begins with the module's name, and has it once: with settings
// that are wrong, a Redis that is away, keys of the wrong type, after Close, and for arguments that make
// no sense.
func TestOnePrefix(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	broken := redistest.Start(t)
	for _, key := range []string{
		"queues", "queue:mail", "failed", "failed_queues", "workers", "workers:heartbeat", "delayed_queue_schedule", "schedules", "persistent_schedules",
		"go:schedule", "go:processes", "go:paused", "go:ticks", "stat:processed",
	} {
		broken.Do(t, "HSET", "resque:"+key, "wrong", "type")
	}
	away := fmt.Sprint("redis://127.0.0.1:", redistest.FreePort(t))
	settings := func(uri string) goworker.WorkerSettings {
		return goworker.WorkerSettings{URI: uri, QueuesString: "mail", Concurrency: 1, Logger: daemontest.Quiet, ExitOnComplete: true, DisableSignals: true, ShutdownTimeout: time.Second}
	}
	for _, tt := range []struct {
		when     string
		settings goworker.WorkerSettings
		closed   bool
		least    int // of the daemon's errors
	}{
		{"wrong settings", goworker.WorkerSettings{URI: "nonsense", QueuesString: "a=b", Concurrency: -1, Order: "odd", Hostname: "a b"}, false, 20},
		{"a wrong URI", settings("gopher://x"), false, 20},
		{"Redis is away", settings(away), false, 20},
		{"closed", settings(server.URI()), true, 20},
		{"Redis is there", settings(server.URI()), false, 5},
		{"keys of the wrong type", settings(broken.URI()), false, 10},
	} {
		t.Run(tt.when, func(t *testing.T) {
			t.Parallel()
			d := goworker.New(tt.settings)
			defer d.Close()
			d.Register("Send", func(int) {})
			of := tt.settings
			of.URI, of.QueuesString = "", ""
			s := goworker.NewShards(of, goworker.Shard{URI: tt.settings.URI, Queues: []string{tt.settings.QueuesString}})
			defer s.Close()
			s.Register("Send", func(int) {})
			if tt.closed {
				d.Close()
				s.Close()
			}
			if n := calls(t, tt.when, d); n < tt.least {
				t.Errorf("only %d calls of the daemon returned an error", n)
			}
			if tt.closed {
				d.Close() // Init and Work have opened it
			}
			for _, view := range []any{s, d.Failures(), d.Failures().In("mail"), d.Failures().In(""), d.Failures().KeepPayload(), d.Delayed(),
				d.Client(), d.Client().Inspect(), d.Client().Inspect().Failures(), d.Client().Inspect().Delayed()} {
				calls(t, tt.when, view)
			}
		})
	}

	options := goworker.DialOptions{Namespace: "resque:"}
	for what, open := range map[string]goworker.Opener{"sentinel": sentinel.Open, "cluster": cluster.Open, "embedded": embedded.Open,
		"Server": func(_ context.Context, uri string, o goworker.DialOptions) (goworker.Dialer, error) {
			return o.Server(uri)
		}} {
		for _, uri := range []string{"", "nonsense", "redis://", "redis+sentinel://a:b:c/m", "redis+sentinel://host", "redis+cluster://host:x", "redis+cluster://host", "embedded://x:y@z"} {
			d, err := open(t.Context(), uri, options)
			if err == nil {
				if c, ok := d.(interface{ Close() error }); ok {
					_ = c.Close()
				}
			}
			wantPrefix(t, what+" of "+uri, err)
		}
	}
	for _, text := range []string{"x: {cron: nonsense, queue: q}\ny: {every: -1, queue: q}", "[", "- a"} {
		entries, err := schedule.Parse([]byte(text), "")
		wantPrefix(t, "schedule.Parse", err)
		for _, e := range entries {
			wantPrefix(t, "Schedule", goworker.New(settings(away)).Schedule(e.Name, e.Recurring))
		}
	}
	err := schedule.LoadFile(goworker.Default(), "nowhere")
	if wantPrefix(t, "schedule.LoadFile", err); err == nil {
		t.Error("LoadFile read a file that is not there")
	}
	for _, err := range []error{goworker.ErrClosed, goworker.ErrRunning, goworker.ErrNoFailure, goworker.ErrRetried, goworker.ErrNoSchedule, goworker.ErrTooFewReplicas} {
		wantPrefix(t, "a sentinel", err)
		wantPrefix(t, "a wrapped sentinel", &goworker.ShardError{URI: "redis://x", Err: err})
	}
}

// The prefix hides nothing from errors.Is and errors.As, and a sentinel that is returned is that sentinel.
func TestPrefixKeepsErrors(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: server.URI(), QueuesString: "mail", Logger: daemontest.Quiet})
	defer d.Close()
	if _, err := d.Failures().Get("0123456789012345678901234567"); err != goworker.ErrNoFailure && !errors.Is(err, goworker.ErrNoFailure) {
		t.Errorf("Get returned %v", err)
	}
	if err := d.RunScheduleNow("nothing"); !errors.Is(err, goworker.ErrNoSchedule) {
		t.Errorf("RunScheduleNow returned %v", err)
	}
	server.Do(t, "SET", "resque:queues", "a text")
	var reply interface{ Error() string }
	if _, err := d.Queues(); !errors.As(err, &reply) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("Queues returned %v", err)
	}
}
