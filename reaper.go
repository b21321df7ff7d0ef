package goworker

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/resque"
)

// reaper finds processes that died and brings their jobs back, and does what a
// Ruby worker does when it starts: it removes workers whose heartbeat is too old.
type reaper struct {
	d     *Daemon
	lease *lease
	line  conn.Line
	dead  chan []resque.Lease
	stopC chan struct{}
	ended chan struct{}

	// of the reaper's own
	orphans  map[string]time.Time // records without a lease, and since when
	cursor   uint64
	sweeping bool // this look at all keys is a sweep
	pruned   time.Time
	scanned  time.Time // when all keys had been looked at
	looked   time.Time // when orphans were last looked at
	warned   map[string]bool
	leads    atomic.Bool
	fleet    atomic.Pointer[[]resque.Lease]
	trimming trimming
	tracks   atomic.Bool // there are orphans, which must be looked at each tick
	sweeps   atomic.Bool // a go: key was removed: all keys are looked at without a rest
}

const (
	pruneEvery = time.Minute
	scanEvery  = 20 * time.Second // from the end of one look at all keys to the next

	// A page of keys costs Redis about 0.3 ms. A look at them all takes so many each tick,
	// and a sweep, which is urgent, more.
	scanPages  = 20
	sweepPages = 200
)

func newReaper(d *Daemon, l *lease) *reaper {
	return &reaper{
		d: d, lease: l, line: conn.Line{Dialer: d.dialer, Limit: renewWithin},
		dead: make(chan []resque.Lease, 1), stopC: make(chan struct{}), ended: make(chan struct{}),
		orphans: make(map[string]time.Time), warned: make(map[string]bool),
	}
}

// observe takes all processes' leases as the lease's renewal has seen them. Work is
// left to the reaper's goroutine, so that a long recovery costs no lease.
func (r *reaper) observe(self string, renewed resque.Renewed) {
	r.fleet.Store(&renewed.Leases)
	r.leads.Store(leader(renewed.Leases) == self)
	if dead := renewed.Dead(); len(dead) > 0 || r.scans() {
		select {
		case r.dead <- dead:
		default: // it is still busy; the next renewal finds the same processes dead
		}
	}
}

// peers is how many processes there are, as of the last renewal.
func (r *reaper) peers() int {
	if fleet := r.fleet.Load(); fleet != nil {
		return len(*fleet)
	}
	return 1
}

// leader is the live process that does what only one needs to do.
func leader(leases []resque.Lease) string {
	first := ""
	for _, l := range leases {
		if !l.Fenced() && (first == "" || l.Process < first) {
			first = l.Process
		}
	}
	return first
}

func (r *reaper) start() { go r.run() }

func (r *reaper) stop() {
	close(r.stopC)
	<-r.ended
}

func (r *reaper) run() {
	defer close(r.ended)
	defer r.line.Close()
	for {
		select {
		case <-r.stopC:
			return
		case dead := <-r.dead:
			ctx := r.d.session.Load().ctx
			// The order in which many dead are taken differs from one reaper to the
			// next, so that they share the work instead of waiting for each other.
			rand.Shuffle(len(dead), func(i, j int) { dead[i], dead[j] = dead[j], dead[i] })
			for _, l := range dead {
				r.report("reaping", r.line.Do(ctx, func(c redis.Conn) error { return r.reap(c, l) }))
			}
			if r.leads.Load() {
				r.report("pruning", r.line.Do(ctx, r.prune))
				r.report("removing old failures", r.line.Do(ctx, r.trim))
			}
			if r.scans() {
				r.report("scanning", r.line.Do(ctx, r.scan))
			}
			if len(dead) == 0 && !r.scans() {
				r.line.Close()
			}
		}
	}
}

// report logs an error when it first appears, unless it is our leaving that broke it off.
func (r *reaper) report(doing string, err error) {
	switch {
	case err == nil:
		delete(r.warned, doing)
		return
	case r.d.session.Load().ctx.Err() != nil:
		return
	}
	if !r.warned[doing] {
		r.warned[doing] = true
		r.d.log.Warn("could not look after dead processes and workers; trying again", "doing", doing, "error", err)
	}
}

// reap takes the jobs of one dead process.
func (r *reaper) reap(c redis.Conn, l resque.Lease) error {
	store := r.d.store
	taken, err := store.Fence(c, l.Process, l.Value)
	if err != nil || !taken {
		return err
	}
	dead, err := store.ReadProcess(c, l.Process)
	if err != nil {
		return err
	}
	now := r.lease.redisTime(time.Now())
	recovered, err := store.Recover(c, dead, r.d.config.RecoverLimit, now, r.d.config.multiQueueFailures)
	if err != nil {
		return err
	}
	for _, refused := range recovered.Refused {
		r.report("taking back "+l.Process, refused)
	}
	if err := r.d.lock.Died(c, dead.ID); err != nil {
		return err
	}
	shared, err := r.sharesWorkers(c, dead)
	if err != nil {
		return err
	}
	if dead.IDHead != "" && !shared {
		if err := store.Unregister(c, dead.WorkerIDs()); err != nil {
			return err
		}
	}
	left, err := store.Leave(c, dead.ID)
	if err != nil {
		return err
	}
	if left > 0 && recovered.Requeued+recovered.Failed == 0 {
		return nil // it stays until its queues take the rest, and was spoken of
	}
	r.d.log.Warn("a process was found dead; its jobs are back in their queues",
		"process", dead.ID, "requeued", recovered.Requeued, "failed", recovered.Failed, "left", left)
	return nil
}

