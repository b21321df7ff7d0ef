package gateway

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/feature/meta"
	"github.com/goworker/goworker/internal/feature/priority"
	"github.com/goworker/goworker/internal/feature/results"
	"github.com/goworker/goworker/internal/feature/timelimit"
	"github.com/goworker/goworker/internal/feature/unique"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// MaxTries is how many tries a job may have.
const MaxTries = payload.MaxRuns

// Publish publishes all jobs or none, and returns their ids. With a *resque.ReplicasError the jobs are
// there and the ids are returned too. producer.Unconfirmed says of another error whether the jobs may be there.
func (g *Gateway) Publish(ctx context.Context, jobs ...Publication) (ids []string, err error) {
	ids, _, err = g.publish(ctx, leases.Once{}, jobs)
	return ids, err
}

// PublishOnce is Publish with an idempotency key. If a call with this key has published before, it returns the
// ids of that one. If that was another request the error is leases.ErrKeyReused.
func (g *Gateway) PublishOnce(ctx context.Context, once leases.Once, jobs ...Publication) (ids []string, replayed bool, err error) {
	return g.publish(ctx, once, jobs)
}

func (g *Gateway) publish(ctx context.Context, once leases.Once, jobs []Publication) (ids []string, replayed bool, err error) {
	if len(jobs) == 0 {
		return nil, false, nil
	}
	if err := g.begin(); err != nil {
		return nil, false, err
	}
	defer g.end()
	now := g.Now()
	drafts := make([]draft, len(jobs))
	for i := range jobs {
		if drafts[i], err = g.draft(&jobs[i], now); err != nil {
			if len(jobs) > 1 {
				err = &PublicationError{i, err}
			}
			return nil, false, err
		}
	}
	ids = make([]string, len(jobs))
	for i := range drafts {
		ids[i] = drafts[i].id
		if drafts[i].Chosen {
			g.search.forget(drafts[i].Queue, ids[i])
		}
	}
	if once.Key == "" && together(drafts) {
		err = g.pushPlain(ctx, drafts)
	} else {
		ids, replayed, err = g.pushSeam(ctx, once, drafts, ids)
	}
	if err != nil && !errors.Is(err, resque.ErrFewReplicas) {
		return nil, false, err
	}
	if !replayed {
		g.sayPublished(drafts)
	}
	return ids, replayed, err
}

// draft is a job that is about to be published.
type draft struct {
	*Publication
	id      string
	due     int64 // ms; 0: now
	expires int64 // ms; 0: never
}

// draft checks a publication, and gives it an id.
func (g *Gateway) draft(p *Publication, now int64) (d draft, err error) {
	d = draft{Publication: p, id: p.ID}
	if err := queues.CheckName(p.Queue, g.n.Store.KeyOfQueue("")); err != nil {
		return d, err
	}
	switch {
	case !utf8.ValidString(p.Class):
		return d, fmt.Errorf("the class %q is not UTF-8, and no worker could read it", p.Class)
	case p.Chosen && p.ID == "":
		return d, errors.New("the job has an empty id; give it one, or leave it out")
	case p.Tries < 0 || p.Tries > MaxTries:
		return d, fmt.Errorf("the job has %d tries; give it 1 to %d", p.Tries, MaxTries)
	case p.Delay < 0 || p.TTL < 0 || p.Result < 0 || p.Timeout < 0:
		return d, errors.New("a time of the job is negative; give a positive one, or leave it out")
	}
	if p.ID != "" {
		if err := httpjob.CheckID(p.ID); err != nil {
			return d, err
		}
	}
	switch {
	case p.Delay > 0:
		d.due = now + p.Delay.Milliseconds()
	case p.At.UnixMilli() > now:
		d.due = p.At.UnixMilli()
	}
	switch {
	case p.TTL > 0:
		d.expires = now + p.TTL.Milliseconds()
	case !p.ExpiresAt.IsZero():
		d.expires = max(p.ExpiresAt.UnixMilli(), firstExpiry)
	}
	if d.id == "" {
		d.id = httpjob.NewID(now, delayOf(d.due, now))
	}
	if d.due != 0 && p.At.IsZero() { // an id tells when its job is due, and so finds it
		if first, ok := httpjob.FirstDue(d.id); ok && p.Delay%time.Second == 0 && first > now {
			d.due = first
		}
	}
	return d, nil
}

