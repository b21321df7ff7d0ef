package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
)

// moment is a clock that stands still until a test moves it.
type moment struct {
	clock.Clock
	at time.Time
}

func (m *moment) Now() time.Time { return m.at }

func base(c clock.Clock, namespace string) part.Base {
	return part.Base{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Clock: c, Store: resque.New(namespace)}
}

var errLost = errors.New("the connection was lost")

// flaky is a connection that loses calls or their answers, and lets something happen between two calls.
type flaky struct {
	redis.Conn
	rng     *rand.Rand
	between func()
}

func (f *flaky) Do(command string, args ...any) (any, error) {
	if f.between != nil && command != "" && f.rng.IntN(3) == 0 {
		between := f.between
		f.between = nil // it happens within itself no more
		between()
	}
	if command != "" && f.rng.IntN(6) == 0 {
		return nil, errLost
	}
	answer, err := f.Conn.Do(command, args...)
	if command != "" && f.rng.IntN(6) == 0 {
		return nil, errLost
	}
	return answer, err
}

// finish ends a job.
func finish(r *Recorder, slot int, class *outcome.Class, queue string, state outcome.State, ran time.Duration) {
	j := &outcome.Job{Slot: slot, Class: class}
	j.Queue = queue
	o := &outcome.Outcome{State: state, Started: true, Ran: ran, Counts: resque.CountsDone}
	if state == outcome.Failed {
		o.Counts = resque.CountsFailed
	}
	r.Ended(j, o)
}

// sums adds up all rows of each span.
func sums(t *testing.T, s history.Store, c redis.Conn, from, to time.Time) (sums [4]history.Row) {
	t.Helper()
	for n, span := range history.Spans {
		var places []history.Place
		for number := span.Number(from); number <= span.Number(to); number++ {
			places = append(places, history.Place{Span: n, Number: number})
		}
		rows, err := s.ReadRows(c, places)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			sums[n].Add(&rows[i])
		}
	}
	return sums
}

// Several processes count, push packs over connections that lose calls and answers, and die; two keepers fold at a time over
// connections of that kind. In the end every pack that reached Redis is in the rows once, and what a process counted that lives is
// in its packs.
func TestNothingIsLostOrCountedTwice(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		m := &moment{at: time.Date(2026, 11, 23, 23, 58, 0, 0, time.UTC)}
		begun := m.at
		b := base(m, fmt.Sprint("run", seed))
		store, c := history.New(b.Store), server.Dial(t)
		keepers := []*Keeper{newKeeper(b, Config{Now: m.Now}), newKeeper(b, Config{Now: m.Now})}
		fold := func(n int, between func()) {
			_, err := keepers[n].Fold(&flaky{server.Dial(t), rng, between})
			if err != nil && !errors.Is(err, errLost) {
				t.Fatal(err)
			}
		}
		classes := []*outcome.Class{{Name: "Mail"}, {Name: "Resize"}, nil}
		var recorders []*Recorder
		counted := make(map[*Recorder]uint64)
		arrived := make(map[string]uint64) // by recorder and number
		push := func(r *Recorder, sure bool) {
			packs := r.Packs()
			if len(packs) == 0 || !sure && rng.IntN(5) == 0 { // the call was lost
				return
			}
			for _, raw := range packs {
				if _, err := c.Do("RPUSH", store.TallyKey().String(), raw); err != nil {
					t.Fatal(err)
				}
				p, err := history.DecodePack(raw)
				if err != nil {
					t.Fatal(err)
				}
				n := uint64(0)
				for _, of := range p.Row.Classes {
					n += of.Processed
				}
				arrived[fmt.Sprint(p.Recorder, " ", p.Number)] = n
			}
			if sure || rng.IntN(5) > 0 { // else the answer was lost
				r.Pushed(len(packs))
			}
		}
		dead := uint64(0)
		for range 60 {
			m.at = m.at.Add(time.Duration(rng.IntN(15)) * time.Second)
			if len(recorders) < 3 {
				recorders = append(recorders, newRecorder(b, Config{Now: m.Now, Workers: 2, Busy: func() int { return 1 }}))
			}
			r := recorders[rng.IntN(len(recorders))]
			switch rng.IntN(8) {
			case 0: // it is killed
				n := rng.IntN(len(recorders))
				dead += counted[recorders[n]]
				delete(counted, recorders[n])
				recorders = append(recorders[:n], recorders[n+1:]...)
			case 1, 2:
				r.Look()
				r.Pack(m.at, false)
				push(r, false)
			case 3:
				fold(0, func() { fold(1, nil) })
			case 4:
				fold(1, func() { // a pack arrives between the reading and the writing
					finish(r, 0, classes[0], "q0", outcome.Done, time.Second)
					counted[r]++
					m.at = m.at.Add(packEvery)
					r.Pack(m.at, false)
					push(r, false)
				})
			default:
				for range rng.IntN(5) {
					finish(r, rng.IntN(2), classes[rng.IntN(3)], fmt.Sprint("q", rng.IntN(3)), outcome.Done, time.Duration(rng.IntN(1e9)))
					counted[r]++
				}
			}
		}
		var alive, want uint64
		for _, r := range recorders {
			r.Pack(m.at, true)
			for len(r.Packs()) > 0 {
				push(r, true)
			}
			alive += counted[r]
		}
		for more := true; more; {
			var err error
			if more, err = keepers[0].Fold(c); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range arrived {
			want += n
		}
		if want < alive || want > alive+dead {
			t.Fatalf("seed %d: %d jobs were packed; processes that live ended %d, others %d", seed, want, alive, dead)
		}
		left, err := redis.Int(c.Do("LLEN", store.TallyKey().String()))
		if left != 0 || err != nil {
			t.Errorf("seed %d: %d packs are left, %v", seed, left, err)
		}
		for n, row := range sums(t, store, c, begun, m.at) {
			var processed, done, runs uint64
			for _, of := range row.Classes {
				processed += of.Processed
				runs += of.Runs.Count()
			}
			for _, of := range row.Queues {
				done += of.Done
			}
			if processed != want || done != want || runs != want {
				t.Errorf("seed %d: the rows of %s have %d processed, %d done, %d run times; %d were packed", seed, history.Spans[n].Long, processed, done, runs, want)
			}
		}
	}
}

