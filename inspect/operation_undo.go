package inspect

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
	"github.com/goworker/goworker/internal/resque/failures"
	"github.com/goworker/goworker/internal/resque/operations"
)

// binPage is how many elements of the bin are read together.
const binPage = 1000

// takeBack takes back what the operation did. It goes through the lists in the bin in a fixed order, so that it goes on where
// another program was: what is back is in the bin no more, or is not found where it went.
func (r *runner) takeBack(ctx context.Context, record operations.Record) error {
	names := slices.Sorted(maps.Keys(record.Bins()))
	away := make(map[string][]origin) // by what the jobs are where they went
	for _, name := range names {
		p, ok := operations.ParseName(name)
		var err error
		switch {
		case name == operations.CancelledName:
			err = r.lift(ctx, name)
		case !ok:
		case p.Went:
			err = r.wents(ctx, name, func(w went) {
				waits := r.plan.Verb == Delay || r.plan.Verb == MoveTo && (p.Kind == operations.OwnPlace || p.Kind == operations.PlainPlace)
				away[whereabouts(w.ref, waits)] = append(away[whereabouts(w.ref, waits)], origin{w, p})
			})
		case p.Kind == operations.OwnPlace, p.Kind == operations.PlainPlace:
			err = r.undelay(ctx, name, p.Kind == operations.PlainPlace)
		default:
			err = r.restore(ctx, name)
		}
		if err != nil {
			return err
		}
	}
	if len(away) > 0 {
		if err := r.fetch(ctx, away); err != nil {
			return err
		}
	}
	return r.with(ctx, func(s operations.Store, c redis.Conn) error {
		_, err := s.Empty(c, r.id, names)
		return err
	})
}

// origin is where a job came from that went elsewhere.
type origin struct {
	went
	source operations.Place
}

// whereabouts is by what a job is found that went elsewhere: its ref, and whether it is delayed there.
func whereabouts(ref string, delayed bool) string {
	if delayed {
		return ref + " delayed"
	}
	return ref
}

// wents reads a list in the bin of jobs that went elsewhere.
func (r *runner) wents(ctx context.Context, name string, visit func(w went)) error {
	if p, ok := operations.ParseName(name); !ok || !p.Went {
		return nil
	}
	return r.elements(ctx, name, func(page [][]byte) error {
		for _, text := range page {
			if w, ok := parseWent(text); ok {
				visit(w)
			}
		}
		return nil
	})
}

// elements reads a list in the bin, a page at a time. It keeps the lease meanwhile: of a long list the reading alone may last longer.
func (r *runner) elements(ctx context.Context, name string, visit func(page [][]byte) error) error {
	for from := 0; ; from += binPage {
		var page [][]byte
		err := r.with(ctx, func(s operations.Store, c redis.Conn) (err error) {
			page, err = s.Page(c, r.id, name, from, binPage)
			return err
		})
		if err == nil {
			err = visit(page)
		}
		if err != nil || len(page) < binPage {
			return err
		}
		if err := r.kept(ctx, r.cursor); err != nil {
			return err
		}
	}
}

// restore puts the jobs of a list in the bin back into the list that they came from.
func (r *runner) restore(ctx context.Context, name string) error {
	s, err := r.store(ctx)
	if err != nil {
		return err
	}
	call, ok := s.RestoreCall(r.id, name)
	for ok {
		out, err := r.make(ctx, operations.Restore, operations.Step{Bin: name, Changes: []operations.Change{{Call: call}}})
		switch {
		case errors.Is(err, errAgain):
			continue
		case err != nil || out.Changed == 0:
			return err
		case !r.stepped():
			return errBroken
		}
	}
	return nil
}

// undelay puts delayed jobs back to their times.
func (r *runner) undelay(ctx context.Context, name string, plain bool) error {
	s, err := r.store(ctx)
	if err != nil {
		return err
	}
	for {
		page, err := query(ctx, r.Inspector, func(_ resque.Store, c redis.Conn) ([][]byte, error) {
			return s.Page(c, r.id, name, 0, operations.StepJobs)
		})
		if err != nil {
			return err
		}
		var jobs []operations.Delayed
		for _, lies := range page {
			d, ok := operations.ParseDelayed(lies)
			if !ok {
				break
			}
			jobs = append(jobs, d)
		}
		if len(jobs) == 0 {
			return nil
		}
		_, err = r.make(ctx, operations.Delay, operations.Step{Bin: name, Changes: []operations.Change{{Call: s.DelayCall(r.id, name, plain, jobs)}}})
		switch {
		case errors.Is(err, errAgain):
			continue
		case err != nil:
			return err
		case !r.stepped():
			return errBroken
		}
	}
}

