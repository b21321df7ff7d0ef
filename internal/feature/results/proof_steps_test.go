package results_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/feature/results"
	"github.com/goworker/goworker/internal/feature/unique"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/resque"
)

// step is one step of a history: what is done, and three numbers that say to which process, job or key.
type step struct {
	kind    int
	a, b, c uint8
}

func (s step) String() string {
	return fmt.Sprintf("{%q, %d, %d, %d}", kinds[s.kind].name, s.a, s.b, s.c)
}

// kinds are what may happen. A function returns false where there is nothing of the kind to do.
var kinds = []struct {
	name   string
	weight int
	do     func(w *world, s step) bool
}{
	{"enter", 3, (*world).stepEnter},
	{"push", 6, (*world).stepPush},
	{"exchange", 10, (*world).stepExchange},
	{"work", 24, (*world).stepWork},
	{"hear late", 2, func(w *world, s step) bool { p := w.any(s.a); return p != nil && p.hearLate() }},
	{"start", 8, func(w *world, s step) bool { p := w.alive(s.a); return p != nil && p.start() }},
	{"end", 28, (*world).stepEnd},
	{"progress", 8, (*world).stepProgress},
	{"running", 14, (*world).stepRunning},
	{"note", 22, (*world).stepNote},
	{"late note", 6, (*world).stepLateNote},
	{"kill", 3, (*world).stepKill},
	{"fence", 1, (*world).stepFence},
	{"reap", 12, (*world).stepReap},
	{"stop", 1, (*world).stepStop},
	{"leave", 2, (*world).stepLeave},
	{"log", 6, (*world).stepLog},
	{"abandon", 2, (*world).stepAbandon},
	{"cancel", 4, (*world).stepCancel},
	{"hear", 6, (*world).stepHear},
	{"lift", 2, (*world).stepLift},
	{"forget", 1, (*world).stepForget},
	{"expire", 1, (*world).stepExpire},
	{"tries", 1, (*world).stepTries},
	{"poison", 3, (*world).stepPoison},
	{"due", 6, func(w *world, _ step) bool { return w.pump() }},
	{"retry by hand", 10, (*world).stepRetry},
	{"remove", 2, (*world).stepRemove},
	{"spoil", 1, (*world).stepSpoil},
}

var ids = []string{"a", "b", "c"}

func idOf(n uint8) string { return ids[int(n)%len(ids)] }

func pick[T any](all []T, n uint8) (one T) {
	if len(all) > 0 {
		one = all[int(n)%len(all)]
	}
	return one
}

func (w *world) among(which func(*process) bool) (found []*process) {
	for _, p := range w.procs {
		if which(p) {
			found = append(found, p)
		}
	}
	return found
}

func (w *world) any(n uint8) *process { return pick(w.procs, n) }

func (w *world) alive(n uint8) *process {
	return pick(w.among(func(p *process) bool { return !p.killed }), n)
}

func (w *world) stepEnter(step) bool {
	if len(w.among(func(p *process) bool { return !p.killed && !p.reaped })) == 3 {
		return false
	}
	w.enter()
	return true
}

