package inspect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
	"github.com/goworker/goworker/internal/resque/failures"
)

// MaxPage is how many jobs a page, or one step of a change, has at most.
const MaxPage = 500

// maxLooked is about how many jobs one call looks at. A step that finds little counts as least.
const (
	maxLooked = 10_000
	least     = 10
)

// Page is a part of the jobs that match.
type Page struct {
	Jobs   []Entry
	Next   string // where the next page begins; "" only if there are no more
	Looked int    // jobs that were looked at

	// Seen is how many jobs this page and those before it looked at, and Of about how many there are. Of is 0 unless the Budget of the
	// search ended it. Over shards both are of the one that it has come to.
	Seen, Of int64

	// Unsure is how many of them were left out because nothing says whether they match: conditions about times concern only
	// jobs that say when they came.
	Unsure int

	// Refused says which keys Redis refused to read, because they have another type. The page is
	// of the others.
	Refused []error
}

// List returns a page of the jobs that wait in a queue, the head first, then those in its lanes. after is
// "" for the first page, and then the Next of the page before; count is 1 to 500.
//
// Jobs that workers take meanwhile move the others: a job may be on two pages, and none is missed that
// waits all the time.
func (i *Inspector) List(ctx context.Context, queue, after string, count int) (Page, error) {
	if queue == "" {
		return Page{}, errors.New("goworker: the queue to list has no name; give it one")
	}
	return i.walk(ctx, Query{Queue: queue, Places: []Place{Queued, InLane}}, true, after, count)
}

// Find returns a page of the jobs that match, wherever they are: delayed, queued, in lanes, running,
// failed, in this order; in a queue the newest first. after and count are as in List.
//
// One call looks at about 10,000 jobs at most, so a page may be short, or empty, although Next says that
// there is more. Redis reads at most a thousand jobs, or about 1 MiB, in one step, and serves other clients in
// between. A search by class, arguments or id sends few others.
//
// A job that goes on its way meanwhile, from a schedule to its queue and to a worker, is not missed. One that
// goes back may be: a job that fails and is delayed again.
func (i *Inspector) Find(ctx context.Context, q Query, after string, count int, options ...FindOption) (Page, error) {
	return i.walk(ctx, q, false, after, count, options...)
}

