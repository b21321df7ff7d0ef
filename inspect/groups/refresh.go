package groups

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
)

// listsChecked is how many lists whose length is as before one Refresh looks at.
const listsChecked = 8

// pass is one Refresh at one Redis.
type pass struct {
	*Index
	shard *shard
	ctx   context.Context
	lists failures.Store
	c     redis.Conn
	until time.Time // zero: there is no budget
}

// Refresh brings the Index up to date, and goes on building it until the budget is over; 0 is no budget. It reads a page of each
// list at least: at most a thousand failures, or about 1 MiB. Calls at the same time come one after the other.
//
// If a Redis of several does not answer, the Index keeps what it knew of it, and the error names it.
func (x *Index) Refresh(ctx context.Context, budget time.Duration) (Progress, error) {
	x.turn.Lock()
	defer x.turn.Unlock()
	if x.changed.Swap(false) {
		for _, l := range x.all() {
			l.owed = l.count()
		}
	}
	began := x.o.Now()
	var errs []error
	for n, s := range x.shards {
		until := time.Time{}
		if budget > 0 { // each gets its share of what is left
			left := budget - x.o.Now().Sub(began)
			until = x.o.Now().Add(left / time.Duration(len(x.shards)-n))
		}
		err := x.refresh(ctx, s, until)
		if err != nil && len(x.shards) > 1 {
			err = fmt.Errorf("goworker: shard %s: %w", s.door.Name(), err)
		}
		errs = append(errs, err)
	}
	return x.Progress(), errors.Join(errs...)
}

func (x *Index) refresh(ctx context.Context, s *shard, until time.Time) error {
	settings, err := s.door.Settings()
	if err != nil {
		return err
	}
	if x.o.Query != nil && s.fits == nil {
		if s.fits, err = s.door.Matches(*x.o.Query); err != nil {
			return err
		}
	}
	return s.door.Do(ctx, func(store resque.Store, c redis.Conn) error {
		p := &pass{Index: x, shard: s, ctx: ctx, lists: failures.New(store), c: c, until: until}
		names, err := p.lists.Lists(c)
		if err != nil && (settings.MultiQueue || !resque.IsWrongType(err)) {
			return err
		}
		if err := p.follow(names); err != nil {
			return err
		}
		if err := p.readAgain(); err != nil {
			return err
		}
		return p.build()
	})
}

// late reports whether the budget is over.
func (p *pass) late() bool {
	return p.ctx.Err() != nil || !p.until.IsZero() && !p.o.Now().Before(p.until)
}

// read returns a stretch of a list.
func (p *pass) read(l *list, from, to int64) ([][]byte, error) {
	all, err := p.lists.Windows(p.c, failures.Window{List: l.name, From: from, To: to})
	if err != nil {
		return nil, err
	}
	l.paged(all[0])
	return all[0], nil
}

// made makes entries of elements. The newest come first, so that of many groups theirs have room.
func (p *pass) made(raws [][]byte) []entry {
	entries := make([]entry, len(raws))
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, raw := range slices.Backward(raws) {
		entries[n] = p.entryOf(p.shard, raw)
		p.kinds.keep(entries[n : n+1])
	}
	return entries
}

// follow reads what has been added to the lists.
func (p *pass) follow(names []string) error {
	lengths, err := p.lists.Lengths(p.c, names...)
	if err != nil {
		return err
	}
	p.named(names, lengths)
	var due []*list
	for n, l := range p.shard.lists {
		turn := (n-p.shard.from+len(p.shard.lists))%len(p.shard.lists) < listsChecked
		if l.count() > 0 && (turn || l.length != l.end()) {
			due = append(due, l)
		}
	}
	if len(p.shard.lists) > 0 {
		p.shard.from = (p.shard.from + listsChecked) % len(p.shard.lists)
	}
	if len(due) == 0 {
		return nil
	}
	var windows []failures.Window
	for _, l := range due {
		last := l.end() - 1
		windows = append(windows, failures.Window{List: l.name, From: last, To: max(last+1, min(l.length, last+1+l.size))}, failures.Window{List: l.name, From: l.base, To: l.base + 1})
	}
	read, err := p.lists.Windows(p.c, windows...)
	if err != nil {
		return err
	}
	for n, l := range due {
		if err := p.followOne(l, read[2*n], read[2*n+1]); err != nil {
			return err
		}
	}
	return nil
}

// named keeps the lists that there are.
func (p *pass) named(names []string, lengths []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shard.seen = true
	var lists []*list
	for n, name := range names {
		at := slices.IndexFunc(p.shard.lists, func(l *list) bool { return l.name == name })
		if at < 0 {
			lists = append(lists, &list{name: name, size: firstPage})
		} else {
			lists = append(lists, p.shard.lists[at])
		}
		l := lists[n]
		if l.length = lengths[n]; l.length == 0 {
			p.clear(l)
		} else if l.count() == 0 {
			l.base = l.length
		}
	}
	for _, l := range p.shard.lists {
		if !slices.Contains(lists, l) {
			p.clear(l)
		}
	}
	p.shard.lists = lists
}

// clear forgets what is known of a list, from which on it is built again. mu is locked.
func (x *Index) clear(l *list) {
	x.kinds.drop(l.entries())
	l.newer, l.base, l.back, l.owed = nil, l.length, 0, 0
}