func (w *world) stepPush(s step) bool {
	if w.number("LLEN", w.store.KeyOfQueue(queue)) > 3 {
		return false
	}
	ttl := time.Duration(1+s.a%2) * time.Hour
	if s.b&0x70 == 0 {
		ttl = 0
	}
	if s.b&0x70 == 0x10 {
		ttl = 10 * 24 * time.Hour // more than documents stay that are pending
	}
	p := outcome.Push{Queue: queue, Name: []string{"Plain", "Again"}[s.b&1], Args: []any{}, Options: new(outcome.Options), ID: idOf(s.a / 2), Chosen: true}
	if ttl > 0 {
		outcome.Put(p.Options, results.TTL(ttl))
	}
	if s.c&0x40 != 0 && ttl > 0 {
		outcome.Put(p.Options, results.Logs(true))
	}
	var due time.Duration
	switch s.c % 8 {
	case 0:
		due = 3 * 24 * time.Hour
		p.At = time.Now().Add(due)
	case 1:
		outcome.Put(p.Options, expiry.Limit{At: time.UnixMilli(1)})
	case 2, 3:
		outcome.Put(p.Options, unique.Options{Hold: resque.HoldDone, Most: unique.AtMost, Key: func(*outcome.Push) string { return "one" }})
	}
	receipts, err := w.client.Enqueue(context.Background(), w.enqueues, []outcome.Push{p})
	spoiled := w.model.other[p.ID] && ttl > 0 // the key is another program's
	switch {
	case err != nil && spoiled && strings.Contains(err.Error(), "WRONGTYPE"):
		return true
	case err != nil:
		w.fatalf("pushing %s: %v", p.ID, err)
	case errors.As(receipts[0].Err, new(*producer.Duplicate)):
		return true
	case receipts[0].Err != nil || spoiled:
		w.fatalf("pushing %s: %+v", p.ID, receipts[0])
	}
	w.model.pushed(job{id: p.ID, ttl: ttl.Milliseconds(), class: p.Name}, due)
	return true
}

func (w *world) stepExchange(s step) bool {
	p := w.alive(s.a)
	if p == nil {
		return false
	}
	how := answered
	if s.b < 100 {
		how = way(s.b % uint8(ways))
	}
	return p.exchange(how)
}

// stepWork is a turn of a process whose workers take what it has reserved.
func (w *world) stepWork(s step) bool {
	p := w.alive(s.a)
	if p == nil {
		return false
	}
	worked := p.exchange(answered)
	for !p.killed && p.start() {
		worked = true
	}
	return worked
}

// working returns a run that a worker of a process that works has.
func (w *world) working(n uint8) *run {
	var busy []*run
	for _, p := range w.procs {
		busy = append(busy, p.busy...)
	}
	return pick(busy, n)
}

var errOops = errors.New("oops")

func (w *world) stepEnd(s step) bool {
	r := w.working(s.a)
	if r == nil {
		return false
	}
	r.p.finish(r, func(ctx context.Context, j *outcome.Job) error {
		r.deaf = r.cut && !errors.Is(context.Cause(ctx), failure.ErrUnwanted)
		if ctx.Err() != nil && s.c%4 != 0 { // its context's end ends it, mostly
			r.obeys = true
			return ctx.Err()
		}
		switch s.b % 16 {
		case 0, 1:
			j.Value = map[string]any{"n": s.c}
		case 2:
			j.Value = "text"
		case 3:
			j.Value = make(chan int)
		case 4, 5, 6: // no value
		case 7, 8, 9:
			return errOops
		case 10:
			return &failure.Wish{Kind: failure.WishDiscard, Err: errOops}
		case 11:
			return &failure.Wish{Kind: failure.WishSnooze, Wait: 24 * time.Hour}
		case 12:
			return &failure.Wish{Kind: failure.WishSnooze}
		case 13:
			return &failure.Wish{Kind: failure.WishRetry, Wait: 24 * time.Hour, Err: errOops}
		case 14:
			return &failure.Wish{Kind: failure.WishFail, Err: errOops}
		case 15:
			return &failure.Cancelled{Cause: failure.ErrShutdown, Err: context.Canceled}
		}
		return nil
	})
	return true
}

func (w *world) stepRunning(s step) bool {
	r := w.working(s.a)
	if r == nil || r.says == nil || r.begun {
		return false
	}
	r.begun = true
	r.p.set.Running(&r.Job)
	return true
}

func (w *world) stepProgress(s step) bool {
	r := w.working(s.a)
	if r == nil || r.says == nil {
		return false
	}
	r.says.Progress(int64(s.b), int64(s.c), "so far")
	r.said, r.kept = fmt.Sprintf(`{"done":%d,"total":%d,"note":"so far"`, s.b, s.c), false
	return true
}

// call is a call with notes that Redis has not heard.
type call struct {
	process string
	notes   []resque.Note
}

