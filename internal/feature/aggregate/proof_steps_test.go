package aggregate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/playtest"
)

// kinds are what may happen.
var kinds = []playtest.Kind[*world]{
	{Name: "push", Weight: 30, Do: (*world).stepPush},
	{Name: "enter", Weight: 3, Do: (*world).StepEnter},
	{Name: "exchange", Weight: 14, Do: (*world).StepExchange},
	{Name: "work", Weight: 34, Do: (*world).StepWork},
	{Name: "end", Weight: 14, Do: (*world).stepEnd},
	{Name: "kill", Weight: 2, Do: (*world).StepKill},
	{Name: "fence", Weight: 1, Do: (*world).StepFence},
	{Name: "reap", Weight: 8, Do: (*world).StepReap},
	{Name: "stop", Weight: 1, Do: (*world).StepStop},
	{Name: "due", Weight: 6, Do: func(w *world, _ playtest.Step) bool { return w.Pump() }},
	{Name: "poison", Weight: 1, Do: (*world).StepPoison},
	{Name: "twice", Weight: 3, Do: (*world).stepTwice},
	{Name: "spoil", Weight: 2, Do: (*world).stepSpoil},
	{Name: "mend", Weight: 4, Do: (*world).StepMend},
	{Name: "remove", Weight: 1, Do: (*world).stepRemove},
	{Name: "clock", Weight: 8, Do: (*world).stepClock},
	{Name: "regroup", Weight: 2, Do: (*world).stepRegroup},
	{Name: "look", Weight: 8, Do: (*world).stepLook},
	{Name: "flush", Weight: 10, Do: (*world).stepFlush},
}

// stepPush pushes some items.
func (w *world) stepPush(s playtest.Step) bool {
	queue := playtest.Pick(w.Queues, s.A&1)
	key := w.Store.KeyOfQueue(queue)
	if w.Calm || slices.Contains(w.Spoiled, key) {
		return false
	}
	class := playtest.Pick(classes, s.B)
	for range 1 + s.C%4 {
		n := len(w.items)
		w.items[n] = 1
		w.Do("RPUSH", key, fmt.Sprintf(`{"class":%q,"args":[%s]}`, class.name, class.args(fmt.Sprint("k", s.A>>1&1), n, w.rand)))
	}
	return true
}

// stepEnd ends the handler of a job that a group became, or of an item that runs alone.
func (w *world) stepEnd(s playtest.Step) bool {
	r := w.Working(s.A)
	if r == nil {
		return false
	}
	how := s.B % 8
	if w.Calm {
		how = 0
	}
	r.Finish(func(context.Context, *outcome.Job) error {
		switch how {
		case 5, 6:
			return errOops
		case 7:
			return &failure.Wish{Kind: failure.WishSnooze}
		}
		return nil
	})
	return true
}

// stepTwice has a job in a queue twice, as after a fail-over.
func (w *world) stepTwice(s playtest.Step) bool {
	key := w.Store.KeyOfQueue(playtest.Pick(w.Queues, s.B))
	if w.Calm || slices.Contains(w.Spoiled, key) {
		return false
	}
	waiting := w.List("LRANGE", key, 0, -1)
	if len(waiting) == 0 {
		return false
	}
	raw := playtest.Pick(waiting, s.A)
	w.Do("RPUSH", key, raw)
	for _, n := range parse([]byte(raw)).numbers() {
		w.items[n]++
	}
	return true
}

// stepSpoil puts another program's text under a key that a commit or a flush writes.
func (w *world) stepSpoil(s playtest.Step) bool {
	keys := []string{w.Store.KeyOfQueue("a"), w.Store.KeyOfQueue("b"), w.store.GroupsKey().String(), "resque:queues"}
	for _, id := range w.seen {
		keys = append(keys, w.store.GroupKey(id).String())
	}
	return w.Spoil(s, keys...)
}

// stepRemove is what an operator does who removes a group, or the index of all.
func (w *world) stepRemove(s playtest.Step) bool {
	if w.Calm || len(w.waits) == 0 || len(w.Spoiled) > 0 {
		return false
	}
	w.tally["removed"]++
	if s.A%2 == 0 {
		w.Do("DEL", w.store.GroupsKey().String())
		for _, g := range w.waits {
			g.lost = true
		}
		return true
	}
	names := make([]string, 0, len(w.waits))
	for name := range w.waits {
		names = append(names, name)
	}
	slices.Sort(names)
	name := playtest.Pick(names, s.B)
	g := w.waits[name]
	w.Do("DEL", w.store.GroupKey(g.id).String())
	for _, item := range g.items {
		n := 0
		_, _ = fmt.Sscanf(strings.TrimLeft(item, `["`), "%d", &n)
		w.items[n]--
	}
	delete(w.waits, name)
	return true
}

// steps of Redis's clock: backwards too.
var clockSteps = []time.Duration{5 * time.Minute, 11 * time.Minute, 61 * time.Minute, 2 * time.Hour, -5 * time.Minute, -2 * time.Hour}

// stepClock sets Redis's clock: all times that groups hold are as much further away.
func (w *world) stepClock(s playtest.Step) bool {
	if len(w.waits) == 0 || len(w.Spoiled) > 0 {
		return false
	}
	w.clockGoes(playtest.Pick(clockSteps, s.A))
	return true
}