// firstExpiry is the earliest expires_at of a payload, in ms: turn.lua reads 13 digits. It was in 2001, and what is earlier is over
// as well.
const firstExpiry = 1e12

// delayOf returns the delay for an id, in seconds.
func delayOf(due, now int64) uint32 {
	if due <= now {
		return 0
	}
	return uint32(min((due-now+999)/1000, math.MaxUint32))
}

// plain reports whether the job needs no more than to be pushed.
func (d *draft) plain() bool {
	return !d.Chosen && d.Result == 0 && d.Unique == nil && d.Priority == 0 && !queues.IsOwn(d.Queue)
}

// together reports whether jobs can be pushed without the seam, all or none.
func together(all []draft) bool {
	first := &all[0]
	for i := range all {
		d := &all[i]
		if !d.plain() || d.Queue != first.Queue || d.due != first.due || d.Most != first.Most {
			return false
		}
	}
	return true
}

// encode returns the payload of a plain job, unless that is too large.
func (g *Gateway) encode(d *draft) ([]byte, error) {
	j := httpjob.Job{Class: d.Class, Args: d.Args, Meta: d.Meta, Tries: d.Tries, Expires: d.expires, ID: d.id}
	if d.Timeout > 0 {
		j.Fields = append(j.Fields, payload.NumberField(timelimit.Field, ceilMillis(d.Timeout)))
	}
	raw := j.Append(make([]byte, 0, 128+len(d.Args)))
	return raw, payload.CheckSize(raw, g.pusher.MaxPayload)
}

func ceilMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// pushPlain has the publisher push jobs.
func (g *Gateway) pushPlain(ctx context.Context, drafts []draft) (err error) {
	first := &drafts[0]
	jobs := leases.Publish{Queue: first.Queue, At: first.due, Most: first.Most, Payloads: make([][]byte, len(drafts))}
	for i := range drafts {
		if jobs.Payloads[i], err = g.encode(&drafts[i]); err != nil {
			return err
		}
	}
	return g.pub.push(ctx, jobs)
}

// pushSeam pushes jobs as the producers of a program do: with ids of their clients, results, locks, priorities, or an
// idempotency key.
func (g *Gateway) pushSeam(ctx context.Context, once leases.Once, drafts []draft, ids []string) (made []string, replayed bool, err error) {
	call := g.pusher.NewCall(g.n.Enqueue, len(drafts))
	var guards []resque.Guarded
	if once.Key != "" {
		guards = g.store.Once(once, ids)
	}
	for i := range drafts {
		p := g.pushOf(&drafts[i])
		if guards != nil {
			p.Guarded = append(p.Guarded, guards[i])
		}
		if err := call.Add(&p); err != nil {
			if len(drafts) > 1 {
				err = &PublicationError{i, err}
			}
			return nil, false, err
		}
	}
	if err := g.allowed(ctx, drafts); err != nil {
		return g.replay(ctx, once, err)
	}
	receipts, err := g.pusher.Send(ctx, call)
	if err != nil && len(receipts) == 0 {
		return nil, false, err
	}
	pushed := 0
	for i, r := range receipts {
		if r.Err == nil {
			pushed++
			continue
		}
		g.count.published.Add(int64(pushed))
		err := g.explain(&drafts[i], len(drafts), i, r.Err)
		if errors.Is(r.Err, resque.ErrGuard) {
			return g.replay(ctx, once, err)
		}
		return nil, false, err
	}
	g.count.published.Add(int64(pushed))
	return ids, false, err
}

