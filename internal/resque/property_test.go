package resque

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// In any sequence of pushes, exchanges, lost answers, kills, recoveries and prunings,
// every job ever pushed is in exactly one place: a queue, a record, the failures, or done;
// and Redis holds, key for key and in order, what the model says.
func TestNothingIsEverLost(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	rapid.Check(t, func(rt *rapid.T) {
		w.do("FLUSHALL")
		r := &run{T: rt, w: w, m: newModel()}
		rt.Repeat(map[string]func(*rapid.T){
			"push":     r.push,
			"enter":    r.enter,
			"exchange": r.exchange,
			"turn":     r.exchange, // twice as often as the others
			"kill":     r.kill,
			"reap":     r.reap,
			"prune":    r.prune,
			"pause":    r.pause,
			"remove":   r.remove,
			"forget":   func(*rapid.T) { w.do("SCRIPT", "FLUSH") },
			"":         func(*rapid.T) { r.check() },
		})
		// At last all processes die and are found dead: nothing may stay behind.
		for _, p := range r.m.procs {
			if !p.left {
				r.reapWhole(p)
			}
		}
		r.prune(rt)
		r.check()
		for key := range r.keys {
			if len(key) > len("resque:go:inflight") && key[:len("resque:go:inflight")] == "resque:go:inflight" {
				rt.Errorf("%s stays behind", key)
			}
		}
	})
}

// run is one sequence of steps.
type run struct {
	*rapid.T
	w    *wire
	m    *model
	jobs int
	keys map[string]any
}

func (r *run) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *run) check() {
	r.Helper()
	r.keys = actual(r.T, r.w.s, r.w.server.Dump(r.w.t, ""))
	if diff := cmp.Diff(r.m.keys(r.w.s), r.keys); diff != "" {
		r.Fatalf("Redis is not as the model (-model +Redis):\n%s", diff)
	}
	at := whereabouts(r.w.s, r.keys)
	for payload, n := range r.m.done {
		at[payload] += n
	}
	if diff := cmp.Diff(r.m.pushed, at); diff != "" {
		r.Fatalf("jobs are lost or doubled (-pushed +found):\n%s", diff)
	}
}

var modelQueues = []string{"high", "low"}

// payload is a new job, or now and then one of a few twins.
func (r *run) payload(t *rapid.T) string {
	if rapid.IntRange(0, 4).Draw(t, "twin") == 0 {
		return job("Twin")
	}
	r.jobs++
	return job(fmt.Sprint("J", r.jobs))
}

func (r *run) push(t *rapid.T) {
	queue := rapid.SampledFrom(modelQueues).Draw(t, "queue")
	for range rapid.IntRange(1, 5).Draw(t, "jobs") {
		payload := r.payload(t)
		r.must(r.w.s.Push(r.w.c, queue, []byte(payload)))
		r.m.push(queue, payload)
	}
}

func (r *run) enter(t *rapid.T) {
	if len(r.among(func(p *modelProc) bool { return !p.fenced })) == 3 {
		t.Skip("enough processes")
	}
	id := fmt.Sprint("p", len(r.m.procs))
	r.must(r.w.s.Enter(r.w.c, someProcess(id), lease, noon))
	r.m.procs = append(r.m.procs, &modelProc{id: id, epoch: 1, record: map[int64]Reserved{}})
}

func (r *run) among(which func(*modelProc) bool) []*modelProc {
	return slices.DeleteFunc(slices.Clone(r.m.procs), func(p *modelProc) bool { return !which(p) })
}

func (r *run) draw(t *rapid.T, which func(*modelProc) bool) *modelProc {
	procs := r.among(which)
	if len(procs) == 0 {
		t.Skip("no such process")
	}
	return rapid.SampledFrom(procs).Draw(t, "process")
}

