// Package drain moves what only goworker understands into keys that Ruby reads, so that a fleet can
// go back to Ruby. Its order: the jobs of dead processes, those that clients hold over HTTP, lanes, groups of jobs, the schedule, payloads that were
// kept, then the keys that hold no job. Each piece is one script, which proves that no process holds
// a lease. So a drain that ended anywhere has lost and doubled nothing, and is repeated from its start.
package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// ErrAlive is returned while a process of goworker is alive: its jobs are its own.
var ErrAlive = prefix.New("cannot drain while processes of goworker are alive")

const (
	// pieceJobs and pieceBytes bound what one script moves.
	pieceJobs  = 500
	pieceBytes = 8 << 20
	firstPiece = 16 // before it is known how large the jobs are

	// watched is how long a drain observes a lease that is over. A live process renews its lease
	// each 2 s. The leases of all are over for a moment after Redis stood still.
	watched = 4 * time.Second
)

// Redis lends connections to one Redis.
type Redis interface {
	Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error
}

// Config is what a drain needs and what its caller chose.
type Config struct {
	Redis Redis
	Clock clock.Clock
	Ends  fleet.Ends // of the jobs of dead processes
	Style payload.Style

	RecoverLimit  int    // see resque.Store.Recover
	LockPrefix    string // see resque.Store.MasterLock
	NodeScheduler bool

	Now    bool // delayed jobs go to their queues
	DryRun bool // nothing is written

	Watch time.Duration // how long leases that are over are observed; 0: 4 s
}

// Report is what a drain did, or with DryRun would do.
type Report = inspect.DrainReport

// Add adds the report of one shard to a total. An empty name leaves the shard away.
func Add(total *Report, shard string, r Report) {
	in := func(text string) string {
		if shard == "" {
			return text
		}
		return "shard " + shard + ": " + text
	}
	for _, texts := range []struct {
		to   *[]string
		from []string
	}{{&total.Dead, r.Dead}, {&total.Notes, r.Notes}, {&total.Alive, r.Alive}} {
		for _, text := range texts.from {
			*texts.to = append(*texts.to, in(text))
		}
	}
	for _, n := range []struct {
		to   *int
		from int
	}{
		{&total.Requeued, r.Requeued}, {&total.Failed, r.Failed}, {&total.Lanes, r.Lanes}, {&total.Groups, r.Groups}, {&total.Delayed, r.Delayed},
		{&total.Queued, r.Queued}, {&total.Kept, r.Kept}, {&total.Own, r.Own}, {&total.Locks, r.Locks}, {&total.Removed, r.Removed},
	} {
		*n.to += n.from
	}
	for _, fields := range []struct {
		to   *map[string]int
		from map[string]int
	}{{&total.Dropped, r.Dropped}, {&total.Ignored, r.Ignored}} {
		if *fields.to == nil {
			*fields.to = make(map[string]int)
		}
		for name, n := range fields.from {
			(*fields.to)[name] += n
		}
	}
	for _, l := range r.Left {
		l.Key = in(l.Key)
		total.Left = append(total.Left, l)
	}
	if r.StoppedAt != "" {
		total.StoppedAt = in(r.StoppedAt)
	}
}

// drain is one call of Run.
type drain struct {
	Config
	Report
	ctx   context.Context
	store resque.Store
	keys  map[string][]resque.OwnKey // those of holding, by the method of the store that names them
	now   time.Time                  // by Redis's clock

	lanesLeft, processesLeft, groupsLeft, leasedLeft bool // jobs are left in lanes, in records of dead processes, in groups, with clients
}

// holding are the keys that a drain looks at one by one. Of others, as of locks, there may be
// millions, and no more than a page of these is held at a time.
var holding = []string{"inflight", "process", "lane", "kept", "GroupKey", "ownQueue"}

// Run drains. Its report says what was done also if there is an error.
func Run(ctx context.Context, c Config) (Report, error) {
	d := &drain{Config: c, ctx: ctx, Report: Report{Dropped: make(map[string]int), Ignored: make(map[string]int)}}
	if d.Watch == 0 {
		d.Watch = watched
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"dead processes", d.recover},
		{"keys", d.scan},
		{"jobs that clients hold", d.leased},
		{"lanes", d.lanes},
		{"groups of jobs", d.groups},
		{"delayed jobs", d.schedule},
		{"payloads that were kept", d.kept},
		{"MessagePack queues", d.own},
		{"what Ruby does not know", d.notes},
		{"keys without jobs", d.remove},
	} {
		if err := step.do(); err != nil {
			d.StoppedAt = step.name
			if errors.Is(err, resque.ErrAlive) {
				err = fmt.Errorf("%w: a process started meanwhile; stop it and drain again", ErrAlive)
			}
			return d.Report, err
		}
	}
	if len(d.Alive) > 0 {
		return d.Report, d.alive()
	}
	return d.Report, nil
}

// do is one piece.
func (d *drain) do(f func(c redis.Conn) error) error {
	if err := d.ctx.Err(); err != nil {
		return context.Cause(d.ctx)
	}
	return d.Redis.Do(d.ctx, func(s resque.Store, c redis.Conn) error {
		d.store = s
		return f(c)
	})
}

func (d *drain) alive() error {
	return fmt.Errorf("%w: %s; stop them first: one that was killed counts as dead %v later",
		ErrAlive, strings.Join(d.Alive, ", "), fleet.LeasePeriod)
}

// leave adds to what is left.
func (d *drain) leave(key string, jobs int, why string) {
	d.Left = append(d.Left, inspect.DrainLeft{Key: key, Jobs: jobs, Why: why})
}