// followOne takes what was read from the last known element of a list on. head is its first known element.
func (p *pass) followOne(l *list, tail, head [][]byte) (err error) {
	if !same(head, l.at(0)) {
		return p.reconcile(l)
	}
	l.paged(tail)
	for {
		if !same(tail, l.at(l.count()-1)) {
			return p.reconcile(l)
		}
		p.renew(l, l.count()-1, tail[:1])
		p.push(l, p.made(tail[1:]))
		if l.end() >= l.length || p.late() {
			return nil
		}
		last := l.end() - 1
		if tail, err = p.read(l, last, min(l.length, last+1+l.size)); err != nil {
			return err
		}
		if len(tail) == 1 {
			return nil // the list has become shorter
		}
	}
}

// same reports whether what was read begins with a known element.
func same(raws [][]byte, e *entry) bool {
	return len(raws) > 0 && failures.BriefOf(raws[0]).ID == e.id
}

// push adds the newest entries of a list. The oldest of the largest list go where there are too many, and no more of it than make it as large
// as the next one, or all equally: a list that lost all that was just read of it would be read for ever.
func (p *pass) push(l *list, entries []entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.newer = append(l.newer, entries...)
	l.back += len(entries)
	for more := p.indexed() - p.o.MaxIndexed; more > 0; more = p.indexed() - p.o.MaxIndexed {
		lists := p.all()
		slices.SortFunc(lists, func(a, b *list) int { return b.count() - a.count() })
		most, level := lists[0], 0
		if len(lists) > 1 {
			level = lists[1].count()
		}
		n := min(more, most.count(), max(most.count()-level, (more+len(lists)-1)/len(lists)))
		all := most.entries()
		p.kinds.drop(all[:n])
		most.newer, most.base = slices.Clone(all[n:]), most.base+int64(n)
	}
}

// renew replaces known entries by what was read again of them. It reports whether one was retried, or is blank, that was not.
func (p *pass) renew(l *list, n int, raws [][]byte) (differs bool) {
	entries := p.made(raws)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, e := range entries {
		old := l.at(n + i)
		differs = differs || old.kind != e.kind
		p.kinds.drop([]entry{*old})
		*old = e
	}
	return differs
}

// build reads the older elements, page by page, of the list first of which the least is known.
func (p *pass) build() error {
	for first := true; ; first = false {
		room := p.o.MaxIndexed - p.indexed()
		var next *list
		for _, l := range p.shard.lists {
			if l.base > 0 && (next == nil || l.count() < next.count()) {
				next = l
			}
		}
		if next == nil || room <= 0 && next.count() > 0 || !first && p.late() {
			return p.ctx.Err()
		}
		if room <= 0 { // the newest of each list have room
			room = firstPage
		}
		if err := p.page(next, int64(room)); err != nil {
			return err
		}
		p.push(next, nil)
	}
}

// page reads the page before the oldest known element of a list, and that element again: so it sees whether elements have moved.
func (p *pass) page(l *list, room int64) error {
	from, to := max(0, l.base-min(l.size, room)), l.base
	if l.count() > 0 {
		to++
	}
	raws, err := p.read(l, from, to)
	if err != nil {
		return err
	}
	if l.count() > 0 {
		if last := len(raws) - 1; int64(len(raws)) < to-from || !same(raws[last:], l.at(0)) {
			return p.reconcile(l)
		}
		raws = raws[:len(raws)-1]
	}
	entries := p.made(raws)
	slices.Reverse(entries)
	p.mu.Lock()
	defer p.mu.Unlock()
	l.base = from
	l.older = append(l.older, entries...)
	return nil
}

// readAgain reads known elements again: those that are owed, and now and then a stretch and three elements anywhere.
func (p *pass) readAgain() error {
	var known []*list
	for _, l := range p.shard.lists {
		if l.count() > 0 {
			known = append(known, l)
		}
	}
	for _, l := range known {
		for l.owed > 0 && !p.late() {
			if moved, err := p.stretch(l); moved || err != nil {
				if err != nil {
					return err
				}
				break
			}
		}
	}
	now := p.o.Now()
	if len(known) == 0 || now.Sub(p.shard.again) < p.o.Again {
		return nil
	}
	p.shard.again = now
	l := known[rand.IntN(len(known))]
	if moved, err := p.stretch(l); moved || err != nil || l.count() <= int(l.size) {
		return err
	}
	var places []int
	var windows []failures.Window
	for range 3 {
		n := rand.IntN(l.count())
		places = append(places, n)
		windows = append(windows, failures.Window{List: l.name, From: l.base + int64(n), To: l.base + int64(n) + 1})
	}
	read, err := p.lists.Windows(p.c, windows...)
	if err != nil {
		return err
	}
	for i, n := range places {
		if !same(read[i], l.at(n)) || p.renew(l, n, read[i]) { // others around it may be retried too
			l.back = max(0, l.count()-n-int(l.size)/2)
			_, err := p.stretch(l)
			return err
		}
	}
	return nil
}

// stretch reads the next stretch of a list again, from the newest known element to the oldest. It reports whether elements have moved. Where
// some have another content and the others stand where they were, they were changed in their places: Ruby blanks a record before it removes it.
func (p *pass) stretch(l *list) (moved bool, err error) {
	if l.back >= l.count() {
		l.back = 0
	}
	to := l.count() - l.back
	from := max(0, to-int(l.size))
	raws, err := p.read(l, l.base+int64(from), l.base+int64(to))
	if err != nil {
		return false, err
	}
	there := 0
	for i := range raws {
		if same(raws[i:], l.at(from+i)) {
			there++
		}
	}
	if len(raws) < to-from || 2*there < len(raws) {
		return true, p.reconcile(l)
	}
	p.renew(l, from, raws)
	l.back += to - from
	l.owed = max(0, l.owed-(to-from))
	return false, nil
}