// exchange is one turn of a process, alive or a zombie that does not know yet. The
// request or its answer may be lost; then the process resyncs, and Redis runs the request late.
func (r *run) exchange(t *rapid.T) {
	p := r.draw(t, func(p *modelProc) bool { return !p.killed })
	x, how := r.compose(t, p)
	r.w.s.exchangeKeys(p.id).briefs.rest = rapid.IntRange(0, 1).Draw(t, "by exchange.lua")
	r.w.do("SCRIPT", "LOAD", commitScript.plain.Text()) // if Redis does not know it, it comes second
	if p.left {
		if _, err := r.send(x); !errors.Is(err, ErrReaped) {
			r.Fatalf("a process that was reaped got %v, want ErrReaped", err)
		}
		p.killed = true
		return
	}
	way := rapid.SampledFrom([]string{"all is well", "all is well", "answer lost", "request lost"}).Draw(t, "way")
	if way == "request lost" {
		r.readBack(p, x)
		return
	}
	out, err := r.send(x)
	r.must(err)
	jobs, missing := r.m.exchange(p, x, how)
	if way == "answer lost" {
		r.readBack(p, x)
		return
	}
	if diff := cmp.Diff(texts(jobs), texts(out.Jobs)); diff != "" || missing != out.Missing || p.fenced != out.Fenced || r.m.paused != out.Paused {
		r.Fatalf("answer %+v, want %d missing, fenced %v, paused %v; jobs (-want +got):\n%s", out, missing, p.fenced, r.m.paused, diff)
	}
	handedIn := slices.Clone(x.Done)
	for _, e := range x.Ended {
		handedIn = append(handedIn, e.Ticket)
	}
	p.held = slices.DeleteFunc(p.held, func(j Reserved) bool { return slices.Contains(handedIn, j.Ticket) })
	p.spent = nil
	for _, e := range x.Ended {
		p.spent = append(p.spent, e.Ticket)
	}
	p.held = append(p.held, out.Jobs...)
	for _, j := range out.Jobs {
		p.last = max(p.last, j.Ticket)
	}
}

func (r *run) send(x *Exchange) (Exchanged, error) {
	r.must(r.w.s.Send(r.w.c, x))
	return r.w.s.Receive(r.w.c, x)
}

// compose commits some of the jobs that the process holds and asks for more. how says how the jobs of
// x.Ended end.
func (r *run) compose(t *rapid.T, p *modelProc) (x *Exchange, how map[int64]string) {
	how = map[int64]string{}
	var returned []Reserved
	x = &Exchange{Process: p.id, Epoch: p.epoch, Last: p.last, Want: rapid.IntRange(0, 6).Draw(t, "want"), Spent: slices.Clone(p.spent)}
	x.Apart = rapid.SampledFrom([]int{0, 1, len(job("J10"))}).Draw(t, "apart") // twins, and the tenth job and those behind it
	for _, j := range p.held {
		end := rapid.SampledFrom([]string{"runs on", "runs on", "done", "done and forgiven", "failed", "back", "to the tail"}).Draw(t, "outcome")
		how[j.Ticket] = end
		switch end {
		case "done":
			x.Done, x.Spent = append(x.Done, j.Ticket), append(x.Spent, j.Ticket)
		case "done and forgiven":
			effects := []Effect{r.w.s.ResetDeaths(j)}
			x.Ended = append(x.Ended, Ended{Ticket: j.Ticket, Counts: CountsDone, Effects: effects})
		case "failed":
			x.Ended = append(x.Ended, failed(j)...)
		case "back":
			returned = append(returned, j)
		case "to the tail":
			x.Ended = append(x.Ended, Ended{Ticket: j.Ticket, Effects: r.w.s.Tail(j)})
		}
	}
	x.Ended = append(x.Ended, back(returned...)...)
	for _, queue := range rapid.Permutation(modelQueues).Draw(t, "order") {
		x.Asks = append(x.Asks, Ask{queue, rapid.IntRange(0, 3).Draw(t, "quota")})
	}
	if rapid.Bool().Draw(t, "tell what was handed over") {
		x.Handed = r.handed(t, p)
	}
	return x, how
}

// handed is what a process says about its jobs: some wait for their trials, one may be on trial,
// and some ran past theirs.
func (r *run) handed(t *rapid.T, p *modelProc) string {
	h := HandedOut{UpTo: p.last + rapid.Int64Range(0, 3).Draw(t, "more")}
	for _, ticket := range tickets(p.held...) {
		switch role := rapid.SampledFrom([]string{"ordinary", "held", "trial", "past"}).Draw(t, "role"); {
		case role == "held":
			h.Held = append(h.Held, ticket)
		case role == "trial" && h.Trial == 0:
			h.Trial = ticket
		case role == "past":
			h.Past = append(h.Past, ticket)
		}
	}
	return h.String()
}

// remove is an operator's DEL of a process's in-flight record. The next exchange reports that, and the
// process resyncs and restores the record.
func (r *run) remove(t *rapid.T) {
	p := r.draw(t, func(p *modelProc) bool { return !p.killed && !p.fenced })
	r.w.do("DEL", r.w.s.inflight(p.id))
	out, err := r.send(&Exchange{Process: p.id, Epoch: p.epoch, Last: p.last})
	r.must(err)
	epoch, held, whole, err := r.w.s.Resync(r.w.c, p.id)
	r.must(err)
	if !out.Removed || whole || len(held) > 0 {
		r.Fatalf("the record was removed: %+v, whole %v, %v", out, whole, held)
	}
	p.epoch = epoch
	r.must(r.w.s.Restore(r.w.c, p.id, p.epoch, p.held, p.handed))
}

