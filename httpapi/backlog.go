package httpapi

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

const (
	delaysPage  = 2000             // jobs that one call counts: about 2 ms of Redis
	delaysShare = 100              // counting takes at most one of so many parts of Redis's time
	delaysEvery = 10 * time.Second // how often a pass begins, at most
	delaysIdle  = time.Minute      // without a question no pass begins any more
)

// backlog counts the delayed jobs of a pool, of all queues in passes: the schedule holds all of them in the order of time, so a
// queue's own cannot be asked for. It counts while quotas or readers want numbers. A question makes the first pass itself, and
// further ones while they are short.
//
// A number is that of the last pass, and what this server has published since. A job that was published while a short pass went
// on is not added, since the pass may have counted it: so no quota refuses a job too early.
type backlog struct {
	pool *pool
	loop *part.Loop

	from   int // these belong to the goroutine: the place in the pass
	counts map[string]leases.Counted
	first  int64 // Redis's time when the pass began

	asking chan struct{} // holds a value while a question makes a pass

	mu     sync.Mutex
	asked  time.Time // when a number was last wanted
	passed time.Time // when the last pass ended
	again  time.Time // when a question may make one more
	known  map[string]leases.Counted
	asOf   int64          // 0: no pass has ended yet
	short  bool           // the last pass was one page
	passes int            // that have ended
	added  map[string]int // since the last pass, by this server
	adding map[string]int // since the pass under way began
}

func newBacklog(p *pool) *backlog {
	d := &backlog{pool: p, added: make(map[string]int), adding: make(map[string]int), asking: make(chan struct{}, 1)}
	d.loop = part.NewLoop(p.neighbor.Base, "counts of delayed jobs", d.count)
	return d
}

// count counts a page.
func (d *backlog) count(ctx context.Context) (time.Duration, error) {
	clk := d.pool.neighbor.Clock
	d.mu.Lock()
	idle := d.asked.IsZero() || clock.Since(clk, d.asked) >= delaysIdle
	rest := delaysEvery - clock.Since(clk, d.passed)
	d.mu.Unlock()
	switch {
	case d.counts != nil:
	case idle:
		return part.Never, nil
	case rest > 0:
		return rest, nil
	default:
		d.counts, d.from, d.first = make(map[string]leases.Counted), 0, 0
		d.mu.Lock()
		d.adding = make(map[string]int)
		d.mu.Unlock()
	}
	began, read := clk.Now(), 0
	err := d.pool.neighbor.Do(ctx, func(s resque.Store, c redis.Conn) (err error) {
		var now int64
		read, now, err = leases.New(s).CountDelayed(c, d.from, delaysPage, d.counts)
		if d.from == 0 {
			d.first = now
		}
		return err
	})
	if err != nil {
		d.counts = nil
		return 0, err
	}
	if d.from += read; read == delaysPage {
		return delaysShare * clock.Since(clk, began), nil
	}
	d.mu.Lock()
	d.end(d.counts, d.first, d.from < delaysPage)
	d.mu.Unlock()
	d.counts = nil
	return delaysEvery, nil
}

// end ends a pass. The caller holds mu.
func (d *backlog) end(counts map[string]leases.Counted, asOf int64, short bool) {
	d.known, d.asOf, d.short, d.passed = counts, asOf, short, d.pool.neighbor.Clock.Now()
	if d.passes++; short {
		d.added, d.adding = make(map[string]int), make(map[string]int)
	} else {
		d.added, d.adding = d.adding, make(map[string]int)
	}
}

// want has passes made for a while, and makes one now if that is short.
func (d *backlog) want(ctx context.Context) {
	clk := d.pool.neighbor.Clock
	d.mu.Lock()
	idle := d.asked.IsZero() || clock.Since(clk, d.asked) >= delaysIdle
	d.asked = clk.Now()
	may := (d.asOf == 0 || d.short) && !d.asked.Before(d.again)
	d.mu.Unlock()
	if may {
		d.pass(ctx)
	}
	if idle {
		d.loop.Wake()
	}
}