// lift lifts the cancels of jobs.
func (r *runner) lift(ctx context.Context, name string) error {
	s, err := r.store(ctx)
	if err != nil {
		return err
	}
	return r.elements(ctx, name, func(page [][]byte) error {
		for ids := range slices.Chunk(page, operations.StepJobs) {
			var changes []operations.Change
			for _, id := range ids {
				changes = append(changes, operations.Change{Call: s.LiftCall(string(id)), Kept: []string{""}})
			}
			_, err := r.make(ctx, operations.Lift, operations.Step{Changes: changes})
			if err != nil && !errors.Is(err, errAgain) {
				return err
			}
			if !r.stepped() {
				return errBroken
			}
		}
		return nil
	})
}

// fetch finds the jobs that went elsewhere and still wait there, and puts them back.
func (r *runner) fetch(ctx context.Context, away map[string][]origin) error {
	places := []Place{Queued, InLane}
	if r.plan.Verb == Delay {
		places = []Place{Delayed}
	} else if r.plan.Verb == MoveTo {
		places = []Place{Delayed, Queued, InLane}
	}
	to := make(map[string]bool)
	for _, all := range away {
		for _, o := range all {
			to[o.queue] = true
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(to)) {
		q := Query{Queue: queue, Places: places}
		for cursor := ""; ; {
			page, err := r.find(ctx, q, false, cursor)
			if err == nil {
				err = r.fetched(ctx, page.Jobs, away)
			}
			if err != nil {
				return err
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
	}
	return nil
}

// homing is a job that goes back where it came from.
type homing struct {
	Entry
	origin
}

// fetched puts those jobs of a page back that the operation has sent there.
func (r *runner) fetched(ctx context.Context, page []Entry, away map[string][]origin) error {
	var jobs []homing
	for _, e := range page {
		at := whereabouts(e.Ref, e.Place == Delayed)
		all := away[at]
		if len(all) == 0 {
			continue
		}
		h := homing{e, all[len(all)-1]}
		away[at] = all[:len(all)-1]
		if e.Place == Delayed && h.wasDelayed() && h.from == e.Queue && h.time == e.stamp() { // it is back already
			continue
		}
		jobs = append(jobs, h)
	}
	for len(jobs) > 0 {
		name := func(h homing) string {
			return h.Entry.placeName() + "\x00" + h.source.Kind + h.source.List + operations.QueueName(h.from) + operations.LaneName(h.source.Lane)
		}
		first, some, rest := name(jobs[0]), []homing(nil), []homing(nil)
		for _, h := range jobs {
			if name(h) == first {
				some = append(some, h)
			} else {
				rest = append(rest, h)
			}
		}
		jobs = rest
		kind, changes, err := r.home(ctx, some)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			continue
		}
		out, err := r.make(ctx, kind, operations.Step{Changes: changes})
		if err == nil {
			err = r.document(ctx, documentsOf(some, out.Answers))
		}
		if err != nil && !errors.Is(err, errAgain) {
			return err
		}
		if !r.stepped() {
			return errBroken
		}
	}
	return nil
}

// documentsOf is what the documents of jobs say that went back, in the order in which home has prepared their way. Those of
// failures were written in that step.
func documentsOf(jobs []homing, answers []operations.Answer) (all []resque.DocumentChange) {
	source := jobs[0].source.Kind
	if source == operations.FailedPlace {
		return nil
	}
	for change, answer := range answers { // delayed jobs have a change each, others have one together
		for _, number := range answer.Jobs {
			if number <= 0 {
				continue
			}
			h := jobs[change+number-1]
			d, ok := resque.DocumentChangeOf(h.Payload)
			if !ok {
				continue
			}
			if d.Queue = h.from; source == operations.OwnPlace || source == operations.PlainPlace {
				d.Due = time.UnixMilli(h.due().MS)
			}
			all = append(all, d)
		}
	}
	return all
}

// home prepares the way back of jobs that are in one place and came from one.
func (r *runner) home(ctx context.Context, jobs []homing) (kind operations.Kind, changes []operations.Change, err error) {
	settings, err := r.redis.Settings()
	if err != nil {
		return kind, nil, err
	}
	none := make([]string, len(jobs))
	from := jobs[0].source
	err = r.do(ctx, func(s resque.Store, c redis.Conn) error {
		if jobs[0].Entry.Place == Delayed {
			slices.Reverse(jobs) // the last one first, because each goes to the head
			kind, changes = homeOfDelayed(delayed.New(s), jobs, settings.Style)
			return nil
		}
		if from.Kind == operations.FailedPlace {
			kind = operations.Unretry
			changes, err = r.unretries(s, c, jobs)
			return err
		}
		target := resque.Target{Queue: jobs[0].from, Head: true}
		switch from.Kind {
		case operations.LanePlace:
			target.Lane = &from.Lane
		case operations.OwnPlace, operations.PlainPlace:
			target = resque.Target{Later: true, Plain: from.Kind == operations.PlainPlace, Style: settings.Style}
		}
		moves := make([]resque.Move, len(jobs))
		for n, h := range jobs {
			moves[n] = h.Entry.move(h.due())
		}
		kind, changes = operations.Move, []operations.Change{{Call: s.MoveCall(jobs[0].Entry.list(), jobs[0].lane != nil, moves, target), Kept: none}}
		return nil
	})
	return kind, changes, err
}

// wasDelayed reports whether the job was delayed where it came from.
func (o origin) wasDelayed() bool {
	return o.source.Kind == operations.OwnPlace || o.source.Kind == operations.PlainPlace
}

// due is the time that a delayed job had.
func (o origin) due() resque.Stamp {
	n, _ := strconv.ParseInt(o.time, 10, 64)
	if o.source.Kind == operations.PlainPlace {
		n *= 1000
	}
	return resque.Stamp{MS: n}
}

// homeOfDelayed prepares the way back of jobs that are delayed: to their queue, to their time, or with their time to their queue.
func homeOfDelayed(s delayed.Store, jobs []homing, style payload.Style) (operations.Kind, []operations.Change) {
	var changes []operations.Change
	for _, h := range jobs {
		to, d := delayed.To{Queue: true, Head: true}, h.delay
		waited := h.wasDelayed()
		switch {
		case waited && h.from != h.Entry.Queue && d.Plain():
			call, _ := s.SwapCall(d, h.from, d.Payload, style)
			changes = append(changes, operations.Change{Call: call, Kept: []string{""}})
			continue
		case waited && h.from != h.Entry.Queue:
			to = delayed.To{Named: h.from}
		case waited:
			at := time.UnixMilli(h.due().MS) // also if that is past: the job expires when it would have
			to = delayed.To{Later: true, At: at, Now: at}
		default:
			d.Queue = h.from
			if expires, err := strconv.ParseInt(h.time, 10, 64); err == nil {
				to.As, _ = payload.SetFields(d.Payload, resque.ExpiresAt(expires))
			}
		}
		call := s.OwnCall
		if d.Plain() {
			call = s.PlainCall
		}
		changes = append(changes, operations.Change{Call: call([]delayed.Job{d}, to), Kept: []string{""}})
	}
	kind, first := operations.Own, jobs[0]
	if first.Plain {
		if kind = operations.Plain; first.from != first.Entry.Queue && first.wasDelayed() {
			kind = operations.Swap
		}
	}
	return kind, changes
}

// unretries finds the records of failures whose jobs wait, and prepares that the jobs go and the records are as they were.
func (r *runner) unretries(s resque.Store, c redis.Conn, jobs []homing) (changes []operations.Change, err error) {
	byID := make(map[string][]homing)
	var ids []string
	for _, h := range jobs {
		if byID[h.failure] == nil {
			ids = append(ids, h.failure)
		}
		byID[h.failure] = append(byID[h.failure], h)
	}
	kept := func() error { return r.keptBy(s, c) } // of a long list the reading alone may last longer than the lease
	_, err = failures.New(s).OnPage(kept).Find(c, []string{jobs[0].source.List}, ids, func(record failures.Record) (bool, error) {
		id := failures.ID(record.Raw)
		all := byID[id]
		if record.Failure.RetriedAt == "" || len(all) == 0 {
			return false, nil
		}
		before, err := payload.Unretried(record.Raw)
		if err != nil {
			return false, nil
		}
		h := all[0]
		call := operations.New(s).UnretryCall(record.List, record.Index, record.Raw, before, h.Entry.list(), h.lane != nil, h.index, h.raw)
		changes = append(changes, operations.Change{Call: call, Kept: []string{""}})
		byID[id] = all[1:]
		return len(all) == 1, nil
	})
	slices.SortStableFunc(changes, func(a, b operations.Change) int { // the hindmost of the list first, so that the others keep their places
		return cmp.Compare(indexOf(b), indexOf(a))
	})
	return changes, err
}

// indexOf is where the job of an UnretryCall was read.
func indexOf(change operations.Change) int64 {
	_, values := change.Call.Parts()
	return values[3].(int64)
}