// readBack is what a process does when it does not know whether Redis ran its exchange.
func (r *run) readBack(p *modelProc, x *Exchange) {
	epoch, held, whole, err := r.w.s.Resync(r.w.c, p.id)
	r.must(err)
	p.epoch++
	if ours := p.tickets(); !whole || epoch != p.epoch || !slices.Equal(held, slices.Sorted(slices.Values(ours))) {
		r.Fatalf("read back epoch %d and tickets %v, whole %v; want %d and %v", epoch, held, whole, p.epoch, ours)
	}
	p.held, _, err = r.w.s.ReadReserved(r.w.c, p.id, held)
	r.must(err)
	for _, ticket := range held {
		p.last = max(p.last, ticket)
	}
	for _, field := range r.w.server.List(r.w.t, "HKEYS", r.w.s.inflight(p.id)) {
		if ticket, own := strings.CutPrefix(field, "p"); own && !slices.Contains(held, r.ticket(ticket)) {
			r.Fatalf("the payload of ticket %s is left behind", ticket)
		}
	}
	if _, err := r.send(x); !errors.Is(err, ErrStale) && !errors.Is(err, ErrReaped) {
		r.Fatalf("a late request got %v, want ErrStale or ErrReaped", err)
	}
}

func (r *run) ticket(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	r.must(err)
	return n
}

func (r *run) kill(t *rapid.T) {
	r.draw(t, func(p *modelProc) bool { return !p.killed }).killed = true
}

// reap finds a process dead, rightly or not, and moves all of its record or a piece.
func (r *run) reap(t *rapid.T) {
	p := r.draw(t, func(p *modelProc) bool { return !p.left })
	if rapid.Bool().Draw(t, "whole") {
		r.reapWhole(p)
		return
	}
	r.fence(p)
	piece := p.tickets()
	piece = piece[:rapid.IntRange(0, len(piece)).Draw(t, "piece")]
	rec, err := r.w.s.recovery(r.w.c, someProcess(p.id), modelLimit, noon, parseHanded(p.handed))
	r.must(err)
	rec.end = deadEnds(r.w.s, false, noon)
	var total Recovered
	r.must(rec.move(r.w.c, piece, &total))
	if total.Requeued+total.Failed != len(piece) || len(total.Refused) > 0 {
		r.Fatalf("recovered %+v of %d jobs", total, len(piece))
	}
	r.m.recover(p, piece, false)
}

func (r *run) fence(p *modelProc) {
	observed := r.w.server.Text(r.w.t, "ZSCORE", r.w.s.processes(), p.id)
	fenced, err := r.w.s.Fence(r.w.c, p.id, observed)
	r.must(err)
	if !fenced {
		r.Fatalf("process %s with lease %s was not fenced", p.id, observed)
	}
	p.fenced = true
}

func (r *run) reapWhole(p *modelProc) {
	r.fence(p)
	_, err := r.w.s.Recover(r.w.c, someProcess(p.id), modelLimit, noon, deadEnds(r.w.s, false, noon))
	r.must(err)
	r.m.recover(p, p.tickets(), true)
	left, err := r.w.s.Leave(r.w.c, p.id)
	r.must(err)
	if left != 0 {
		r.Fatalf("%d jobs are left after a whole recovery", left)
	}
	p.left = true
	maps.DeleteFunc(p.record, func(int64, Reserved) bool { return true })
}

// prune removes a dead Ruby worker, or lets one die.
func (r *run) prune(t *rapid.T) {
	if r.m.ruby == "" {
		r.m.ruby = r.payload(t)
		r.m.pushed[r.m.ruby]++
		r.w.do("SET", r.w.s.worker(rubyWorker), `{"queue":"low","payload":`+r.m.ruby+`}`)
		r.w.do("HSET", r.w.s.heartbeats(), rubyWorker, HeartbeatAt(noon.Add(-2*PruneAfter)))
		return
	}
	expired, _, err := r.w.s.Expired(r.w.c, noon)
	r.must(err)
	for _, e := range expired {
		pruned, err := r.w.s.Prune(r.w.c, e, noon, false)
		r.must(err)
		if !pruned {
			r.Fatalf("%s was not pruned", e.ID)
		}
	}
	r.m.prune()
}

func (r *run) pause(*rapid.T) {
	if r.m.paused = !r.m.paused; r.m.paused {
		r.w.do("SET", r.w.s.pauseAll(), "true")
	} else {
		r.w.do("DEL", r.w.s.pauseAll())
	}
}
