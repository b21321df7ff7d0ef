package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/control/profile"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// A process of several Redises has an id on each and answers to any. What concerns it as a whole is done once, although the command comes
// over all of them, and each id answers with what came of it.
func TestShards(t *testing.T) {
	t.Parallel()
	f := setup(t)
	second := redistest.Start(t)
	file := keyFile(t, strings.Repeat("k", 32))
	settings := goworker.WorkerSettings{
		Concurrency: 2, AllowNoHandlers: true, Name: "both", LogLevel: "error", Control: goworker.ControlFull, ControlKeyFile: file, DisableSignals: true,
	}
	s := goworker.NewShards(settings, goworker.Shard{URI: f.redis.URI(), Queues: []string{"a"}}, goworker.Shard{URI: second.URI(), Queues: []string{"b"}})
	defer s.Close()
	operator := goworker.NewShards(settings, goworker.Shard{URI: f.redis.OperatorsURI(), Queues: []string{"a"}}, goworker.Shard{URI: second.OperatorsURI(), Queues: []string{"b"}})
	defer operator.Close()
	var done atomic.Int64
	s.AddVerb(goworker.Verb{Name: "count", Do: func(context.Context, json.RawMessage) (any, error) { return done.Add(1), nil }})
	s.AddVerb(profile.Verb())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	redistest.Eventually(t, daemontest.Soon, "both shards are ready", func() bool {
		return !slices.ContainsFunc(s.Daemons(), func(d *goworker.Daemon) bool { return !d.Health().Ready })
	})
	c := control.New(operator, control.KeyFile(file))
	ask := func(verb string, opts ...control.CallOption) control.Result {
		t.Helper()
		r, err := control.Gather(c.Do(t.Context(), verb, append(opts, control.Timeout(daemontest.Soon))...))
		if err != nil {
			t.Errorf("%s: %v", verb, err)
		}
		return r
	}
	// Each of two answers, with the same, and for all shards or an id.
	both := func(verb string, opts ...control.CallOption) string {
		t.Helper()
		r := ask(verb, append(opts, control.To("both"))...)
		if len(r.Replies) != 2 || string(r.Replies[0].Body) != string(r.Replies[1].Body) {
			t.Fatalf("%s: %+v", verb, r)
		}
		return string(r.Replies[0].Body)
	}
	ids := processes(ask(control.Ping))
	if len(ids) != 2 || ids[0] == ids[1] {
		t.Fatalf("it answers as %q", ids)
	}
	for n, id := range []string{"", ids[0], ids[1], ""} {
		var got string
		if id == "" {
			got = both("count")
		} else if r := ask("count", control.To(id)); len(r.Replies) == 1 {
			got = string(r.Replies[0].Body)
		}
		if want := string(rune('1' + n)); got != want {
			t.Errorf("command %s to %q answers %s: a verb of the program is not done once", want, id, got)
		}
	}
	both(control.Stacks) // the second within ten seconds would be refused
	both(control.Profile, control.Args(map[string]any{"kind": "heap"}))
	if got := both(control.Log, control.Args(map[string]any{"level": "debug", "for": 60})); !strings.Contains(got, `"level":"debug","was":"error"`) {
		t.Errorf("log answers %s", got)
	}
	if r := ask(control.Log, control.To(ids[1]), control.Args(map[string]any{"level": "warn", "for": 60})); len(r.Replies) != 1 || !strings.Contains(string(r.Replies[0].Body), `"was":"debug"`) {
		t.Errorf("the other shard has a log of its own: %+v", r)
	}
	if got := both(control.Concurrency, control.Args(map[string]any{"workers": "-1", "for": 1})); !strings.Contains(got, `"from":2,"to":1`) {
		t.Errorf("concurrency answers %s", got)
	}
	redistest.Eventually(t, daemontest.Soon, "the concurrency goes back on both", func() bool {
		return !slices.ContainsFunc(s.Daemons(), func(d *goworker.Daemon) bool { return d.Stats().Workers != 2 })
	})
	// The last to answer stops the process; the other id may have been too late.
	r := ask(control.Shutdown)
	if len(r.Replies) == 0 || len(r.Refused) > 0 || slices.ContainsFunc(r.Silent, func(e *control.SilentError) bool { return !e.Gone }) {
		t.Errorf("a shutdown: %+v", r)
	}
	if err := <-ended; err != nil {
		t.Errorf("a shutdown ends the run with %v", err)
	}
	if _, err := control.Gather(c.Inspect(t.Context(), control.Ping)); !errors.Is(err, control.ErrNobody) {
		t.Errorf("nobody is there, and the error is %v", err)
	}
}
