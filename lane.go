package goworker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// This file is what the registry knows of limits: in which lane of its queue a job waits.

// limitQueue replaces the limits of a queue.
func (r *registry) limitQueue(queue string, limits []Limit) {
	r.write.Lock()
	defer r.write.Unlock()
	next := make(map[string][]Limit)
	if old := r.queueLimits.Load(); old != nil {
		next = maps.Clone(*old)
	}
	next[queue] = nameLimits("queue/"+queue, limits)
	r.queueLimits.Store(&next)
	r.limited.Store(true)
}

// limitsQueue reports whether LimitQueue named the queue.
func (r *registry) limitsQueue(queue string) bool {
	m := r.queueLimits.Load()
	return m != nil && (*m)[queue] != nil
}

func (r *registry) limitsOfQueue(queue string) []Limit {
	if m := r.queueLimits.Load(); m != nil {
		return (*m)[queue]
	}
	return nil
}

// sortsBy reports whether a queue's jobs were sorted by limits that hold here.
func (r *registry) sortsBy(lanes resque.Lanes) bool {
	one := func(l Limit) bool {
		return lanes.SortedBy(resque.Limit{Kind: l.kind, Name: l.name, Keyed: l.key != nil})
	}
	if slices.ContainsFunc(r.limitsOfQueue(lanes.Queue), one) {
		return true
	}
	if m := r.entries.Load(); m != nil {
		for _, e := range *m {
			if slices.ContainsFunc(e.options.limits, one) {
				return true
			}
		}
	}
	return false
}

// lane says where a job of a queue waits, and whether it does so for anything: a job
// that is held to nothing need not be sorted. What is no job is held to nothing but
// its queue's limits. Jobs of a class that is not known here wait by themselves: to leave them to
// others keeps nobody waiting.
func (r *registry) lane(queue string, raw []byte) (lane resque.Lane, held bool) {
	if len(r.limitsOfQueue(queue)) == 0 && r.free(plainClass(raw)) {
		return resque.Lane{Queue: queue}, false
	}
	p, err := payload.Parse(raw)
	if err != nil {
		return r.laneFor(queue, nil, err)
	}
	if r.lookup(p.Class) != nil {
		return r.laneFor(queue, &Delivery{Class: p.Class, Args: p.Args}, nil)
	}
	d, err := r.prepare(queue, raw, p)
	return r.laneFor(queue, d, err)
}

// laneFor is lane for a job that prepare has opened, with its error. d is nil for what is no job.
func (r *registry) laneFor(queue string, d *Delivery, err error) (lane resque.Lane, held bool) {
	all := r.limitsOfQueue(queue)
	var args []json.RawMessage
	if d != nil {
		args = d.Args
		if e := r.lookup(d.Class); e != nil && len(e.options.limits) > 0 {
			all = append(all[:len(all):len(all)], e.options.limits...)
		}
	}
	var unknown *UnknownClassError
	if errors.As(err, &unknown); len(all) == 0 && unknown == nil {
		return resque.Lane{Queue: queue}, false
	}
	limits := make([]resque.Limit, 0, len(all)+1)
	for _, l := range all {
		if limit, ok := l.on(args); ok {
			limit.Key = shortKey(limit.Key)
			limits = append(limits, limit)
		}
	}
	held = len(limits) > 0
	if unknown != nil {
		limits = append(limits, resque.Limit{Kind: resque.LimitUnknown, Keyed: true, Key: shortKey(unknown.Class)})
	}
	return resque.NewLane(queue, limits...), held
}

// free reports whether a class has a handler here and no limits.
func (r *registry) free(class []byte) bool {
	e := r.lookup(string(class))
	return e != nil && len(e.options.limits) == 0
}

// plainClass is the class of a payload in the form that nearly all have: the class first,
// and nothing escaped. It is nil for any other, which only parsing tells.
func plainClass(raw []byte) []byte {
	rest, ok := bytes.CutPrefix(raw, []byte(`{"class":"`))
	end := bytes.IndexByte(rest, '"')
	if !ok || end < 0 || bytes.IndexByte(raw, '\\') >= 0 || bytes.Contains(rest[end:], []byte(`"class"`)) {
		return nil // the last of several classes counts
	}
	return rest[:end:end]
}

// limitNumbers are the numbers of all limits, as Redis keeps them. The error says which
// limit was given two numbers; the first by its owner's name counts.
func (r *registry) limitNumbers() (numbers map[string]string, err error) {
	numbers = make(map[string]string)
	from := make(map[string]string)
	add := func(owner string, limits []Limit) {
		for _, l := range limits {
			if l.kind == resque.LimitNone {
				continue
			}
			spec, says := resque.Limit{Kind: l.kind, Name: l.name}.Spec(), owner+" says "+l.text()
			switch was, ok := numbers[spec]; {
			case !ok:
				numbers[spec], from[spec] = l.spec, says
			case was != l.spec && err == nil:
				err = fmt.Errorf("the limit %q was given two numbers: %s, and %s; give it the same everywhere, or two names", l.name, from[spec], says)
			}
		}
	}
	if m := r.entries.Load(); m != nil {
		for _, class := range slices.Sorted(maps.Keys(*m)) {
			add("class "+class, (*m)[class].options.limits)
		}
	}
	if m := r.queueLimits.Load(); m != nil {
		for _, queue := range slices.Sorted(maps.Keys(*m)) {
			add("queue "+queue, (*m)[queue])
		}
	}
	return numbers, err
}
