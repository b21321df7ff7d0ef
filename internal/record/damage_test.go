package record

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
)

// counted returns a Recorder with one done job in a pack.
func counted(m *moment, class string) *Recorder {
	r := newRecorder(base(m, ""), Config{Now: m.Now, Workers: 1})
	finish(r, 0, &outcome.Class{Name: class}, "work", outcome.Done, time.Second)
	r.Pack(m.at, true)
	return r
}

// What another program writes into the tally, or into the keys of the history, costs no pack.
func TestDamagedKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	m := &moment{at: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	k := newKeeper(base(m, ""), Config{Now: m.Now})
	c := server.Dial(t)
	done := func(want uint64) {
		t.Helper()
		rows := sums(t, k.store, c, m.at, m.at)
		if got := rows[0].Class("Mail").Ends[outcome.Done]; got != want {
			t.Errorf("the minute has %d jobs, want %d", got, want)
		}
	}
	push := func(raw ...any) {
		t.Helper()
		server.Do(t, "RPUSH", append([]any{"resque:go:tally"}, raw...)...)
	}
	push("", "{}", "\xff\xff\xff", counted(m, "Mail").Packs()[0], strings.Repeat("\x01", 1000))
	if _, err := k.Fold(c); err != nil {
		t.Fatal(err)
	}
	done(1)
	if n := server.Int(t, "LLEN", "resque:go:tally"); n != 0 {
		t.Errorf("%d packs are left", n)
	}

	server.Do(t, "RENAME", "resque:go:folded", "saved")
	server.Do(t, "SET", "resque:go:folded", "text")
	push(counted(m, "Mail").Packs()[0])
	if _, err := k.Fold(c); !resque.IsWrongType(errors.Unwrap(err)) && !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("the error is %v", err)
	}
	server.Do(t, "RENAME", "saved", "resque:go:folded")
	if _, err := k.Fold(c); err != nil {
		t.Fatal(err)
	}
	done(2)

	// A row that is no row begins again, and a key of another type gives way.
	minute := history.Place{Number: history.Spans[0].Number(m.at)}.Key(k.store).String()
	for _, damage := range [][]any{{"SET", minute, "text"}, {"SADD", minute, "text"}} {
		server.Do(t, "DEL", minute)
		server.Do(t, damage[0].(string), damage[1:]...)
		push(counted(m, "Mail").Packs()[0])
		other := newKeeper(base(m, ""), Config{Now: m.Now}) // it remembers no row
		if _, err := other.Fold(c); err != nil {
			t.Fatal(err)
		}
		done(1)
	}
	server.Do(t, "DEL", "resque:go:tally")
	server.Do(t, "SET", "resque:go:tally", "text")
	if _, err := k.Fold(c); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("the error is %v", err)
	}

	// A full Redis folds: that makes it emptier.
	server.Do(t, "DEL", "resque:go:tally")
	push(counted(m, "Mail").Packs()[0])
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	if _, err := k.Fold(c); err != nil {
		t.Error(err)
	}
	done(2)
}