// All walks through all jobs that match, page by page, as Find does. It ends with the first error; of several Redises the next
// one follows. What Redis refused to read comes as an error too, after the jobs of its page, and the walk goes on. With a Budget it may end
// with an *UnfinishedError.
func (i *Inspector) All(ctx context.Context, q Query, options ...FindOption) iter.Seq2[Entry, error] {
	o := findOptionsOf(options)
	return func(yield func(Entry, error) bool) {
		for after, left := o.after, o.budget; ; {
			began := clock.System.Now()
			page, err := i.walk(ctx, q, false, after, MaxPage, Budget(left))
			if o.budget > 0 {
				left = max(1, left-clock.Since(clock.System, began))
			}
			for _, e := range page.Jobs {
				if !yield(e, nil) {
					return
				}
			}
			for _, refused := range page.Refused {
				if !yield(Entry{}, refused) {
					return
				}
			}
			if err == nil && page.Of > 0 {
				yield(Entry{}, &UnfinishedError{Next: page.Next, Looked: page.Seen, Of: page.Of, Budget: o.budget})
				return
			}
			if err != nil && (!yield(Entry{}, err) || !i.several() || ctx.Err() != nil) {
				return
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

// walk returns a page.
func (i *Inspector) walk(ctx context.Context, q Query, ahead bool, after string, count int, options ...FindOption) (Page, error) {
	if err := i.usable(); err != nil {
		return Page{}, err
	}
	if count < 1 || count > MaxPage {
		return Page{}, fmt.Errorf("goworker: a page has 1 to %d jobs, not %d", MaxPage, count)
	}
	o := findOptionsOf(options)
	if after == "" {
		after = o.after
	}
	cur, err := parseCursor(after, q.question(ahead))
	if err != nil {
		return Page{}, err
	}
	if !i.several() {
		return i.walkHere(ctx, q, ahead, cur, count, o)
	}
	at := 0
	if cur.Shard != "" {
		if at, err = i.marked(cur.Shard); err != nil {
			return Page{}, err
		}
	}
	one := i.shards[at]
	cur.Shard = one.mark()
	page, err := one.walkHere(ctx, q, ahead, cur, count, o)
	for n := range page.Jobs {
		page.Jobs[n].Shard = one.name()
	}
	// After a shard that did not answer comes the next one, so that one that is away hides no other.
	if (page.Next == "" || err != nil && page.Looked == 0) && at+1 < len(i.shards) {
		page.Next = cursor{Question: cur.Question, Shard: i.shards[at+1].mark()}.String()
	}
	return page, one.about(err)
}

// walker is one call of a walk on one Redis.
type walker struct {
	*Inspector
	*matcher
	s     resque.Store
	c     redis.Conn
	ahead bool
	cur   cursor
	page  Page
	left  int // jobs the page has room for
	idle  int // what steps that found little count beyond their jobs

	queues []string // read once a call
	lanes  []resque.Lanes
	lists  []string
}

// walkHere returns a page of one Redis.
func (i *Inspector) walkHere(ctx context.Context, q Query, ahead bool, cur cursor, count int, o findOptions) (Page, error) {
	settings, err := i.redis.Settings()
	if err != nil {
		return Page{}, err
	}
	m, err := q.matcher(settings, i.mask)
	if err != nil {
		return Page{}, err
	}
	w := &walker{Inspector: i, matcher: m, ahead: ahead, cur: cur, left: count}
	err = i.do(ctx, func(s resque.Store, c redis.Conn) error {
		w.s, w.c = s, c
		began := clock.System.Now()
		for w.cur.Place < len(places) {
			over := o.budget > 0 && w.page.Looked > 0 && clock.Since(clock.System, began) >= o.budget || o.most > 0 && w.page.Looked >= o.most
			if w.left == 0 || w.page.Looked >= maxLooked || over {
				w.cur.Seen = cur.Seen + int64(w.page.Looked-w.idle)
				w.page.Next = w.cur.String()
				if over {
					w.page.Of, err = w.total()
				}
				return err
			}
			looked := w.page.Looked
			done, err := true, error(nil)
			if m.in(places[w.cur.Place]) {
				done, err = w.step()
			}
			if err != nil {
				return err
			}
			w.worked(looked)
			if done {
				w.cur = cursor{Question: cur.Question, Shard: cur.Shard, Place: w.cur.Place + 1}
			}
		}
		return nil
	})
	w.page.Seen, w.page.Unsure = cur.Seen+int64(w.page.Looked-w.idle), m.unsure
	if err != nil {
		w.cur.Seen = w.page.Seen
		w.page.Next, err = w.cur.String(), prefix.Errorf("%w", err)
	}
	return w.page, err
}

// total is about how many jobs the walk looks at, those that it has seen included. Jobs in lanes and those that run do not
// count.
func (w *walker) total() (int64, error) {
	e := resque.Extent{Delayed: w.in(Delayed), Leased: w.in(Leased)}
	var err error
	if w.in(Queued) {
		if err = w.readQueues(); err != nil {
			return 0, err
		}
		e.Queues = w.queues
	}
	if w.in(Failed) {
		if e.Lists, err = failures.New(w.s).Lists(w.c); err != nil && !resque.IsWrongType(err) {
			return 0, err
		}
	}
	n, err := e.Count(w.s, w.c)
	return max(n, w.cur.Seen), err
}

// step reads one page of a place, and reports whether that was the last one there.
func (w *walker) step() (done bool, err error) {
	switch places[w.cur.Place] {
	case Delayed:
		return w.stepDelayed()
	case Queued:
		return w.stepQueue()
	case InLane:
		return w.stepLane()
	case Leased:
		return w.stepHeld()
	case Running:
		return w.stepRunning()
	default:
		return w.stepFailed()
	}
}

// worked ends a step that began when so many jobs were looked at. A step that finds little counts as least.
func (w *walker) worked(before int) {
	w.idle += max(0, before+least-w.page.Looked)
	w.page.Looked = max(w.page.Looked, before+least)
}

func (w *walker) found(e Entry) {
	w.page.Jobs = append(w.page.Jobs, e)
	w.left--
}

// skip notes that Redis refused a key, and reports whether the walk goes on without it.
func (w *walker) skip(what string, err error) bool {
	if !resque.IsWrongType(err) {
		return false
	}
	w.page.Refused = append(w.page.Refused, prefix.Errorf("reading %s: %w", what, resque.Explain(err)))
	return true
}

func (w *walker) stepDelayed() (done bool, err error) {
	walk := delayed.Store.WalkOwn
	if w.cur.Plain {
		walk = delayed.Store.WalkPlain
	}
	step, err := walk(delayed.New(w.s), w.c, w.cur.Delayed, w.left, w.texts, func(d delayed.Job) bool {
		return w.fits(subject{place: Delayed, queue: d.Queue, raw: bytesOf(d), due: d.At})
	})
	if err != nil && !w.skip("the schedule of delayed jobs", err) {
		return false, err
	}
	for _, d := range step.Found {
		e := w.entry(Delayed, d.Queue, bytesOf(d))
		e.At, e.Plain, e.delay = d.At, d.Plain(), d
		if d.Err != nil {
			e.Payload, e.Invalid = nil, d.Err
		}
		w.found(e)
	}
	w.page.Looked += step.Looked
	w.page.Refused = append(w.page.Refused, step.Refused...)
	if w.cur.Delayed = step.Next; step.Next != nil {
		return false, nil
	}
	done, w.cur.Plain = w.cur.Plain, true
	return done, nil
}

// bytesOf are a delayed job's payload, or what there is in place of one.
func bytesOf(d delayed.Job) []byte {
	if d.Err != nil {
		return d.Raw
	}
	return d.Payload
}

func (w *walker) stepQueue() (done bool, err error) {
	if err = w.readQueues(); err != nil {
		return false, err
	}
	at, there := slices.BinarySearch(w.queues, w.cur.Queue)
	if !there {
		w.cur.List = nil // the queue was removed
	}
	if at == len(w.queues) {
		return true, nil
	}
	w.cur.Queue = w.queues[at]
	next, err := w.walkList(w.s.KeyOfQueue(w.cur.Queue), "queue "+w.cur.Queue, Queued, nil)
	if err != nil {
		return false, err
	}
	if w.cur.List = next; next != nil {
		return false, nil
	}
	if at+1 == len(w.queues) {
		return true, nil
	}
	w.cur.Queue = w.queues[at+1]
	return false, nil
}

// readQueues reads the names of the queues to look through, once a call.
func (w *walker) readQueues() (err error) {
	if w.queues != nil {
		return nil
	}
	if w.queues = []string{w.Queue}; w.Queue == "" {
		if w.queues, err = w.s.Queues(w.c); err != nil {
			return err
		}
		w.queues = slices.DeleteFunc(w.queues, func(name string) bool { return !w.wants(name) })
	}
	return nil
}

// walkList reads a page of the list of a queue or lane, and returns where to go on in it.
func (w *walker) walkList(key, what string, place Place, lane *resque.Lane) (*resque.ListPlace, error) {
	texts := w.texts
	if queues.IsOwn(w.cur.Queue) { // their bytes are not those of JSON
		texts = nil
	}
	list, err := w.s.WalkList(w.c, key, w.ahead, w.cur.List, w.left, texts, func(raw []byte) bool {
		return w.fits(subject{place: place, queue: w.cur.Queue, raw: raw})
	})
	if err != nil && !w.skip(what, err) {
		return nil, fmt.Errorf("reading %s: %w", what, resque.Explain(err))
	}
	for _, found := range list.Found {
		e := w.entry(place, w.cur.Queue, found.Raw)
		e.index, e.lane = found.Index, lane
		if lane != nil {
			e.Limits = limitNames(*lane)
		}
		w.found(e)
	}
	w.page.Looked += list.Looked
	return list.Next, nil
}

func (w *walker) stepLane() (done bool, err error) {
	if w.lanes == nil {
		if w.lanes, err = w.s.SortedQueues(w.c, w.Queue); err != nil {
			return w.skip("the lanes of queues", err), ignoreWrongType(err)
		}
		w.lanes = slices.DeleteFunc(w.lanes, func(l resque.Lanes) bool { return !w.wants(l.Queue) })
	}
	order := func(l, at resque.Lanes) int {
		return cmp.Or(cmp.Compare(l.Queue, at.Queue), cmp.Compare(l.Shared, at.Shared))
	}
	slices.SortFunc(w.lanes, order)
	at, there := slices.BinarySearchFunc(w.lanes, resque.Lanes{Queue: w.cur.Queue, Shared: w.cur.Shared}, order)
	if at == len(w.lanes) {
		return true, nil
	}
	set := w.lanes[at]
	if !there {
		w.cur.Scan, w.cur.Done, w.cur.Lane, w.cur.List = "", nil, "", nil
	}
	w.cur.Queue, w.cur.Shared = set.Queue, set.Shared
	lanes, next, err := w.s.ScanLanes(w.c, set, cmp.Or(w.cur.Scan, "0"))
	if err != nil {
		if !w.skip("the lanes of queue "+set.Queue, err) {
			return false, err
		}
		next = "0"
	}
	name := func(l resque.Lane) string { return refOf("", []byte(l.Own))[:12] }
	if at := slices.IndexFunc(lanes, func(l resque.Lane) bool { return name(l) == w.cur.Lane }); at > 0 {
		lanes[0], lanes[at] = lanes[at], lanes[0] // the walk goes on in this one
	}
	for _, lane := range lanes {
		// The page is read again by each call that goes on in it, and it may have other lanes then.
		name := name(lane)
		if slices.Contains(w.cur.Done, name) {
			continue
		}
		if name != w.cur.Lane {
			w.cur.Lane, w.cur.List = name, nil
		}
		for {
			if w.left == 0 || w.page.Looked >= maxLooked {
				return false, nil
			}
			looked := w.page.Looked
			place, err := w.walkList(w.s.KeyOfLane(lane), "a lane of queue "+set.Queue, InLane, &lane)
			if err != nil {
				return false, err
			}
			w.worked(looked)
			if w.cur.List = place; place == nil {
				break
			}
		}
		w.cur.Done, w.cur.Lane = append(w.cur.Done, name), ""
	}
	w.cur.Scan, w.cur.Done, w.cur.Lane, w.cur.List = next, nil, "", nil
	if next != "0" {
		return false, nil
	}
	if at+1 == len(w.lanes) {
		return true, nil
	}
	w.cur.Queue, w.cur.Shared, w.cur.Scan = w.lanes[at+1].Queue, w.lanes[at+1].Shared, ""
	return false, nil
}

func ignoreWrongType(err error) error {
	if resque.IsWrongType(err) {
		return nil
	}
	return err
}

func (w *walker) stepFailed() (done bool, err error) {
	if w.lists == nil {
		if w.lists, err = failures.New(w.s).Lists(w.c); err != nil && !w.skip("the names of failure lists", err) {
			return false, err
		}
	}
	at, there := slices.BinarySearch(w.lists, w.cur.Lists)
	if at == len(w.lists) {
		return true, nil
	}
	if w.cur.Lists = w.lists[at]; !there {
		w.cur.Failure = ""
	}
	records, looked, next, err := failures.New(w.s).Walk(w.c, w.lists[at], w.cur.Failure, w.left, maxLooked-w.page.Looked, w.fitsRecord)
	if err != nil && !w.skip("failure list "+w.lists[at], err) {
		return false, err
	}
	for _, f := range w.failures(records) {
		f.shard = w.number
		w.found(w.failed(f))
	}
	w.page.Looked += looked
	if w.cur.Failure = next; next != "" {
		return false, nil
	}
	w.cur.Lists = w.lists[at] + "\x00" // the first name behind it
	return at+1 == len(w.lists), nil
}

// fitsRecord reports whether the job of a failure record matches.
func (m *matcher) fitsRecord(raw []byte) bool {
	for _, name := range m.names {
		if !bytes.Contains(raw, name) && !bytes.Contains(raw, []byte(`\u00`)) {
			return false
		}
	}
	var f payload.FailureFields
	if !f.Scan(raw) {
		return m.fits(subject{place: Failed, raw: raw, record: raw})
	}
	return m.fits(subject{place: Failed, queue: payload.Text(f.Queue), raw: f.Payload, record: raw, failure: &f})
}