// stepNote writes what the jobs of a process say. The call or its answer may be lost, or come late.
func (w *world) stepNote(s step) bool {
	p := w.alive(s.a)
	if p == nil {
		return false
	}
	var runs []*results.Run
	for _, r := range p.busy {
		if r.says != nil {
			runs = append(runs, r.says)
		}
	}
	written := results.Fill(runs)
	if len(written.Notes) == 0 {
		return false
	}
	for i := range written.Notes {
		n := &written.Notes[i]
		r := p.busy[slices.IndexFunc(p.busy, func(r *run) bool { return r.Ticket == n.Ticket })]
		if n.ID != r.job.id || millis(n.TTL) != max(pendingTTL, millis(r.job.ttl)) {
			w.fatalf("a note of %+v is %+v", r.job, n)
		}
	}
	how := answered
	if s.b < 120 {
		how = way(s.b % uint8(ways))
	}
	c := call{p.ID, written.Notes}
	if how == answered || how == answerLost {
		w.write(c)
	}
	if how != requestLost {
		w.calls = append(w.calls, c)
	}
	if how == answered {
		written.Answered()
		for _, r := range p.busy {
			for _, n := range written.Notes {
				if n.Ticket == r.Ticket {
					r.logged = n.Before + len(n.Lines)
				}
			}
			if slices.ContainsFunc(written.Notes, func(n resque.Note) bool { return n.Ticket == r.Ticket && n.Progress != nil }) {
				r.kept = true
			}
		}
	}
	return true
}

// stepLateNote has Redis hear a call with notes, maybe once more, when much may have happened.
func (w *world) stepLateNote(s step) bool {
	if len(w.calls) == 0 {
		return false
	}
	w.write(pick(w.calls, s.a))
	return true
}

func (w *world) write(c call) {
	held := w.list("HKEYS", w.inflight(c.process))
	w.must(w.store.WriteNotes(w.c, c.process, c.notes))
	for i := range c.notes {
		if slices.Contains(held, strconv.FormatInt(c.notes[i].Ticket, 10)) {
			w.model.note(&c.notes[i], c.process)
		}
	}
}

func (w *world) stepKill(s step) bool {
	p := w.alive(s.a)
	if p == nil {
		return false
	}
	p.kill()
	return true
}

// gone are processes that may be taken for dead: mostly they are.
func (w *world) gone(s step) *process {
	return pick(w.among(func(p *process) bool { return !p.reaped && (p.killed || s.c < 60) }), s.b)
}

func (w *world) stepFence(s step) bool {
	p := w.gone(s)
	if p == nil {
		return false
	}
	_, err := w.store.Fence(w.c, p.ID, w.lease(p))
	w.must(err)
	return true
}

func (w *world) stepReap(s step) bool {
	dead := w.gone(s)
	if dead == nil {
		return false
	}
	p := pick(w.among(func(p *process) bool { return !p.killed && p != dead && !p.reaped }), s.a)
	if p == nil {
		return false
	}
	p.reap(dead)
	return true
}

// stepStop gives back the jobs that no worker has, as a process does that stops.
func (w *world) stepStop(s step) bool {
	p := w.alive(s.a)
	if p == nil {
		return false
	}
	p.stopping = true
	p.rec.Requeue(true)
	return true
}

// stepLeave has a process end that has handed in all it had.
func (w *world) stepLeave(s step) bool {
	p := pick(w.among(func(p *process) bool {
		return !p.killed && p.stopping && p.rec.Delivered() && p.rec.Undelivered() == 0 && len(p.busy) == 0
	}), s.a)
	if p == nil {
		return false
	}
	_, err := w.store.Leave(w.c, p.ID)
	w.must(err)
	p.killed, p.reaped = true, true
	return true
}

