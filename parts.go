package goworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Part is something a Daemon starts before it works and stops when it is done: a
// metrics server, a database pool. The daemon's own pieces are parts too:
// "lease", "records", "workers", "poller", "schedule" and "recurring", each requiring the
// ones before it.
//
// Parts start in the order of what they require and stop in reverse. A part that
// does not require "workers" or "poller", itself or through others, starts before
// the workers and outlives every job.
type Part struct {
	// Name is how other parts require this one, and how errors speak of it.
	Name string

	// Requires names the parts that must run before this one starts and until it
	// has stopped.
	Requires []string

	// Isolated says that the part also runs in the child processes of isolated jobs
	// (see Isolated), around the handler: a database pool that handlers use, not a
	// server. What it requires counts there only if it is of that kind too.
	Isolated bool

	// Start returns once the part really runs; nil means that there is nothing to
	// start. When a later part fails to start, those that did are stopped.
	Start func(ctx context.Context) error

	// Stop returns once the part has really stopped; nil means nothing to stop. It
	// is called once, and only after a Start that succeeded. All parts share the
	// context's deadline, which for those below the workers leaves a little time
	// after the shutdown timeout.
	Stop func(ctx context.Context) error
}

// sortParts orders parts so that each comes after all it requires, and otherwise
// as they were added.
func sortParts(parts []Part) ([]Part, error) {
	byName := make(map[string]Part, len(parts))
	for _, p := range parts {
		if p.Name == "" {
			return nil, errors.New("a part has no name")
		}
		if _, twice := byName[p.Name]; twice {
			return nil, fmt.Errorf("there are two parts named %q", p.Name)
		}
		byName[p.Name] = p
	}
	var sorted []Part
	placed := make(map[string]bool, len(parts))
	var place func(p Part, above []string) error
	place = func(p Part, above []string) error {
		if placed[p.Name] {
			return nil
		}
		if slices.Contains(above, p.Name) {
			return fmt.Errorf("part %q requires itself, by way of %q", p.Name, above[len(above)-1])
		}
		for _, name := range p.Requires {
			required, ok := byName[name]
			if !ok {
				return fmt.Errorf("part %q requires %q, which is not there", p.Name, name)
			}
			if err := place(required, append(above, p.Name)); err != nil {
				return err
			}
		}
		placed[p.Name] = true
		sorted = append(sorted, p)
		return nil
	}
	for _, p := range parts {
		if err := place(p, nil); err != nil {
			return nil, err
		}
	}
	return sorted, nil
}

// outliving returns the names of those parts that do not depend on any of the
// given ones: the ones that must be up while jobs run.
func outliving(parts []Part, ones ...string) []string {
	depends := make(map[string]bool)
	for _, name := range ones {
		depends[name] = true
	}
	for changed := true; changed; {
		changed = false
		for _, p := range parts {
			if !depends[p.Name] && slices.ContainsFunc(p.Requires, func(r string) bool { return depends[r] }) {
				depends[p.Name], changed = true, true
			}
		}
	}
	var names []string
	for _, p := range parts {
		if !depends[p.Name] {
			names = append(names, p.Name)
		}
	}
	return names
}

// startParts starts sorted parts, until one fails, and returns those that run.
func startParts(ctx context.Context, parts []Part) (started []Part, err error) {
	for i, p := range parts {
		if p.Start == nil {
			continue
		}
		if err := p.Start(ctx); err != nil {
			return parts[:i], fmt.Errorf("starting %s: %w", p.Name, err)
		}
	}
	return parts, nil
}

// stopParts stops sorted parts in reverse and joins their errors.
func stopParts(ctx context.Context, parts []Part) error {
	var errs []error
	for _, p := range slices.Backward(parts) {
		if p.Stop == nil {
			continue
		}
		if err := p.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// childParts returns the parts that run in a child process, sorted.
func childParts(parts []Part) ([]Part, error) {
	var kept []Part
	isKept := func(name string) bool { return slices.ContainsFunc(kept, func(p Part) bool { return p.Name == name }) }
	for _, p := range parts {
		if p.Isolated {
			kept = append(kept, p)
		}
	}
	for i, p := range kept {
		kept[i].Requires = slices.DeleteFunc(slices.Clone(p.Requires), func(name string) bool { return !isKept(name) })
	}
	return sortParts(kept)
}
