package record

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
)

const (
	// foldEvery is how often packs are folded. Sooner they are where many wait.
	foldEvery = packEvery - 2*time.Second // the renewal that wakes the keeper comes up to 2 s later
	foldMany  = 200

	// absentAfter is how long packs wait until a server folds them where no daemon does.
	absentAfter = time.Minute

	// foldsTogether bounds how many folds follow each other without a pause.
	foldsTogether = 8

	// cached is how many rows the keeper remembers.
	cached = 64
)

// Keeper adds packs to the rows of the history, in the process that has this duty.
type Keeper struct {
	base   part.Base
	store  history.Store
	config Config
	loop   *part.Loop
	length atomic.Int64 // of the tally, as of the last renewal; 0: this process does not fold
	waits  time.Time    // since when packs wait and nobody folds; of the goroutine that renews

	// of the loop's goroutine
	folded  time.Time
	number  string // of the last fold of this process; "": it remembers no rows
	since   time.Time
	rows    map[history.Place]*history.Row // as they are, while the number is that
	pushed  map[string]int64               // to each queue ever, at the last fold; nil: it is not known
	leveled time.Time
	said    logging.Once
}

func newKeeper(b part.Base, config Config) *Keeper {
	k := &Keeper{base: b, store: history.New(b.Store), config: config}
	k.loop = part.NewLoop(b, "history", k.turn)
	k.loop.Patient = true
	return k
}

// Load has a renewal read how many packs wait, if this process is to fold them.
func (k *Keeper) Load(c *resque.Cargo) {
	keeps := k.config.Keeps()
	if !keeps && !k.config.Steps {
		return
	}
	length := 0
	k.store.ReadLength(c, func(n int) {
		if length = n; keeps {
			k.length.Store(int64(n))
		}
	})
	if !keeps {
		k.store.ReadFolded(c, func(at time.Time) {
			if now := k.config.Now(); length == 0 || now.Sub(at) < absentAfter {
				k.waits = time.Time{}
			} else if k.waits.IsZero() {
				k.waits = now
			} else if now.Sub(k.waits) >= absentAfter {
				k.length.Store(int64(length))
			}
		})
	}
}

// Answered wakes the keeper where packs wait.
func (k *Keeper) Answered() {
	if k.length.Load() > 0 {
		k.loop.Wake()
	}
}

// turn folds if there is something to fold.
func (k *Keeper) turn(ctx context.Context) (wait time.Duration, err error) {
	if !k.config.Keeps() && !k.config.Steps {
		k.length.Store(0)
		return part.Never, nil
	}
	n := k.length.Load()
	if n == 0 || n < foldMany && clock.Since(k.base.Clock, k.folded) < foldEvery {
		return part.Never, nil
	}
	k.length.Store(0)
	k.folded = k.base.Clock.Now()
	err = k.config.Do(ctx, func(c redis.Conn) error {
		for range foldsTogether {
			if more, err := k.Fold(c); err != nil || !more {
				return err
			}
		}
		return nil
	})
	if kind := conn.Classify(err); kind == conn.KindNoPerm || resque.IsWrongType(err) {
		if k.said.News("history", err.Error()) {
			k.base.Log.Warn("the history of the fleet is not written; the jobs run all the same", "error", err)
		}
		return part.Never, nil
	}
	if err != nil { // the next turn tries again: one that does nothing would end the outage
		k.length.CompareAndSwap(0, n)
		k.folded = time.Time{}
	}
	return part.Never, err
}

// Fold folds the packs that come next. more says that others wait.
func (k *Keeper) Fold(c redis.Conn) (more bool, err error) {
	tally, err := k.store.ReadTally(c)
	if err != nil || len(tally.Packs) == 0 {
		return false, err
	}
	now := k.config.Now()
	f := history.NewFold(tally, now)
	pushed := k.level(f, &tally.Levels, now)
	if tally.Number != k.number || k.number == "" { // another process has folded, or none ever
		k.rows, k.since = make(map[history.Place]*history.Row), now.Add(2*history.Ahead)
	}
	k.number, k.pushed = "", nil // where it is uncertain whether a fold was written, no queue's jobs are counted twice
	rows, err := k.read(c, f.Places())
	if err != nil {
		return false, err
	}
	f.Add(rows)
	written, err := k.store.Write(c, f)
	switch {
	case err != nil: // it may have been written
		return false, err
	case !written:
		return false, nil
	}
	for p, row := range f.Rows {
		k.rows[p] = row
	}
	k.number, k.pushed = f.Number, pushed
	k.trim(now)
	if f.Bad > 0 {
		k.base.Log.Warn("packs of the history could not be read; they were removed", "packs", f.Bad, "key", k.store.TallyKey().String())
	}
	return tally.More, nil
}

// level adds what the fleet is now, if it was not looked at just before. It returns how many jobs were ever pushed to each queue.
func (k *Keeper) level(f *history.Fold, l *history.Levels, now time.Time) (pushed map[string]int64) {
	if k.pushed != nil && now.Sub(k.leveled) < foldEvery/2 && !now.Before(k.leveled) {
		return k.pushed
	}
	k.leveled = now
	var row history.Row
	pushed = make(map[string]int64, len(l.Depths))
	waiting := int64(0)
	for name, d := range l.Depths {
		before, known := k.pushed[name]
		came := max(0, d.Pushed-before)
		pushed[name] = d.Pushed
		waiting += d.Length
		if d.Length == 0 && (!known || came == 0) {
			continue
		}
		q := row.Queue(history.Name(name))
		if known {
			q.Pushed += uint64(came)
		}
		q.Depth.See(uint64(d.Length))
		if d.Length > 0 && !d.Oldest.IsZero() {
			q.Age.See(uint64(max(0, now.Sub(d.Oldest).Milliseconds())))
		}
	}
	see := func(to *history.Level, numbers ...int64) {
		sum := int64(0)
		for _, n := range numbers {
			if n < 0 {
				return // it is not known
			}
			sum += n
		}
		to.See(uint64(sum))
	}
	if len(l.Depths) > 0 {
		see(&row.Fleet.Waiting, waiting)
	}
	see(&row.Fleet.Processes, l.Processes, l.Takers)
	see(&row.Fleet.Delayed, l.Delayed, l.Seconds)
	see(&row.Fleet.Failures, l.Failures)
	see(&row.Fleet.Memory, l.Memory)
	row.Fleet.Stuck.See(f.Stuck())
	f.Level(&row)
	return pushed
}

// read returns the rows of these places. It asks Redis for those that it does not remember and that another process may have
// written before this one began to remember.
func (k *Keeper) read(c redis.Conn, places []history.Place) (map[history.Place]*history.Row, error) {
	rows := make(map[history.Place]*history.Row, len(places))
	var unknown []history.Place
	for _, p := range places {
		switch row := k.rows[p]; {
		case row != nil:
			rows[p] = row
		case p.Begins().After(k.since):
			rows[p] = new(history.Row)
		default:
			unknown = append(unknown, p)
		}
	}
	found, err := k.store.ReadRows(c, unknown)
	for i := range found {
		rows[unknown[i]] = &found[i]
	}
	return rows, err
}

// trim forgets rows that have ended. From then on read asks for those again: to them a late pack is added, too.
func (k *Keeper) trim(now time.Time) {
	if len(k.rows) <= cached {
		return
	}
	for p := range k.rows {
		if p.Ends().Before(now.Add(-history.ResentFor)) {
			if delete(k.rows, p); p.Begins().After(k.since) {
				k.since = p.Begins()
			}
		}
	}
}