// stepLog has a running job say a line of its log.
func (w *world) stepLog(s step) bool {
	r := w.working(s.a)
	if r == nil || !r.says.Captures() {
		return false
	}
	line := fmt.Sprintf(`{"msg":"%s %d %d %d"}`, r.p.ID, r.Ticket, len(r.lines), s.b)
	r.says.Line([]byte(line))
	r.lines = append(r.lines, line)
	return true
}

// stop ends a history: processes that work stop, and the others are found dead. No job may be left in a record, and
// so no document may say that its job runs.
func (w *world) stop() {
	done := func(context.Context, *outcome.Job) error { return nil }
	for _, p := range w.procs {
		for len(p.busy) > 0 {
			p.finish(p.busy[0], done)
		}
		for range 4 { // refused outcomes, and those whose bytes are missing, are handed in again
			if !p.killed {
				p.stopping = true
				p.rec.Requeue(true)
				w.now = w.now.Add(time.Minute)
				p.exchange(answered)
			}
		}
		left := slices.DeleteFunc(w.list("HKEYS", w.inflight(p.ID)), func(t string) bool { return t == "entered" })
		if !p.killed && len(left) > 0 {
			w.fatalf("%s has handed in all, and tickets %v are left", p.ID, left)
		}
	}
	last := w.enter()
	for _, p := range w.procs {
		if p != last && !p.reaped {
			last.reap(p)
		}
		if p != last && w.number("EXISTS", w.inflight(p.ID)) == 1 {
			w.fatalf("the record of %s is left", p.ID)
		}
	}
	w.check()
}

// stepAbandon gives back the jobs of a process whose handlers do not end in time.
func (w *world) stepAbandon(s step) bool {
	p := w.alive(s.a)
	if p == nil {
		return false
	}
	p.stopping = true
	p.rec.Requeue(true)
	p.rec.Abandon()
	return true
}

func (w *world) stepCancel(s step) bool {
	id := idOf(s.a)
	if w.model.other["go:cancelled"] || w.model.other[id] {
		return false
	}
	found, err := w.store.Cancel(w.c, id)
	w.must(err)
	d := w.model.docs[id]
	over := d != nil && d.over() && !(d.fields["state"] == "cancelled" && w.model.wanted[id])
	if found.Over != over {
		w.fatalf("cancelling %s finds %+v", id, found)
	}
	if !over {
		w.model.cancelled(id)
	}
	return true
}

func (w *world) stepLift(s step) bool {
	id := idOf(s.a)
	if w.model.other["go:cancelled"] || w.model.other[id] {
		return false
	}
	lifted, err := w.store.LiftCancel(w.c, id)
	w.must(err)
	if lifted != w.model.wanted[id] {
		w.fatalf("lifting the cancel of %s finds %v", id, lifted)
	}
	if lifted {
		w.model.lifted(id)
	}
	return true
}

// stepHear has a process read the keys that its features watch.
func (w *world) stepHear(s step) bool {
	p := w.alive(s.a)
	if p == nil {
		return false
	}
	p.hear()
	return true
}

func (p *process) hear() {
	for _, watched := range p.set.Watched() {
		if err := watched.Read(p.w.c); err != nil && !p.w.model.other["go:cancelled"] {
			p.w.must(err)
		}
	}
	for _, r := range p.busy {
		r.cut = r.cut || p.w.model.wanted[r.job.id]
	}
	p.hears = make(map[string]bool)
	for id := range p.w.model.wanted {
		p.hears[id] = true
	}
	if p.w.model.other["go:cancelled"] {
		p.hears = nil
	}
}

// stepForget is the call of a program.
func (w *world) stepForget(s step) bool {
	id := idOf(s.a)
	w.do("UNLINK", w.store.KeyOfResult(id), w.store.KeyOfProgress(id), w.store.KeyOfJobLogs(id))
	delete(w.model.other, id)
	w.model.forget(id)
	return true
}

// stepExpire ends the time of a document.
func (w *world) stepExpire(s step) bool {
	id := idOf(s.a)
	if w.model.docs[id] == nil {
		return false
	}
	w.do("PEXPIRE", w.store.KeyOfResult(id), 0)
	if w.model.progress[id] != nil {
		w.do("PEXPIRE", w.store.KeyOfProgress(id), 0)
	}
	w.model.forget(id)
	return true
}