// A keeper forgets rows that ended. A pack that comes later is added to what they have in Redis.
func TestLatePackIsAddedToARowThatWasForgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	m := &moment{at: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	b := base(m, "")
	store, c := history.New(b.Store), server.Dial(t)
	k := newKeeper(b, Config{Now: m.Now})
	pack := func(r *Recorder) (packs [][]byte) {
		finish(r, 0, &outcome.Class{Name: "Mail"}, "low", outcome.Done, time.Second)
		r.Pack(m.at, true)
		packs = r.Packs()
		r.Pushed(len(packs))
		return packs
	}
	fold := func(packs [][]byte) {
		t.Helper()
		for _, raw := range packs {
			server.Do(t, "RPUSH", store.TallyKey().String(), raw)
		}
		if _, err := k.Fold(c); err != nil {
			t.Fatal(err)
		}
	}
	r, held := newRecorder(b, Config{Now: m.Now, Workers: 1}), newRecorder(b, Config{Now: m.Now, Workers: 1})
	begun, late, lateOf := m.at, [][]byte(nil), history.Place{}
	for minute := range 2 * cached {
		if minute == 30 {
			late, lateOf = pack(held), history.Place{Number: history.Spans[0].Number(m.at)}
		}
		fold(pack(r))
		m.at = m.at.Add(time.Minute)
	}
	if len(k.rows) > cached || k.rows[lateOf] != nil {
		t.Fatalf("the keeper remembers %d rows; that of the late pack: %v", len(k.rows), k.rows[lateOf] != nil)
	}
	fold(late)
	for n, row := range sums(t, store, c, begun, m.at) {
		processed := uint64(0)
		for _, of := range row.Classes {
			processed += of.Processed
		}
		if want := uint64(2*cached + 1); processed != want {
			t.Errorf("the rows of %s have %d jobs, want %d", history.Spans[n].Long, processed, want)
		}
	}
}

// After an error the keeper folds again with its next turn. A turn that does nothing would say that the outage is over.
func TestTurnAfterAnErrorFoldsAgain(t *testing.T) {
	t.Parallel()
	m := &moment{at: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	asked := 0
	k := newKeeper(base(m, ""), Config{Now: m.Now, Keeps: func() bool { return true }, Do: func(context.Context, func(redis.Conn) error) error {
		asked++
		return errLost
	}})
	k.length.Store(1)
	for range 2 {
		if _, err := k.turn(t.Context()); !errors.Is(err, errLost) {
			t.Errorf("a turn without Redis: %v", err)
		}
	}
	if asked != 2 {
		t.Errorf("two turns asked Redis %d times", asked)
	}
}
