package workflow

import (
	"fmt"
	"strconv"

	"github.com/goworker/goworker/internal/payload"
)

// check checks what a step takes that its job does not say. own is how many arguments the job has, -1 if that is not known.
func (c *compiler) check(s *step, own int) error {
	if s.Spread && s.mode == 'v' {
		switch v := s.takes[0]; {
		case len(s.takes) > 1 || v.step != nil:
			return fmt.Errorf("%s has Spread, but what comes before it is no group; leave it out", s)
		case v.rest != nil:
			return fmt.Errorf("%s has Spread, but nobody knows how many results a GroupSeq has; take them as a list", s)
		case v.collect || v.stands != nil:
			return fmt.Errorf("%s has Spread, but the group before it has Collect or Ignore, so a failure may be in the list's place; take them as a list", s)
		}
	}
	if s.Inline && s.mode == 'v' && len(s.takes) == 1 && s.takes[0].rest != nil {
		return fmt.Errorf("%s has Inline, but nobody knows how many results a GroupSeq has; take them as goworker.Results", s)
	}
	if (s.Inline || s.Spread) && s.mode == 'v' {
		if n := leaves(s.takes); n > mostValues {
			return fmt.Errorf("%s would be given %d results as values, and at most %d are; take them as goworker.Results, without Inline and Spread", s, n, mostValues)
		}
	}
	if s.mode == 'v' {
		for _, v := range s.takes {
			if depth := v.depth(); depth > mostNested {
				return fmt.Errorf("%s gets lists in lists, %d levels of them, and a job's arguments have at most %d", s, depth, mostNested)
			}
		}
	}
	if !s.Known || own < 0 {
		return nil
	}
	given, from, exact := s.gets()
	if err := s.count(own, given, from, exact); err != nil {
		return err
	}
	for i, g := range given {
		to := s.param(own + i)
		if to == nil || fits(g, to) {
			continue
		}
		return fmt.Errorf("%s takes %s as argument %d; %s adds %s, which JSON cannot make that of", s, to, own+i+1, from[i], g)
	}
	return nil
}

// mostNested is how many lists are in each other in an argument: the payload around it nests, too.
const mostNested = payload.MaxDepth - 8

// mostValues is how many results a step is given as values: the script that sends it reads all of them.
const mostValues = 1 << 16

// leaves is how many results values have.
func leaves(values []*value) (n int) {
	for len(values) > 0 {
		var next []*value
		for _, v := range values {
			if v.step != nil {
				n++
			}
			next = append(next, v.items...)
		}
		values = next
	}
	return n
}

// mostLists is how many are in each other in the result of a workflow.
const mostLists = 5000

// depth is how many lists are in each other.
func (v *value) depth() int {
	deepest, level := 0, []*value{v}
	for len(level) > 0 {
		var next []*value
		list := false
		for _, of := range level {
			list = list || of.step == nil
			next = append(next, of.items...)
		}
		if list {
			deepest++
		}
		level = next
	}
	return deepest
}

// gets returns the kinds of the arguments that a step is given, and from where each comes. exact: there are no more or fewer.
func (s *step) gets() (given []*kind, from []string, exact bool) {
	if s.mode == 'e' {
		return []*kind{{object: true, name: "a StepFailure"}}, []string{"its call"}, true
	}
	if s.mode != 'v' {
		return nil, nil, true
	}
	for _, v := range s.spread() {
		if v.step == nil {
			given, from = append(given, v.kind()), append(from, v.source())
			continue
		}
		b := v.step
		if !b.Known && b.External == 0 {
			return given, from, false
		}
		if b.borne != unborne || b.as != nil && b.as.bears { // null in the place of any number of results
			if len(b.Results) != 1 || b.External != 0 {
				return given, from, false
			}
		}
		if b.External != 0 {
			given, from = append(given, &kind{}), append(from, b.String())
			continue
		}
		for _, r := range b.Results {
			given, from = append(given, &kind{typ: r}), append(from, b.String())
		}
	}
	return given, from, true
}

// source names a list in sentences.
func (v *value) source() string {
	for of := v; ; of = of.items[0] {
		if of.step != nil {
			return "the group of " + of.step.String()
		}
		if len(of.items) == 0 {
			return "the group before it"
		}
	}
}

// param is the type that takes an argument, nil if none does.
func (s *step) param(i int) paramType {
	switch last := len(s.Params) - 1; {
	case i <= last:
		return s.Params[i]
	case s.Variadic && last >= 0:
		return s.Params[last]
	}
	return nil
}

// count checks how many arguments a step has.
func (s *step) count(own int, given []*kind, from []string, exact bool) error {
	takes, most := len(s.Params), "takes "+arguments(len(s.Params))
	if s.Variadic {
		takes--
		most = "takes at least " + arguments(takes)
	}
	total := own + len(given)
	if total == takes || total < takes && !exact || total > takes && s.Variadic {
		return nil
	}
	if len(given) == 0 {
		if own == 1 && takes == 0 {
			return nil // PHP's clients write [null] for no arguments
		}
		return fmt.Errorf("%s %s; its job has %d", s, most, own)
	}
	if len(given) == 1 {
		return fmt.Errorf("%s %s; %s adds %s to the %d it has", s, most, from[0], given[0], own)
	}
	return fmt.Errorf("%s %s; %s adds %d to the %d it has", s, most, from[0], len(given), own)
}

func arguments(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return strconv.Itoa(n) + " arguments"
}