// stepTries makes a document of one that had been tried as often as a document lists.
func (w *world) stepTries(s step) bool {
	d := w.model.docs[idOf(s.a)]
	if d == nil || len(d.tries) > 0 {
		return false
	}
	args := redis.Args{w.store.KeyOfResult(idOf(s.a)), "tries", listed}
	for n := 1; n <= listed; n++ {
		t := attempt{Attempt: n, State: "retrying", Exception: "E", Error: "e"}
		d.tries = append(d.tries, t)
		args = args.Add(fmt.Sprint("t", n), fmt.Sprintf(`{"attempt":%d,"state":"retrying","exception":"E","error":"e"}`, n))
	}
	w.do("HSET", args...)
	return true
}

// stepPoison makes a job that waits one with which two deaths were charged: the next one files it.
func (w *world) stepPoison(s step) bool {
	waiting := w.list("LRANGE", w.store.KeyOfQueue(queue), 0, -1)
	if len(waiting) == 0 {
		return false
	}
	w.do("HSET", "resque:go:recovered", resque.Digest([]byte(pick(waiting, s.a))), fmt.Sprintf("2 %d other 2 0", w.now.UnixMilli()))
	return true
}

// stepRetry is what Ruby does when an operator retries a failure: the payload is pushed.
func (w *world) stepRetry(s step) bool {
	records := w.list("LRANGE", "resque:failed", 0, -1)
	if len(records) == 0 {
		return false
	}
	f, err := payload.ParseFailure([]byte(pick(records, s.a)))
	w.must(err)
	w.do("RPUSH", w.store.KeyOfQueue(queue), []byte(f.Payload))
	return true
}

// stepRemove is an operator who removes a key or a part of one.
func (w *world) stepRemove(s step) bool {
	id := idOf(s.b)
	switch s.a % 4 {
	case 0:
		delete(w.model.docs, id)
		delete(w.model.other, id)
		return w.number("DEL", w.store.KeyOfResult(id)) > 0
	case 1:
		delete(w.model.progress, id)
		return w.number("DEL", w.store.KeyOfProgress(id)) > 0
	case 2:
		clear(w.model.wanted)
		delete(w.model.other, "go:cancelled")
		return w.number("DEL", w.store.KeyOfCancelled()) > 0
	default:
		p := w.any(s.b)
		if p == nil {
			return false
		}
		if s.a >= 192 { // the whole record
			for _, value := range w.list("HVALS", w.inflight(p.ID)) {
				if _, raw, ok := resque.CutPrefix([]byte(value)); ok {
					w.model.orphans[parse(raw).id] = true
				}
			}
			return w.number("DEL", w.inflight(p.ID)) > 0
		}
		tickets := w.list("HKEYS", w.inflight(p.ID))
		tickets = slices.DeleteFunc(tickets, func(t string) bool { return t == "entered" })
		if len(tickets) == 0 {
			return false
		}
		slices.Sort(tickets)
		ticket := pick(tickets, s.c)
		value, err := redis.Bytes(w.do("HGET", w.inflight(p.ID), ticket), nil)
		w.must(err)
		if _, raw, ok := resque.CutPrefix(value); ok {
			w.model.orphans[parse(raw).id] = true
		}
		w.do("HDEL", w.inflight(p.ID), ticket)
		return true
	}
}

// stepSpoil is an operator who gives a key another type.
func (w *world) stepSpoil(s step) bool {
	if s.a%4 == 0 {
		w.do("SET", w.store.KeyOfCancelled(), "spoiled")
		clear(w.model.wanted)
		w.model.other["go:cancelled"] = true
		return true
	}
	id := idOf(s.b)
	w.do("SET", w.store.KeyOfResult(id), "spoiled")
	delete(w.model.docs, id)
	w.model.other[id] = true
	return true
}
