package groups

import (
	"slices"

	"github.com/goworker/goworker/internal/resque/failures"
)

// remembered is how many of the first or last known elements are looked for where a list begins or ends now.
const remembered = 4096

// segment is a part of a list between two elements that stand in the old and in the new list: what is between
// them may differ. The numbers are those of the two elements, of the known ones and in the list.
type segment struct {
	old, oldEnd int
	now, nowEnd int64
}

// reconcile finds what has become of a list whose known elements are no longer where they were. Elements are removed
// anywhere, put back before the first one, and added behind the last one. So the order of those that stay is the same, and between two that have as many
// elements between them as before nothing has changed. Where the number differs, the middle is looked at, until the rest is a page.
//
// It goes from the newest to the oldest. If its budget is over, the Index knows what it has seen by then, and goes on as if it
// had read so far for the first time.
func (p *pass) reconcile(l *list) error {
	lengths, err := p.lists.Lengths(p.c, l.name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	old := l.entries()
	p.mu.Unlock()
	r := &rebuild{pass: p, list: l, old: old}
	found, err := r.end(lengths[0])
	if err == nil && found {
		err = r.between()
	}
	p.mu.Lock()
	if err == nil {
		slices.Reverse(r.made)
		p.kinds.keep(r.made)
		p.kinds.drop(old)
		l.length, l.newer, l.base, l.back = lengths[0], r.made, r.base, 0
	}
	p.kinds.drop(r.extra)
	p.mu.Unlock()
	if err != nil {
		return err
	}
	p.push(l, nil) // it may be too many
	return nil
}

// rebuild is the new state of a list, from its end on.
type rebuild struct {
	*pass
	list *list
	old  []entry

	made  []entry // the newest first
	extra []entry // those of them that were read, and are counted in their groups already
	base  int64   // the position of the last of made

	tail, head segment // of the last common element, and of the first: old and now only
}

// read adds a stretch.
func (r *rebuild) read(from, to int64) error {
	for to > from {
		start := max(from, to-r.list.size)
		raws, err := r.pass.read(r.list, start, to)
		if err != nil {
			return err
		}
		r.add(r.pass.made(raws)) // fewer if the list becomes shorter while it is read: the next Refresh sees that
		r.base, to = start, start
	}
	return nil
}

func (r *rebuild) add(entries []entry) {
	r.extra = append(r.extra, entries...)
	slices.Reverse(entries)
	r.made = append(r.made, entries...)
}

// places are the numbers of known elements by their ids.
func places(entries []entry, first int) map[failures.BinaryID]int {
	by := make(map[failures.BinaryID]int, len(entries))
	for n, e := range entries {
		by[e.id] = first + n
	}
	return by
}

// end reads the list from its end to the last element that was known, and finds the first one. It reports whether both are there.
func (r *rebuild) end(length int64) (bool, error) {
	r.base = length
	from := max(0, len(r.old)-remembered)
	known := places(r.old[from:], from)
	for pages := 0; r.base > 0 && (pages < 4 || r.base > length-remembered); pages++ {
		start := max(0, r.base-r.list.size)
		raws, err := r.pass.read(r.list, start, r.base)
		if err != nil {
			return false, err
		}
		for n := len(raws) - 1; n >= 0; n-- {
			at, ok := known[failures.BriefOf(raws[n]).ID]
			if !ok || len(raws[n]) == 0 {
				continue
			}
			r.add(r.pass.made(raws[n:]))
			r.base = start + int64(n)
			r.tail = segment{old: at, now: r.base}
			return r.begin()
		}
		r.add(r.pass.made(raws))
		r.base = start
	}
	return false, nil
}

// begin finds the first common element.
func (r *rebuild) begin() (bool, error) {
	l := r.list
	if l.base == 0 {
		return r.front()
	}
	fewer := l.base + int64(r.tail.old) - r.tail.now
	for _, now := range []int64{l.base - fewer, l.base} { // all were removed before it, or all behind it
		if now < 0 || now > r.tail.now {
			continue
		}
		raws, err := r.pass.read(l, now, now+1)
		if err != nil {
			return false, err
		}
		if same(raws, &r.old[0]) {
			r.head = segment{old: 0, now: now}
			return true, nil
		}
	}
	if fewer < 0 || fewer > mostPage {
		return false, nil
	}
	from := max(0, l.base-fewer)
	raws, err := r.pass.read(l, from, min(l.base+1, r.tail.now))
	if err != nil {
		return false, err
	}
	return r.first(raws, from), nil
}

// front is begin where all was known: what stands before the first common element has been put there.
func (r *rebuild) front() (bool, error) {
	for _, size := range []int64{1, r.list.size} {
		to := min(size, r.tail.now)
		raws, err := r.pass.read(r.list, 0, to)
		if err != nil || to > 0 && r.first(raws, 0) {
			return err == nil, err
		}
		if to == r.tail.now { // no other element is left
			r.head = segment{old: r.tail.old, now: r.tail.now}
			return true, nil
		}
	}
	return false, nil
}

// first looks for the first common element among those from a position on.
func (r *rebuild) first(raws [][]byte, from int64) bool {
	known := places(r.old[:min(remembered, len(r.old))], 0)
	for n, raw := range raws {
		if at, ok := known[failures.BriefOf(raw).ID]; ok && len(raw) > 0 && at < r.tail.old {
			r.head = segment{old: at, now: from + int64(n)}
			return true
		}
	}
	return false
}

// between adds what is between the first and the last common element, and what stands before the first one where all was known.
func (r *rebuild) between() error {
	var todo []segment
	if r.head.now < r.tail.now {
		todo = []segment{{old: r.head.old, oldEnd: r.tail.old, now: r.head.now, nowEnd: r.tail.now}}
	}
	for len(todo) > 0 {
		if r.late() {
			return r.ctx.Err()
		}
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		olds, news := int64(s.oldEnd-s.old-1), s.nowEnd-s.now-1
		switch {
		case news <= 0:
		case olds == news:
			r.keep(s.old+1, s.oldEnd)
		case olds <= 0 || news <= r.list.size:
			if err := r.read(s.now+1, s.nowEnd); err != nil {
				return err
			}
		default:
			at, middle, err := r.middle(s)
			if err != nil {
				return err
			}
			if at < 0 {
				if err := r.read(s.now+1, s.nowEnd); err != nil {
					return err
				}
				break
			}
			todo = append(todo, segment{s.old, at, s.now, middle}, segment{at, s.oldEnd, middle, s.nowEnd})
			continue
		}
		r.keep(s.old, s.old+1)
		r.base = s.now
	}
	if r.list.base == 0 {
		return r.read(0, r.head.now)
	}
	return nil
}

// keep adds known elements.
func (r *rebuild) keep(from, to int) {
	for _, e := range slices.Backward(r.old[from:to]) {
		r.made = append(r.made, e)
	}
}

// middle finds the element in the middle of a segment among the known ones; -1: it was not known.
func (r *rebuild) middle(s segment) (at int, middle int64, err error) {
	middle = (s.now + s.nowEnd) / 2
	raws, err := r.pass.read(r.list, middle, middle+1)
	if err != nil || len(raws) == 0 || len(raws[0]) == 0 {
		return -1, middle, err
	}
	id := failures.BriefOf(raws[0]).ID
	a, b := s.old+int(middle-s.now), s.oldEnd-int(s.nowEnd-middle) // if all that differs is behind it, or before it
	for n := max(s.old+1, min(a, b)); n <= min(s.oldEnd-1, max(a, b)); n++ {
		if r.old[n].id == id {
			return n, middle, nil
		}
	}
	return -1, middle, nil
}