// pass makes one pass of one page. Then questions make none for a hundred times as long. Those that come meanwhile wait for it.
func (d *backlog) pass(ctx context.Context) {
	select {
	case d.asking <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-d.asking }()
	clk := d.pool.neighbor.Clock
	began := clk.Now()
	d.mu.Lock()
	made := began.Before(d.again)
	d.mu.Unlock()
	if made {
		return
	}
	counts, read, now := make(map[string]leases.Counted), 0, int64(0)
	err := d.pool.neighbor.Do(ctx, func(s resque.Store, c redis.Conn) (err error) {
		read, now, err = leases.New(s).CountDelayed(c, 0, delaysPage, counts)
		return err
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.again = clk.Now().Add(delaysShare * clock.Since(clk, began))
	if err == nil && read < delaysPage {
		d.end(counts, now, true)
	}
}

// fill adds what is known of the delayed jobs to the numbers of queues.
func (d *backlog) fill(ctx context.Context, queues []string, sizes []gateway.Sizes) {
	d.want(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asOf == 0 {
		return
	}
	for i, q := range queues {
		one := d.known[q]
		sizes[i].Delayed, sizes[i].NextDueMs, sizes[i].AsOf = one.Jobs+d.added[q], one.First, d.asOf
	}
}

// room returns an error if jobs that are about to be delayed exceed a quota. While the first pass is a long one there is room. The
// number is for add.
func (d *backlog) room(ctx context.Context, x access, jobs []gateway.Publication) (pass int, err error) {
	more := d.later(jobs)
	quota := x.settings.MaxDelayedQueue > 0 || x.settings.MaxDelayed > 0
	d.mu.Lock()
	pass, blind := d.passes, d.asOf == 0
	d.mu.Unlock()
	if !quota || len(more) == 0 {
		return pass, nil
	}
	if err = d.full(x, more); err != nil || blind {
		d.want(ctx)
		err = d.full(x, more)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = d.pool.neighbor.Clock.Now()
	return d.passes, err
}

// full returns the quota that more jobs would exceed, by what is known.
func (d *backlog) full(x access, more map[string]int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if most := x.settings.MaxDelayedQueue; most > 0 {
		for q, n := range more {
			if there := d.known[q].Jobs + d.added[q]; there+n > most {
				return &gateway.FullError{Queue: q, Length: there, Most: most}
			}
		}
	}
	most := x.settings.MaxDelayed
	if most == 0 {
		return nil
	}
	there, wanted, last := 0, 0, ""
	for q, n := range more {
		wanted, last = wanted+n, q
	}
	for q, n := range d.added {
		if x.holds(q) {
			there += n
		}
	}
	for q, one := range d.known {
		if x.holds(q) {
			there += one.Jobs
		}
	}
	if there+wanted > most {
		return &gateway.FullError{Queue: last, Length: there, Most: most}
	}
	return nil
}

// add notes jobs that were published, unless a pass that has ended since room was asked may have counted them.
func (d *backlog) add(jobs []gateway.Publication, pass int) {
	more := d.later(jobs)
	if len(more) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for q, n := range more {
		if d.passes == pass {
			d.added[q] += n
		}
		d.adding[q] += n
	}
}

// later counts the jobs that are to be delayed, by queue.
func (d *backlog) later(jobs []gateway.Publication) (more map[string]int) {
	for i := range jobs {
		if j := &jobs[i]; j.Delay > 0 || !j.At.IsZero() && j.At.UnixMilli() > d.pool.gateway.Now() {
			if more == nil {
				more = make(map[string]int)
			}
			more[j.Queue]++
		}
	}
	return more
}

// holds reports whether one of Resque's queues is of the namespace.
func (x access) holds(queue string) bool {
	if !x.settings.Bare {
		return strings.HasPrefix(queue, x.Namespace+".")
	}
	namespace, _ := x.guard.split(queue)
	return namespace == x.Namespace
}
