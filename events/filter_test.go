package events_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/events"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// A filter that can match nothing gives one error, and so does a cursor that no event has.
func TestFilterMistakes(t *testing.T) {
	t.Parallel()
	f := &fleet{T: t, redis: redistest.Start(t)}
	f.dial()
	cursor := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, bad := range []events.Filter{
		{Kinds: []string{"fialed"}},
		{Kinds: []string{events.Failed, ""}},
		{Kinds: []string{"Failed"}},
		{Queues: []string{"a["}},
		{Queues: []string{"mail", ""}},
		{Queues: []string{"a\\"}},
		{Classes: []string{"["}},
		{Classes: []string{" \t"}},
		{IDs: []string{""}},
		{Since: -1},
		{After: "x"},
		{After: "fHw"},
		{After: cursor("1-1 1-1 1-1 -1")},
		{After: cursor("1-1 1-1 1-1 1x")},
		{After: cursor("1-1 1-1 a 1")},
		{After: cursor("1-1 -1 1-1 1")},
		{After: cursor("1-1 + 1-1 1")},
	} {
		n := 0
		ctx, cancel := context.WithTimeout(t.Context(), daemontest.Soon)
		for _, err := range events.Watch(ctx, f.client, bad) {
			if n++; err == nil || !strings.HasPrefix(fmt.Sprint(err), "goworker: ") {
				t.Errorf("%+v: %v", bad, err)
			}
			if n > 1 {
				break
			}
		}
		cancel()
		if n != 1 {
			t.Errorf("%+v: %d pairs", bad, n)
		}
	}
}

// Queues, classes and ids are of jobs. Events of processes come beside them where Kinds names them, and not else.
func TestFilterOfJobsAndProcesses(t *testing.T) {
	t.Parallel()
	f := &fleet{T: t, redis: redistest.Start(t)}
	f.dial()
	f.redis.Do(t, "XADD", "resque:go:log", "*", "kind", events.Lost, "process", "web-1")
	f.redis.Do(t, "XADD", "resque:go:log", "*", "kind", events.Online, "process", "web-1")
	long := strings.Repeat("i", 128) // as long as an id may be
	f.redis.Do(t, "XADD", "resque:go:events", "*", "e", `{"k":"failed","q":"mail/eu","c":"example.com/jobs.Send","i":"`+long+`"}`)
	for _, c := range []struct {
		filter events.Filter
		want   string
	}{
		{events.Filter{Kinds: []string{events.Failed, events.Lost}, Queues: []string{"mail*"}}, "failed lost"},
		{events.Filter{Queues: []string{"mail*"}}, "failed"},
		{events.Filter{Kinds: []string{events.Failed, events.Lost}, Queues: []string{"other"}}, "lost"},
		{events.Filter{Kinds: []string{events.Failed, events.Online}, Classes: []string{"*.Send"}}, "failed online"},
		{events.Filter{Kinds: []string{events.Lost}, IDs: []string{"a"}}, "lost"},
		{events.Filter{IDs: []string{long}}, "failed"},
	} {
		c.filter.Since = math.MaxInt64 // which is before the first second that a stream can have
		s := f.watch(c.filter)
		kinds := func() string {
			var all []string
			for _, e := range s.events() {
				if e.Kind != events.Missed {
					all = append(all, e.Kind)
				}
			}
			slices.Sort(all)
			return strings.Join(all, " ")
		}
		redistest.Eventually(t, daemontest.Soon, c.want+" is seen", func() bool { return len(kinds()) >= len(c.want) })
		if got := kinds(); got != c.want {
			t.Errorf("%+v sees %s, not %s", c.filter, got, c.want)
		}
		s.stop()
	}
}

// A listener of one queue sees also what a process only counts, and one that asks for an id learns that some are not known.
func TestFilterOfWhatIsCounted(t *testing.T) {
	t.Parallel()
	const jobs = 1000
	f := setup(t, nil, func(d *goworker.Daemon) {
		probe(d)
		d.Register("Fast", func() error { return nil })
	})
	all := f.watch(events.Filter{All: true})
	f.heard(all)
	mail := f.watch(events.Filter{Kinds: []string{events.Done}, Queues: []string{"mail"}})
	one := f.watch(events.Filter{Kinds: []string{events.Done}, Queues: []string{"mail"}, IDs: []string{"K3V9"}})
	f.wait(3)
	var items []goworker.Item
	for range jobs {
		items = append(items, goworker.Item{Job: job("mail", "Fast")}, goworker.Item{Job: job("work", "Fast")})
	}
	if _, err := f.client.EnqueueMany(t.Context(), items...); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, daemontest.Soon, "all are counted", func() bool { return all.count(events.Done) >= 2*jobs })
	redistest.Eventually(t, daemontest.Soon, "those of the queue are counted", func() bool { return mail.count(events.Done) >= jobs })
	for _, e := range mail.events() {
		if e.Kind == events.Done && e.Queue != "mail" || e.Kind == events.Missed {
			t.Errorf("%+v", e)
		}
	}
	if n := mail.count(events.Done); n != jobs {
		t.Errorf("%d events of %d jobs", n, jobs)
	}
	redistest.Eventually(t, daemontest.Soon, "a listener of an id learns that ids are not known", func() bool { return one.count(events.Missed) > 0 })
	if n := one.count(events.Done); n > 0 {
		t.Errorf("%d events of a job that does not exist", n)
	}
	for _, e := range one.events() {
		if e.Kind == events.Missed && (e.Process == "" || !strings.Contains(e.Text, "Fast")) {
			t.Errorf("%+v", e)
		}
	}
}

// A listener whose kinds are all rare asks processes for nothing more, whatever All says.
func TestAllOfFewKinds(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, func(d *goworker.Daemon) {
		probe(d)
		d.Register("Fails", func() error { return errors.New("no") })
	}, func(s *goworker.WorkerSettings) { s.Logger = slog.New(slog.DiscardHandler) })
	s := f.watch(events.Filter{Kinds: []string{events.Discarded}, All: true})
	redistest.Eventually(t, daemontest.Soon, "it sees one", func() bool { return s.count(events.Discarded) > 0 || f.again() })
	if n := f.redis.Int(t, "EXISTS", "resque:go:events-all"); n > 0 {
		t.Error("processes send packs that no program wants")
	}
}