// allowed asks what the push of several jobs cannot be made to depend on: whether their queues have room, and whether the
// ids are free that clients chose.
func (g *Gateway) allowed(ctx context.Context, drafts []draft) error {
	jobs, most := make(map[string]int), make(map[string]int)
	var names, places []string
	var chosen []int
	for i := range drafts {
		d := &drafts[i]
		if d.Unique != nil && len(drafts) > 1 {
			return &PublicationError{i, errors.New("several jobs are published all or none, and a unique one may be left out; publish it alone")}
		}
		if d.Most > 0 && d.due == 0 {
			if jobs[d.Queue]++; jobs[d.Queue] == 1 {
				names = append(names, d.Queue)
			}
			most[d.Queue] = d.Most
		}
		if d.Chosen && len(drafts) > 1 {
			places = append(places, leases.Place(d.Queue, d.id))
			chosen = append(chosen, i)
		}
	}
	if len(names) == 0 && len(places) == 0 {
		return nil
	}
	return g.n.Do(ctx, func(_ resque.Store, c redis.Conn) error {
		sizes, err := g.store.Sizes(c, nil, names...)
		if err != nil {
			return err
		}
		for _, s := range sizes {
			if int(s.Ready)+jobs[s.Queue] > most[s.Queue] {
				return &FullError{Queue: s.Queue, Length: int(s.Ready), Most: most[s.Queue]}
			}
		}
		if len(places) == 0 {
			return nil
		}
		held, err := g.store.Leases(c, places)
		for i, lease := range held {
			if lease != "" {
				return &PublicationError{chosen[i], ErrExists}
			}
		}
		return err
	})
}

// replay returns the ids of the jobs that were published with an idempotency key, and why new jobs are refused if there are none.
func (g *Gateway) replay(ctx context.Context, once leases.Once, refused error) (ids []string, replayed bool, err error) {
	if once.Key == "" {
		return nil, false, refused
	}
	if ids, err = g.Made(ctx, once); err == nil && len(ids) == 0 {
		err = refused
	}
	return ids, len(ids) > 0, err
}

// Made returns the ids of the jobs that were published with an idempotency key; none: there are none. The error matches
// leases.ErrKeyReused if that was another request. With a *resque.ReplicasError the ids are returned too.
func (g *Gateway) Made(ctx context.Context, once leases.Once) (ids []string, err error) {
	err = g.n.Do(ctx, func(_ resque.Store, c redis.Conn) error {
		ids, err = g.store.Made(c, once)
		return err
	})
	return ids, err
}

// explain returns why one job of several is not pushed.
func (g *Gateway) explain(d *draft, jobs, i int, err error) error {
	if d.Chosen && errors.Is(err, resque.ErrGuard) {
		err = ErrExists
	}
	if jobs > 1 {
		return &PublicationError{i, err}
	}
	return err
}

// pushOf returns a job for the producer.
func (g *Gateway) pushOf(d *draft) outcome.Push {
	class := d.Class
	if class == "" {
		class = DefaultClass
	}
	p := outcome.Push{Queue: d.Queue, Name: class, List: d.Args, Options: new(outcome.Options), ID: d.id, Chosen: d.Chosen, ExpiresAt: d.expires}
	if p.List == nil {
		p.List = []byte("[]")
	}
	if d.due != 0 {
		p.At = time.UnixMilli(d.due)
	}
	if d.Tries > 1 {
		p.Fields = append(p.Fields, payload.NumberField(httpjob.TriesField, int64(d.Tries)), payload.NumberField(httpjob.AttemptField, 1))
	}
	if len(d.Meta) > 0 {
		outcome.Put(p.Options, meta.Values(d.Meta))
	}
	if d.Timeout > 0 {
		outcome.Put(p.Options, timelimit.Limit(d.Timeout))
	}
	if d.Priority > 0 {
		outcome.Put(p.Options, priority.Level(d.Priority))
	}
	place := leases.Place(d.Queue, d.id)
	if d.Result > 0 {
		outcome.Put(p.Options, results.TTL(max(d.Result, time.Millisecond)))
		outcome.Put(p.Options, results.Placed(func(string) string { return place }))
	}
	if d.Unique != nil {
		outcome.Put(p.Options, d.Unique.options())
	}
	if d.Chosen { // no consumer has an earlier job of this id, and what is known of it is forgotten
		p.Guarded = append(p.Guarded, resque.Guarded{Effects: []resque.Effect{g.store.Free(place), g.store.Forget(place)}})
	}
	return p
}

// options returns the lock as the feature knows it.
func (u *Unique) options() unique.Options {
	o := unique.Options{Hold: resque.HoldDone, Most: unique.AtMost}
	if u.Most > 0 {
		o.Most, o.Bounded = u.Most, true
	}
	switch u.Hold {
	case UntilStarted:
		o.Hold = resque.HoldStart
	case UntilElapsed:
		o.Hold, o.Elapsed, o.Bounded = resque.HoldTime, u.Most, false
	}
	if u.Key != "" {
		o.Key = func(*outcome.Push) string { return u.Key }
	}
	return o
}
