package outcome

import (
	"reflect"
	"slices"
)

// This file finds the policies of a job.

// version changes when live features come, go or change, also where one comes as another goes.
func (s *Set) version() (v uint64) {
	for _, live := range s.live {
		v = v*versions + live()
	}
	return v
}

// versions is a number by whose powers small versions add up to different sums.
const versions = 0x9E3779B97F4A7C15

// policies returns the policies of a job in the features' order. It returns nil for a plain job: of a
// known class, from its queue, of which no feature has a policy.
func (s *Set) policies(j *Job) []Policy {
	var bound *binding
	if j.Class != nil {
		bound = j.Class.bound.Load()
		if bound == nil || bound.set != s || bound.version != s.version() {
			if bound = s.bind(j.Class); j.Place == "" { // a leased one may be ended by a set beside that of the workers
				j.Class.bound.Store(bound)
			}
		}
		if j.Lane == nil && !j.Dead && !s.switched(j) {
			return bound.all
		}
	}
	return s.own(j, bound)
}

// own returns the policies of a job that has some beside those of its class, or no class.
func (s *Set) own(j *Job, bound *binding) []Policy {
	var room [32]Policy // for as many features without an allocation
	own := room[:0]     // by feature; nil where a feature has none
	if bound != nil {
		own = append(own, bound.own...)
	} else {
		own = append(own, make([]Policy, len(s.features))...)
	}
	changed := bound == nil || j.Dead
	open := func(i int) {
		if p := s.features[i].Open(j); p != nil && (changed || !same(p, own[i])) {
			own[i], changed = p, true
		}
	}
	if j.Lane != nil || j.Class == nil || j.Dead {
		for _, i := range s.open {
			open(i)
		}
	}
	for _, field := range j.Parsed.Extra {
		for _, i := range s.fields[string(field.Name)] {
			open(i)
		}
	}
	if !changed {
		return bound.all
	}
	all := s.complete(own, j.Class == nil || j.Dead)
	if all == nil {
		return nil
	}
	policies := make([]Policy, len(all)) // there are a few of many features
	copy(policies, all)
	return policies
}

// same reports whether two policies are certainly one.
func same(a, b Policy) bool { return reflect.ValueOf(a).Kind() == reflect.Pointer && a == b }

// switched reports whether a field of the payload switches a feature on.
func (s *Set) switched(j *Job) bool {
	for _, field := range j.Parsed.Extra {
		if s.fields[string(field.Name)] != nil {
			return true
		}
	}
	return false
}

// complete returns the policies without those that are nil, and those of Bind(nil) for features that
// have none. It returns nil if there are no own ones, unless it must return some. The result is in the memory of own.
func (s *Set) complete(own []Policy, must bool) []Policy {
	if !must && !slices.ContainsFunc(own, func(p Policy) bool { return p != nil }) {
		return nil
	}
	all := own[:0]
	for i, p := range own {
		if p == nil {
			p = s.rest[i]
		}
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// bind makes the policies of a class.
func (s *Set) bind(c *Class) *binding {
	b := &binding{set: s, version: s.version(), own: make([]Policy, len(s.features))}
	for i, f := range s.features {
		if f.Bind != nil {
			b.own[i] = f.Bind(c)
		}
	}
	b.all = s.complete(slices.Clone(b.own), false)
	return b
}