func (w *world) clockGoes(by time.Duration) {
	ms := by.Milliseconds()
	for _, g := range w.waits {
		key := w.store.GroupKey(g.id).String()
		for i, element := range w.List("LRANGE", key, 0, -1) {
			words := strings.SplitN(element, " ", 3)
			at := 1
			if i == 0 {
				at = 0
			}
			var was int64
			_, _ = fmt.Sscan(words[at], &was)
			words[at] = fmt.Sprint(was - ms)
			w.Do("LSET", key, i, strings.Join(words, " "))
		}
		g.began, g.last = g.began-ms, g.last-ms
	}
	for _, id := range w.List("ZRANGE", w.store.GroupsKey().String(), 0, -1) {
		w.Do("ZINCRBY", w.store.GroupsKey().String(), -ms, id)
	}
}

// stepLook has a process read which groups are due, or all if it has seen Redis's clock go back. It flushes them later, or dies
// before.
func (w *world) stepLook(s playtest.Step) bool {
	_, ids, _, err := w.store.Due(w.Conn, 10)
	if s.A%3 == 1 {
		ids, err = w.store.All(w.Conn, 0, 10)
	}
	if err != nil {
		if len(w.Spoiled) == 0 {
			w.Must(err)
		}
		return false
	}
	if len(ids) == 0 {
		return false
	}
	w.looks = append(w.looks, ids)
	return true
}

// stepFlush has a process flush groups that it found due, however long ago.
func (w *world) stepFlush(s playtest.Step) bool {
	if len(w.looks) == 0 {
		return false
	}
	at := int(s.A) % len(w.looks)
	ids := w.looks[at]
	w.looks = slices.Delete(w.looks, at, at+1)
	before := w.clock()
	all, err := w.store.Flush(w.Conn, false, ids)
	after := w.clock()
	if err != nil {
		if len(w.Spoiled) == 0 {
			w.Must(err)
		}
		return true
	}
	for _, f := range all {
		w.flush(f.ID, f.Items, f.Err, before, after)
	}
	return true
}

// flush compares what a flush said of a group with the model.
func (w *world) flush(id string, items int, err error, before, after int64) {
	name, g := "", (*group)(nil)
	for n, one := range w.waits {
		if one.id == id {
			name, g = n, one
		}
	}
	switch {
	case err != nil:
		if len(w.Spoiled) == 0 {
			playtest.Fatalf("flushing %s: %v", id, err)
		}
		w.tally["flushes refused"]++
		if g != nil {
			g.late = true
		}
	case g == nil:
		if items != 0 {
			playtest.Fatalf("a group %s that is not there was flushed", id)
		}
	case items > 0:
		if g.due() > after && g.began <= before {
			playtest.Fatalf("group %s was flushed at %d, and is due at %d", id, after, g.due())
		}
		if items != len(g.items) {
			playtest.Fatalf("of group %s %d items were flushed, want %d", id, items, len(g.items))
		}
		w.flushed(name)
	default:
		if g.due() <= before || g.began > after {
			playtest.Fatalf("group %s was not flushed at %d, and was due at %d", id, before, g.due())
		}
		g.late, g.lost = false, false
	}
}

// stop ends a history: keys are mended, processes are found dead, all groups become jobs, and all jobs end well.
func (w *world) stop() {
	w.Calm = true
	w.StepMend(playtest.Step{})
	p := w.Enter()
	for turn := 0; ; turn++ {
		if turn == 500 {
			playtest.Fatalf("the history does not come to rest")
		}
		w.Now = w.Now.Add(time.Minute)
		moved := false
		saw := func(did bool) {
			if did {
				moved = true
				w.check()
			}
		}
		w.Bury(p, func() { saw(true) })
		saw(w.Pump())
		saw(p.Turn())
		if len(p.Busy) > 0 {
			saw(w.stepEnd(playtest.Step{}))
		}
		if !moved && len(w.waits) > 0 {
			w.stepRegroup(playtest.Step{})
			w.clockGoes(24 * time.Hour)
			saw(w.stepLook(playtest.Step{}))
		}
		for len(w.looks) > 0 {
			saw(w.stepFlush(playtest.Step{}))
		}
		saw(w.retryFailures())
		if !moved {
			break
		}
	}
	if len(w.waits) > 0 {
		playtest.Fatalf("when all is over, groups wait")
	}
	for n, want := range w.items {
		if w.done[n] != want {
			playtest.Fatalf("item %d was done %d times, want %d", n, w.done[n], want)
		}
	}
	left := slices.DeleteFunc(w.List("KEYS", "resque:go:group*"), func(key string) bool { return key == w.store.GroupsKey().String() })
	if len(left) > 0 {
		playtest.Fatalf("when all is over, %q are left", left)
	}
}

// stepRegroup is what the leader does that looks at all keys: groups that the index does not name are due.
func (w *world) stepRegroup(playtest.Step) bool {
	var ids []string
	for _, g := range w.waits {
		ids = append(ids, g.id)
	}
	if len(w.Spoiled) > 0 || len(ids) == 0 {
		return false
	}
	n, err := w.store.Regroup(w.Conn, ids)
	w.Must(err)
	for _, g := range w.waits {
		g.late, g.lost = g.late && !g.lost, false
	}
	return n > 0
}

// retryFailures pushes what failed once more.
func (w *world) retryFailures() bool {
	records := w.List("LRANGE", "resque:failed", 0, -1)
	for _, record := range records {
		f, err := payload.ParseFailure([]byte(record))
		w.Must(err)
		w.Do("LREM", "resque:failed", 1, record)
		raw, err := payload.Without(f.Payload, "attempt")
		w.Must(err)
		w.Do("RPUSH", w.Store.KeyOfQueue(f.Queue), raw)
	}
	return len(records) > 0
}