// scan reads the names of the keys that hold jobs.
func (d *drain) scan() error {
	d.keys = make(map[string][]resque.OwnKey)
	seen := make(map[string]bool)
	err := d.pages(func(keys []resque.OwnKey) error {
		for _, k := range keys {
			if slices.Contains(holding, k.Is.Builder) && !seen[k.Name] { // a scan may return a key twice
				seen[k.Name] = true
				d.keys[k.Is.Builder] = append(d.keys[k.Is.Builder], k)
			}
		}
		return nil
	})
	for _, keys := range d.keys {
		slices.SortFunc(keys, func(a, b resque.OwnKey) int { return cmp.Compare(a.Name, b.Name) })
	}
	return err
}

// pages calls f with all our keys, a page at a time.
func (d *drain) pages(f func([]resque.OwnKey) error) error {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		var keys []resque.OwnKey
		err := d.do(func(c redis.Conn) (err error) {
			keys, cursor, err = d.store.OwnKeys(c, cursor)
			return err
		})
		if err == nil {
			err = f(keys)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// piece is how many jobs the next piece may have, if the largest yet had so many bytes.
func piece(largest int) int { return min(max(pieceBytes/max(largest, 1), 1), pieceJobs) }

// lanes moves the jobs of lanes to the heads of their queues. The lane whose turn is first comes
// last, so that its jobs are the first of the queue.
func (d *drain) lanes() error {
	type lane struct {
		resque.Lane
		key  string
		turn float64
	}
	var all []lane
	for _, k := range d.keys["lane"] {
		l, ok := d.store.LaneOf(k.Name)
		if !ok {
			d.leave(k.Name, 0, "its name says neither queue nor lane; look at it with LRANGE, and LMOVE its jobs by hand")
			continue
		}
		if err := d.do(func(c redis.Conn) error {
			turn, err := d.store.Turn(c, l)
			all = append(all, lane{l, k.Name, turn})
			return err
		}); err != nil {
			return err
		}
	}
	slices.SortFunc(all, func(a, b lane) int { return cmp.Or(cmp.Compare(b.turn, a.turn), cmp.Compare(a.key, b.key)) })
	for _, l := range all {
		if err := d.lane(l.Lane, l.key); err != nil {
			return err
		}
	}
	return nil
}

func (d *drain) lane(l resque.Lane, key string) error {
	var stays, broken int // how many jobs at the tail were read and are still there; those that are no jobs
	next, largest, idle := firstPiece, 1, 0
	for done := false; !done; {
		err := d.do(func(c redis.Conn) error {
			jobs, err := d.store.ReadLane(c, l, stays, next)
			if done = len(jobs) == 0; err != nil || done {
				return err
			}
			var move [][]byte
			for _, raw := range jobs {
				largest = max(largest, len(raw))
				if _, err := payload.Parse(raw); err != nil {
					broken++
					stays++
					continue
				}
				move = append(move, raw)
			}
			next = piece(largest)
			if d.DryRun {
				d.Lanes += len(move)
				stays += len(move)
			} else if len(move) > 0 {
				n, err := d.store.DrainLane(c, l, move)
				d.Lanes += n
				if err == nil {
					err = idles(&idle, n, key)
				}
				if err != nil {
					return err
				}
			}
			d.ignore(move)
			return nil
		})
		if resque.IsWrongType(err) {
			d.lanesLeft = true
			d.leave(key, 0, err.Error())
			return nil
		}
		if err != nil {
			return err
		}
	}
	if broken > 0 {
		d.lanesLeft = true
		d.leave(key, broken, "payloads that are no jobs, which end a Ruby worker; look at them with LRANGE, then DEL the key")
	}
	return nil
}

// idles ends a drain whose pieces move nothing: another program changes the key at the same time.
func idles(idle *int, moved int, key string) error {
	if moved > 0 {
		*idle = 0
		return nil
	}
	if *idle++; *idle < 10 {
		return nil
	}
	return fmt.Errorf("the jobs of %s change while they are read: another program moves them; drain again when it has ended", key)
}

// ignore counts the fields that Ruby passes over.
func (d *drain) ignore(jobs [][]byte) {
	for _, raw := range jobs {
		count(d.Ignored, raw)
	}
}

// count counts the fields of a job beside its class and arguments.
func count(fields map[string]int, raw []byte) {
	p, err := payload.Parse(raw)
	if err != nil {
		return
	}
	seen := make(map[string]bool)
	for _, f := range p.Extra {
		if name := string(f.Name); !seen[name] {
			seen[name] = true
			fields[name]++
		}
	}
}

// kept moves payloads that were kept to their queues, if they are jobs.
func (d *drain) kept() error {
	for _, k := range d.keys["kept"] {
		skip, broken := 0, 0
		for done := false; !done; {
			err := d.do(func(c redis.Conn) error {
				raw, err := d.store.ReadKept(c, k.Part, skip)
				if done = raw == nil; err != nil || done {
					return err
				}
				if _, err := payload.Parse(raw); err != nil {
					broken++
					skip++
					return nil
				}
				n := 1
				if d.DryRun {
					skip++
				} else if n, err = d.store.DrainKept(c, k.Part, raw); err != nil {
					return err
				}
				d.Kept += n
				d.ignore([][]byte{raw})
				return nil
			})
			if resque.IsWrongType(err) {
				d.leave(k.Name, 0, err.Error())
				break
			}
			if err != nil {
				return err
			}
		}
		if broken > 0 {
			d.leave(k.Name, broken, "payloads that are no jobs; their failures are in Ruby's list; look at them with LRANGE, then DEL the key")
		}
	}
	return nil
}
