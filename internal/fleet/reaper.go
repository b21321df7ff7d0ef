package fleet

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
)

// reaper takes the jobs of processes that died. Where this process leads it also removes workers
// without heartbeats, old failures, and what is left of dead processes without leases. The lease's
// goroutine calls observe; all else is for the loop's goroutine.
type reaper struct {
	base    part.Base
	config  Config
	lease   *Lease
	loop    *part.Loop
	pending atomic.Pointer[seen] // by the last renewal; nil: it is looked after
	fenced  map[string]string    // of the lease's goroutine: by process, the leases of those that counted as dead at the last renewal

	line     conn.Line
	troubles troubles
	scanner  *scanner
	pruner   pruner
	trimmer  trimmer
}

// seen is what a renewal has shown.
type seen struct {
	dead []resque.Lease
	at   time.Time // by Redis's clock
}

func newReaper(l *Lease) *reaper {
	r := &reaper{base: l.base, config: l.config, lease: l, line: l.base.Line(part.ReplyWithin)}
	r.troubles = troubles{log: l.base.Log}
	r.scanner = newScanner(r)
	r.pruner = pruner{base: l.base, multiQueue: l.config.MultiQueue, troubles: &r.troubles}
	r.trimmer = trimmer{base: l.base, failures: failures.New(l.base.Store), most: l.config.FailedMaxSize, age: l.config.FailedMaxAge, multiQueue: l.config.MultiQueue}
	r.loop = part.NewLoop(l.base, "reaper", r.turn)
	r.loop.End = r.line.Close
	return r
}

// mostReapers is how many processes try to take the jobs of a dead one at a time, in the mean. In a fleet of hundreds that lost a host,
// all of them would ask for each dead process. The leader takes all.
const mostReapers = 32

// withStuck adds to the dead processes those that another process declares dead again and again: it cannot give their jobs back, as
// one of an older release cannot where large payloads are apart. Between two of its tries they never count as dead for long enough.
func (r *reaper) withStuck(dead, fenced []resque.Lease) []resque.Lease {
	known := make(map[string]string, len(fenced))
	for _, l := range fenced {
		known[l.Process] = l.Value
		if was := r.fenced[l.Process]; was != "" && was != l.Value && !slices.Contains(dead, l) {
			dead = append(dead, l)
		}
	}
	r.fenced = known
	return dead
}

// observe is called with the dead processes that a renewal has shown at a time of Redis's clock, and how many processes there are, with
// them. The loop takes their jobs, so that a long recovery costs no lease.
func (r *reaper) observe(dead []resque.Lease, all int, at time.Time) {
	if alive := all - len(dead); alive > mostReapers && !r.lease.Leads() {
		dead = slices.DeleteFunc(dead, func(resque.Lease) bool { return rand.IntN(alive) >= mostReapers })
	}
	if len(dead) > 0 || r.scans() {
		r.pending.Store(&seen{dead, at}) // instead of an older list: a process that is still dead is in this one too
		r.loop.Wake()
	}
}

// scans reports whether this process looks at keys now.
func (r *reaper) scans() bool { return r.lease.Leads() || r.scanner.wanted() }

// turn never fails: an error of one of its tasks must not hold up the others.
func (r *reaper) turn(context.Context) (wait time.Duration, err error) {
	pending := r.pending.Swap(nil)
	if pending == nil {
		return part.Never, nil
	}
	session, dead := r.lease.Session(), pending.dead
	do := func(doing string, f func(redis.Conn) error) {
		if err := r.line.Do(session.ctx, f); err == nil || session.ctx.Err() == nil {
			r.troubles.report(doing, err)
		}
	}
	// Each reaper takes many dead processes in another order, so that reapers share the work
	// instead of waiting for each other.
	rand.Shuffle(len(dead), func(i, j int) { dead[i], dead[j] = dead[j], dead[i] })
	for _, l := range dead {
		do("reaping", func(c redis.Conn) error { return r.reap(c, l) })
	}
	if r.lease.Leads() {
		do("pruning", func(c redis.Conn) error { return r.pruner.prune(c, session.Worker(0), pending.at) })
		caps := r.lease.caps.Load()
		r.trimmer.most, r.trimmer.age = caps.FailedMaxSize, caps.FailedMaxAge
		do("removing old failures", r.trimmer.trim)
	}
	if r.scans() {
		do("scanning", r.scanner.scan)
	}
	if len(dead) == 0 && !r.scans() {
		r.line.Close()
	}
	return part.Never, nil
}

// reap takes the jobs of one dead process.
func (r *reaper) reap(c redis.Conn, l resque.Lease) error {
	taking := Reaping{Store: r.base.Store, Limit: r.lease.caps.Load().RecoverLimit, Ends: r.lease.Ends, Died: r.lease.Heir.Died, Owner: r.owner}
	reaped, err := taking.Reap(c, l, r.lease.Now())
	r.base.Meter.Add(meter.Recovered, reaped.Requeued+reaped.Failed)
	r.base.Meter.Add(meter.Poisoned, reaped.Failed)
	for queue, n := range reaped.Back {
		r.lease.Took(queue, -n)
	}
	for _, refused := range reaped.Refused {
		r.troubles.report("taking back "+l.Process, refused)
	}
	if err != nil || !reaped.Taken {
		return err
	}
	if reaped.Left > 0 && reaped.Requeued+reaped.Failed == 0 {
		return nil // its queues refuse the rest, and that was logged
	}
	r.base.Log.Warn("a process was found dead; its jobs are back in their queues",
		"process", l.Process, "requeued", reaped.Requeued, "failed", reaped.Failed, "left", reaped.Left)
	if buried := r.lease.Buried; buried != nil && reaped.Left == 0 {
		buried(l.Process)
	}
	return nil
}

// owner returns what reports whether a live process has a worker id of the dead one: a container that
// started again has the same name and process number, with which the ids of both begin.
func (r *reaper) owner(c redis.Conn, dead resque.Process) (owns func(id string) bool, err error) {
	leases, _, err := r.base.Store.Leases(c)
	if err != nil {
		return nil, err
	}
	begin := dead.ID[:strings.LastIndexByte(dead.ID, ':')+1]
	var same []resque.Process
	for _, l := range leases {
		if l.Process == dead.ID || l.Fenced() || !strings.HasPrefix(l.Process, begin) {
			continue
		}
		p, err := r.base.Store.ReadProcess(c, l.Process)
		if err != nil {
			return nil, err
		}
		if p.IDHead == dead.IDHead {
			same = append(same, p)
		}
	}
	return func(id string) bool {
		return slices.ContainsFunc(same, func(p resque.Process) bool { return p.Owns(id) })
	}, nil
}

// troubles logs what the reaper could not do: each trouble once, until it has ended.
type troubles struct {
	log  *slog.Logger
	once logging.Once
}

func (t *troubles) report(doing string, err error) {
	if err == nil {
		t.once.Over(doing)
	} else if t.once.News(doing, "") {
		t.log.Warn("could not look after dead processes and workers; trying again", "doing", doing, "error", err)
	}
}