// Queues that a producer invents have the name (other) when 256 have names, and those that were known first keep theirs. Classes
// that are not registered have none.
func TestInventedNames(t *testing.T) {
	t.Parallel()
	m := &moment{at: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	r := newRecorder(base(m, ""), Config{Now: m.Now, Workers: 2})
	mail := &outcome.Class{Name: "Mail"}
	r.Pack(m.at, false)
	finish(r, 0, mail, "real", outcome.Done, time.Second)
	long := strings.Repeat("q", 3000)
	for n := range 5000 {
		finish(r, n%2, nil, fmt.Sprint(n)+long, outcome.Failed, 0)
	}
	finish(r, 1, mail, "real", outcome.Done, time.Second)
	var all history.Row
	read := func() {
		m.at = m.at.Add(packEvery)
		r.Pack(m.at, false)
		packs := r.Packs()
		r.Pushed(len(packs))
		for _, raw := range packs {
			p, err := history.DecodePack(raw)
			if err != nil || len(raw) > history.MostPack {
				t.Fatalf("%d bytes, %v", len(raw), err)
			}
			all.Add(&p.Row)
		}
	}
	read()
	if len(all.Classes) != 2 || all.Class("Mail").Processed != 2 || all.Class(history.Unknown).Ends[outcome.Failed] != 5000 {
		t.Errorf("classes: %d, %+v", len(all.Classes), all.Classes)
	}
	if len(all.Queues) > history.MostNames+1 || all.Queue("real").Done != 2 || all.Queue(history.Other).Failed == 0 {
		t.Errorf("%d queues, real %+v, other %+v", len(all.Queues), all.Queue("real"), all.Queue(history.Other))
	}

	// After a day without a job the names are free.
	m.at = m.at.Add(forgottenAfter + time.Minute)
	finish(r, 0, mail, "real", outcome.Done, time.Second)
	read()
	finish(r, 0, mail, "late", outcome.Done, time.Second)
	read()
	if all.Queue("late").Done != 1 || all.Queue("real").Done != 3 {
		t.Errorf("late %+v, real %+v", all.Queue("late"), all.Queue("real"))
	}
}

// While the tally takes no more, what was counted is given up and counted as that.
func TestAFullTally(t *testing.T) {
	t.Parallel()
	m := &moment{at: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	r := newRecorder(base(m, ""), Config{Now: m.Now, Workers: 1})
	count := func() {
		m.at = m.at.Add(packEvery)
		finish(r, 0, &outcome.Class{Name: "Mail"}, "work", outcome.Done, time.Second)
		r.Pack(m.at, false)
	}
	r.Pack(m.at, false)
	server := redistest.Start(t)
	c, process := server.Dial(t), resque.Process{ID: "a:1:1", Concurrency: 1, IDHead: "a:1-", IDQueues: "*"}
	if err := r.Store.Enter(c, process, time.Hour, m.at); err != nil {
		t.Fatal(err)
	}
	server.Do(t, "RPUSH", append([]any{"resque:go:tally"}, make([]any, history.MostTally)...)...)
	count()
	cargo := &resque.Cargo{Number: 1}
	r.Load(cargo)
	if _, err := r.Store.Renew(c, process.ID, time.Hour, time.Hour, cargo); err != nil || len(r.Packs()) != 0 {
		t.Fatalf("%d packs have not arrived, %v", len(r.Packs()), err)
	}
	count()
	if n := len(r.Packs()); n != 0 {
		t.Errorf("%d packs were made", n)
	}
	count()
	p, err := history.DecodePack(r.Packs()[0])
	if err != nil || p.Row.Fleet.Dropped != 1 || p.Row.Class("Mail").Ends[outcome.Done] != 1 {
		t.Errorf("%+v, %v", p, err)
	}

	// A pack whose arrival stays uncertain is given up too: by then Redis may have forgotten whether it has it.
	for range 2 * int(history.ResentFor/packEvery) {
		count()
	}
	if n := len(r.packs); n > int(history.ResentFor/packEvery)+1 {
		t.Errorf("%d packs are kept", n)
	}
}

// A process that does nothing makes a pack each five minutes. Its workers were present in each of these minutes.
func TestIdleMinutes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	begun := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	m := &moment{at: begun}
	b := base(m, "")
	r, k := newRecorder(b, Config{Now: m.Now, Workers: 4}), newKeeper(b, Config{Now: m.Now})
	c := server.Dial(t)
	packs := 0
	for range 5 * 30 { // five minutes of renewals
		r.Look()
		r.Pack(m.at, false)
		m.at = m.at.Add(2 * time.Second)
	}
	r.Look()
	r.Pack(m.at, false)
	for _, raw := range r.Packs() {
		server.Do(t, "RPUSH", "resque:go:tally", raw)
		packs++
	}
	if _, err := k.Fold(c); err != nil || packs != 1 {
		t.Fatalf("%d packs, %v", packs, err)
	}
	rows, err := k.store.ReadRows(c, []history.Place{{Number: history.Spans[0].Number(begun) + 1}, {Number: history.Spans[0].Number(begun) + 3}, {Span: 2, Number: history.Spans[2].Number(begun)}})
	if err != nil || rows[0].Fleet.Present != 4*time.Minute || rows[1].Fleet.Present != 4*time.Minute || rows[2].Fleet.Present != 20*time.Minute {
		t.Errorf("%+v, %v", rows, err)
	}
}

// What clients of a server end is counted without a run time, and without a class where the server names none.
func TestLeasedJobs(t *testing.T) {
	t.Parallel()
	m := &moment{at: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	h := New(base(m, ""), Config{Now: m.Now})
	h.Done("mail", "")
	h.Done("mail", "HTTPJob")
	j := &outcome.Job{Place: "4:maila"}
	j.Queue = "mail"
	h.Ended(j, &outcome.Outcome{State: outcome.Retried, Started: true, Counts: resque.CountsDone})
	h.recorder.Pack(m.at, true)
	p, err := history.DecodePack(h.recorder.Packs()[0])
	c, q := p.Row.Class(history.Unknown), p.Row.Queue("mail")
	if err != nil || c.Ends[outcome.Done] != 1 || c.Ends[outcome.Retried] != 1 || c.Processed != 2 || c.Runs.Count() != 0 || q.Done != 2 || q.Taken != 3 {
		t.Errorf("%+v, %+v, %v", c, q, err)
	}
	if c := p.Row.Class("HTTPJob"); c.Ends[outcome.Done] != 1 {
		t.Errorf("%+v", c)
	}
}
