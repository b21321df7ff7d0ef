package events

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/events"
)

// of a process that has not started: it hears, and sends nothing.
func process() *Events {
	return New(part.Base{Log: slog.New(slog.DiscardHandler), Clock: clock.System, Store: resque.New("")}, Config{
		Now: time.Now, Process: func() string { return "web:1:x" },
	})
}

// A process obeys a listener for thirty seconds at most, whatever stands in the notice, and what it cannot read it does not obey.
func TestObeysForThirtySeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for value, want := range map[string]time.Duration{
			strconv.FormatInt(time.Now().Add(20*time.Second).UnixMilli(), 10): 20 * time.Second,
			strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10):      30 * time.Second,
			strconv.FormatInt(math.MaxInt64, 10):                              30 * time.Second,
			strconv.FormatInt(math.MinInt64, 10):                              0,
			"1":                                                               0, "": 0, "soon": 0, "99999999999999999999": 0,
		} {
			e := process()
			e.Ends(value)
			if width, left := e.asked(); want > 0 && (width != ends || left > want || left < want-time.Second) || want == 0 && width != off {
				t.Errorf("%q: it sends %d for %s", value, width, left)
			}
		}
		e := process()
		e.Ends(strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10))
		time.Sleep(10 * time.Second)
		e.All(strconv.FormatInt(time.Now().Add(10*time.Second).UnixMilli(), 10))
		for after, want := range []uint32{all, ends, off} { // by tens of seconds: the wider one ends first
			if width, _ := e.asked(); width != want {
				t.Errorf("after %d0 s it sends %d, not %d", after, width, want)
			}
			time.Sleep(10 * time.Second)
		}
	})
}

// While no program listens, nothing is encoded: a job that ends takes no memory and has no effect, and no pack begins. What comes just
// behind the last look for listeners does not wait for the next one.
func TestNothingIsEncoded(t *testing.T) {
	e := process()
	jobs := []*outcome.Job{{Name: "Send"}, {Name: "Send", Started: true, Place: "a"}}
	settled := policy{seat: &e.seat}
	count := testing.AllocsPerRun(100, func() {
		for _, j := range jobs {
			for _, state := range []outcome.State{outcome.Done, outcome.Failed, outcome.Returned} {
				o := outcome.Outcome{State: state}
				settled.Settle(j, &o)
				e.Ended(j, &o)
				if len(o.Effects) > 0 {
					t.Fatal("an event, and no program listens")
				}
			}
		}
		e.Enqueued("mail", "Send", "a")
		e.Given("mail", "Send", "a", 1)
		e.Done("mail", "Send", "a")
		e.add(events.Started, of{queue: "mail", class: "Send"}) // it looked before the loop did
	})
	if count > 0 || !e.pack.empty() {
		t.Errorf("%v allocations, and a pack of %d bytes", count, len(e.pack.body))
	}
	e.set(ends)
	o := outcome.Outcome{State: outcome.Failed, Err: errors.New("no")}
	settled.Settle(jobs[0], &o)
	if e.Ended(jobs[0], &outcome.Outcome{State: outcome.Done}); len(o.Effects) == 0 || !e.pack.empty() {
		t.Errorf("%d effects, and a pack of %d bytes", len(o.Effects), len(e.pack.body))
	}
}

// A pack has a hundred events singly and counts the rest exactly. It has a bound, whatever the names are and however many there are.
func TestPackIsBounded(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		queue, class string
		names        int
	}{
		"one class":      {"mail", "Send", 1},
		"twenty classes": {"mail", "Send", 20},
		"many classes":   {"mail", "Send", 5000},
		"long names":     {strings.Repeat("q", 300), strings.Repeat("c", 300), 300},
		"hostile names":  {strings.Repeat("\x00", 300), strings.Repeat("\xff<", 300), 300},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := process()
			e.set(all)
			const jobs = 10_000
			for n := range jobs {
				name := fmt.Sprint(n % c.names)
				e.Done(name+c.queue, name+c.class, name)
			}
			e.mu.Lock()
			body := e.pack.take(time.Now())
			e.mu.Unlock()
			if len(body) > events.PackBytes {
				t.Errorf("the pack has %d bytes", len(body))
			}
			counted, singles, unnamed := int64(0), 0, 0
			for _, one := range events.ParsePack(string(body)) {
				if one.Count == 0 {
					singles++
				} else if one.Queue == "" {
					unnamed++
				}
				counted += max(1, one.Count)
			}
			if counted != jobs || singles > mostSingly || c.names == 1 && singles != mostSingly {
				t.Errorf("%d events of %d, %d of them singly", counted, jobs, singles)
			}
			if few := c.names <= 20; few != (unnamed == 0) {
				t.Errorf("%d sums have no queue", unnamed)
			}
			if !e.pack.empty() {
				t.Error("the pack is not empty")
			}
		})
	}
}

// BenchmarkEvent measures what an event costs a worker: while no program listens, singly, and where it is only counted.
func BenchmarkEvent(b *testing.B) {
	j, o := &outcome.Job{Name: "SendEmail", ID: "K3V9"}, &outcome.Outcome{State: outcome.Done, Ran: time.Millisecond}
	for _, of := range []struct {
		what   string
		width  uint32
		single bool
	}{{"off", off, false}, {"counted", all, false}, {"single", all, true}} {
		b.Run(of.what, func(b *testing.B) {
			e := process()
			e.set(of.width)
			b.ReportAllocs()
			for b.Loop() {
				if e.Ended(j, o); of.single {
					e.pack.singles, e.pack.body = 0, e.pack.body[:0]
				}
			}
		})
	}
}
