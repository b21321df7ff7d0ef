package queues

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// This file changes a list of queues that a daemon works already. What Parse would refuse is refused with the same words.

// CheckEntries returns an error for lists of which Parse would refuse an entry, and for lists without one. An exclusion may be alone.
func CheckEntries(lists []string) error {
	var q Spec
	for part := range parts(lists) {
		if err := q.add(part); err != nil {
			return err
		}
	}
	if len(q.Patterns)+len(q.excluded) == 0 {
		return errors.New("no queue is named; name at least one, as in high,low")
	}
	return nil
}

// With returns the list with the entries of other lists behind its own. An entry that it has already keeps its place, and
// takes the weight if one is given.
func (q Spec) With(lists []string) (Spec, error) {
	if err := CheckEntries(lists); err != nil {
		return Spec{}, err
	}
	q.Patterns, q.excluded = slices.Clone(q.Patterns), slices.Clone(q.excluded)
	for part := range parts(lists) {
		var one Spec
		if err := one.add(part); err != nil {
			return Spec{}, err
		}
		for _, p := range one.Patterns {
			if at := slices.IndexFunc(q.excluded, func(e string) bool { return !IsPattern(p.Name) && MatchGlob(e, p.Name) }); at >= 0 {
				return Spec{}, fmt.Errorf("the list excludes %q by %q; remove that from the list first", p.Name, "!"+q.excluded[at])
			}
			at := slices.IndexFunc(q.Patterns, func(has Queue) bool { return has.Name == p.Name })
			switch {
			case at < 0:
				q.Patterns = append(q.Patterns, p)
			case one.weighted:
				q.Patterns[at] = p
			}
		}
		for _, e := range one.excluded {
			if !slices.Contains(q.excluded, e) {
				q.excluded = append(q.excluded, e)
			}
		}
		q.weighted = q.weighted || one.weighted
	}
	return q.whole()
}

// Without returns the list without some of its entries: names, patterns, and exclusions with their exclamation mark. A weight
// behind a name is not looked at.
func (q Spec) Without(lists []string) (Spec, error) {
	if err := CheckEntries(lists); err != nil {
		return Spec{}, err
	}
	q.Patterns, q.excluded = slices.Clone(q.Patterns), slices.Clone(q.excluded)
	heavy := func(p Queue) bool { return p.weight != 1 }
	had := slices.ContainsFunc(q.Patterns, heavy)
	for part := range parts(lists) {
		var one Spec
		if err := one.add(part); err != nil {
			return Spec{}, err
		}
		for _, p := range one.Patterns {
			at := slices.IndexFunc(q.Patterns, func(has Queue) bool { return has.Name == p.Name })
			switch {
			case at >= 0:
				q.Patterns = slices.Delete(q.Patterns, at, at+1)
			case q.Works(p.Name):
				return Spec{}, fmt.Errorf("the list %q has %q by a pattern; exclude it with !%s, or remove the pattern", q.String(), p.Name, p.Name)
			default:
				return Spec{}, fmt.Errorf("the list %q has no %q", q.String(), p.Name)
			}
		}
		for _, e := range one.excluded {
			at := slices.Index(q.excluded, e)
			if at < 0 {
				return Spec{}, fmt.Errorf("the list %q has no %q", q.String(), "!"+e)
			}
			q.excluded = slices.Delete(q.excluded, at, at+1)
		}
	}
	q.weighted = q.weighted && (!had || slices.ContainsFunc(q.Patterns, heavy))
	return q.whole()
}

// whole checks a list that was changed.
func (q Spec) whole() (Spec, error) {
	q.wild = len(q.excluded) > 0 || slices.ContainsFunc(q.Patterns, func(p Queue) bool { return IsPattern(p.Name) })
	return q, q.some()
}

// String returns the list in the grammar of Parse.
func (q Spec) String() string {
	var entries []string
	for _, p := range q.Patterns {
		if q.weighted {
			entries = append(entries, fmt.Sprintf("%s=%d", p.Name, p.weight))
		} else {
			entries = append(entries, p.Name)
		}
	}
	for _, e := range q.excluded {
		entries = append(entries, "!"+e)
	}
	return strings.Join(entries, ",")
}
