package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// A group whose time Redis has lost is found among all keys, and then is a job at its time.
func TestAggregateIndexRemoved(t *testing.T) {
	t.Parallel()
	i := indexing(t, goworker.MaxWait(100*time.Millisecond))
	began := time.Now().Add(-time.Minute).UnixMilli()
	i.Redis.Do(t, "RPUSH", "resque:go:group:4:work5:Index0", fmt.Sprintf(`%d 100 0 x {"class":"Index","args":["books",[`, began), fmt.Sprintf("2 %d 7", began))
	i.Start()
	i.wait("books [7]")
	i.Eventually("it is logged", func() bool { return i.Log.Count("Redis had lost the times of groups in which jobs wait") == 1 })
}

// While a group's key has another type, its items wait and others do not. Once the key is removed they are gathered.
func TestAggregateWrongType(t *testing.T) {
	t.Parallel()
	i := indexing(t, goworker.MaxCount(2), goworker.MaxWait(time.Hour))
	i.Start()
	i.items("books", 1, 1)
	i.Eventually("the group is there", func() bool { return len(i.left()) == 1 })
	key := "resque:go:group:" + i.left()[0]
	i.Redis.Do(t, "DEL", key)
	i.Redis.Do(t, "SET", key, "x")
	i.items("books", 2, 3)
	i.items("films", 1, 2)
	i.wait("films [1 2]")
	i.Eventually("the log names the key", func() bool { return strings.Contains(i.Log.Text(), key) })
	i.Redis.Do(t, "DEL", key)
	i.wait("films [1 2]", "books [2 3]")
}

// Groups that wait when a daemon stops are jobs of the next one.
func TestAggregateOverStops(t *testing.T) {
	t.Parallel()
	i := indexing(t, goworker.MaxWait(time.Second))
	i.Start()
	i.items("books", 1, 3)
	i.Eventually("all are gathered", func() bool { return i.Daemon.Stats().Jobs.Gathered == 3 })
	if err := i.Stop(); err != nil {
		t.Fatal(err)
	}
	j := &index{Bundle: daemontest.SetupOn(t, i.Redis)}
	j.gather("Index", func(_ context.Context, catalog string, ids []int) { j.called(catalog, len(ids)) }, goworker.KeyArgs(0))
	j.Start()
	i.Eventually("the group is a job", func() bool { return len(append(i.seen(), j.seen()...)) == 1 && len(i.left()) == 0 })
}

// Register refuses mistakes in the options, and a handler that cannot take what it would get.
func TestAggregateMistakes(t *testing.T) {
	t.Parallel()
	ids := func(string, []int) {}
	for want, register := range map[string]func(d *goworker.Daemon){
		`Register("Index"): MaxCount(0): it must be from 1 to 100000`: func(d *goworker.Daemon) {
			d.Register("Index", ids, goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxCount(0)))
		},
		"MaxWait(25h0m0s): it must be from 1ms to 24h0m0s": func(d *goworker.Daemon) {
			d.Register("Index", ids, goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxWait(25*time.Hour)))
		},
		"Quiet(10s) is longer than MaxWait(5s)": func(d *goworker.Daemon) {
			d.Register("Index", ids, goworker.Aggregate(goworker.KeyArgs(0), goworker.Quiet(10*time.Second)))
		},
		"Quiet(-1ns): it must be at least 1ms": func(d *goworker.Daemon) {
			d.Register("Index", ids, goworker.Aggregate(goworker.KeyArgs(0), goworker.Quiet(-1)))
		},
		"MaxBytes(10): it must be at least 1024": func(d *goworker.Daemon) {
			d.Register("Index", ids, goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxBytes(10)))
		},
		"KeyArgs: -1 cannot be negative": func(d *goworker.Daemon) { d.Register("Index", ids, goworker.Aggregate(goworker.KeyArgs(-1))) },
		"KeyArgs: argument 1 is given twice": func(d *goworker.Daemon) {
			d.Register("Index", ids, goworker.Aggregate(goworker.KeyArgs(1, 1)))
		},
		"a nil AggregateOption was given": func(d *goworker.Daemon) { d.Register("Index", ids, goworker.Aggregate(nil)) },
		"MaxCount(2)": func(d *goworker.Daemon) {
			d.Register("Index", ids, goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxCount(1), goworker.MaxCount(2)))
		},
		"Aggregate is given twice": func(d *goworker.Daemon) {
			d.Register("Index", ids, goworker.Aggregate(goworker.KeyArgs(0)), goworker.Aggregate(goworker.KeyArgs(0)))
		},
		"with WithResult each item of Aggregate would run alone": func(d *goworker.Daemon) {
			d.Register("Index", ids, goworker.Aggregate(goworker.KeyArgs(0)), goworker.WithResult(0))
		},
		"the handler must take the 1 argument of the key and then one list": func(d *goworker.Daemon) {
			d.Register("Index", func(string, int) {}, goworker.Aggregate(goworker.KeyArgs(0)))
		},
		"the handler must be a function whose parameters are the arguments": func(d *goworker.Daemon) {
			d.Register("Index", func(string, ...interface{}) error { return nil }, goworker.Aggregate(goworker.KeyArgs(0)))
		},
		"the handler must be a function whose parameters": func(d *goworker.Daemon) {
			d.Register("Index", goworker.HandlerFunc(func(context.Context, *goworker.Delivery) error { return nil }), goworker.Aggregate())
		},
		"the handler's list is []interface {}: an item that is a list could not be told from the list of a group; give its elements a type": func(d *goworker.Daemon) {
			d.Register("Index", func(context.Context, string, []any) {}, goworker.Aggregate(goworker.KeyArgs(0)))
		},
		"the handler's list is []json.RawMessage": func(d *goworker.Daemon) {
			d.Register("Index", func([]json.RawMessage) {}, goworker.Aggregate())
		},
		"then one list of what remains": func(d *goworker.Daemon) {
			d.Register("Index", func(string, json.RawMessage) {}, goworker.Aggregate(goworker.KeyArgs(0)))
		},
		"argument 2 of an item is of the key and may be a list ([]int)": func(d *goworker.Daemon) {
			d.Register("Index", func([]int, []int) {}, goworker.Aggregate(goworker.KeyArgs(1)))
		},
		"the handler must take one list": func(d *goworker.Daemon) { d.Register("Index", ids, goworker.Aggregate()) },
		"the handler must take the 2 arguments of the key": func(d *goworker.Daemon) {
			d.Register("Index", func(string, int, ...int) {}, goworker.Aggregate(goworker.KeyArgs(0, 1)))
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			d := goworker.New(goworker.WorkerSettings{})
			daemontest.WantPanic(t, want, func() { register(d) })
		})
	}
}