// sharesWorkers reports whether a live process goes by the dead one's worker ids:
// a container that started again has the same name and process number.
func (r *reaper) sharesWorkers(c redis.Conn, dead resque.Process) (bool, error) {
	for _, l := range *r.fleet.Load() {
		if l.Process == dead.ID || l.Fenced() {
			continue
		}
		p, err := r.d.store.ReadProcess(c, l.Process)
		if err != nil {
			return false, err
		}
		if p.IDHead == dead.IDHead && p.IDQueues == dead.IDQueues {
			return true, nil
		}
	}
	return false, nil
}

// scan looks for records of processes that no lease protects: somebody removed the
// leases. Their processes put theirs back when they next renew; those that do not
// are dead.
func (r *reaper) scan(c redis.Conn) error {
	now := time.Now()
	if now.Sub(r.looked) > renewalGap { // what was an orphan then may have had a lease since
		clear(r.orphans)
	}
	r.looked = now
	defer func() { r.tracks.Store(len(r.orphans) > 0) }()
	leased := make(map[string]bool)
	for _, l := range *r.fleet.Load() {
		leased[l.Process] = true
	}
	for process, since := range r.orphans {
		switch {
		case leased[process]:
			delete(r.orphans, process)
		case now.Sub(since) >= leasePeriod:
			delete(r.orphans, process)
			if err := r.reap(c, resque.Lease{Process: process}); err != nil {
				return err
			}
		}
	}
	pages := scanPages
	if r.sweeps.Load() {
		pages = sweepPages
		if !r.sweeping { // what was removed may have stood on pages that were looked at before
			r.cursor, r.sweeping = 0, true
		}
	} else if r.cursor == 0 && now.Sub(r.scanned) < scanEvery {
		return nil
	}
	for range pages {
		next, err := r.page(c, leased, now)
		if err != nil {
			return err
		}
		if r.cursor = next; next == 0 {
			r.scanned, r.sweeping = now, false
			r.sweeps.Store(false)
			break
		}
	}
	return nil
}

// page looks at one page of the keys: for records of processes without a lease, and for lanes with
// jobs that nothing names.
func (r *reaper) page(c redis.Conn, leased map[string]bool, now time.Time) (next uint64, err error) {
	found, next, err := r.d.store.Strays(c, r.cursor)
	if err != nil {
		return 0, err
	}
	for _, p := range found.Processes {
		if _, known := r.orphans[p]; !known && !leased[p] {
			r.orphans[p] = now
		}
	}
	n, err := r.d.store.Relane(c, found.Lanes)
	if refused := redis.Error(""); err == nil || errors.As(err, &refused) && !conn.MustRedial(err) {
		r.report("putting back lanes", err) // where a key is broken the others go on
		err = nil
	}
	if n > 0 {
		r.d.log.Warn("Redis had lost the names of lanes in which jobs wait; they are put back", "lanes", n)
	}
	return next, err
}

// scans reports whether this process looks at keys now.
func (r *reaper) scans() bool { return r.leads.Load() || r.sweeps.Load() || r.tracks.Load() }

// sweep has all keys looked at as soon as possible.
func (r *reaper) sweep() { r.sweeps.Store(true) }

// prune removes dead workers of other programs, by Ruby's rules: those whose last
// heartbeat is more than 300 s old. A worker that never sent one is left alone, and
// so are the workers of our own kind, whose leases tell more.
func (r *reaper) prune(c redis.Conn) error {
	if time.Since(r.pruned) < pruneEvery {
		return nil
	}
	store := r.d.store
	now, err := store.Now(c)
	if err != nil {
		return err
	}
	if err := store.ForgetDeaths(c, now); err != nil {
		return err
	}
	expired, unreadable, err := store.Expired(c, now)
	if err != nil {
		return err
	}
	for _, id := range unreadable {
		r.report("reading the heartbeat of "+id, errors.New("it is no time; Ruby workers will fail to start until it is removed from workers:heartbeat"))
	}
	expired, err = r.foreign(c, expired)
	if err != nil {
		return err
	}
	r.pruned = time.Now()
	if len(expired) == 0 {
		return nil
	}
	self := r.d.session.Load().workers[0]
	if locked, err := store.LockPruning(c, self); err != nil || !locked {
		r.pruned = time.Now().Add(-pruneEvery + renewEvery) // somebody else is at it; look again soon
		return err
	}
	for _, w := range expired {
		pruned, err := store.Prune(c, w, now, r.d.config.multiQueueFailures)
		if err != nil {
			return errors.Join(err, store.UnlockPruning(c, self))
		}
		if pruned {
			r.d.log.Warn("a worker sent no heartbeat for 5 minutes and was removed", "worker", w.ID)
		}
	}
	return store.UnlockPruning(c, self)
}

// foreign leaves out the workers of processes that hold or held a lease.
func (r *reaper) foreign(c redis.Conn, expired []resque.Expired) ([]resque.Expired, error) {
	if len(expired) == 0 {
		return nil, nil
	}
	var ours []resque.Process
	for _, l := range *r.fleet.Load() {
		p, err := r.d.store.ReadProcess(c, l.Process)
		if err != nil {
			return nil, err
		}
		ours = append(ours, p)
	}
	return slices.DeleteFunc(expired, func(w resque.Expired) bool {
		return slices.ContainsFunc(ours, func(p resque.Process) bool { return p.Owns(w.ID) })
	}), nil
}
