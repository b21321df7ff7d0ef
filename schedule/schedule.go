// Package schedule reads recurring schedules from the YAML file of resque-scheduler:
//
//	nightly_report:
//	  cron: "0 3 * * * Europe/Berlin"
//	  class: NightlyReport
//	  queue: reports
//	  args: [all, {format: pdf}]
//	  description: the figures of the day
//
// It is a package of its own so that programs without such a file link no YAML.
package schedule

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/prefix"
)

// Scheduler accepts schedules: a *goworker.Daemon, such as goworker.Default().
type Scheduler interface {
	Schedule(name string, r goworker.Recurring) error
}

// Entry is one schedule of a file.
type Entry struct {
	Name      string
	Recurring goworker.Recurring
}

// LoadFile schedules the entries of a file, as resque-scheduler's "Resque.schedule =
// YAML.load_file(path)" does. It skips entries with a rails_env or env that does not name
// RAILS_ENV, and entries with neither cron nor every. Ruby schedulers that have read the same
// file fire the entries while they hold their lock, and daemons while none does.
//
// The error names each entry that LoadFile cannot read. It schedules the others, unless the
// file is no YAML.
func LoadFile(to Scheduler, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return prefix.Errorf("reading the schedule: %w", err)
	}
	entries, err := Parse(text, os.Getenv("RAILS_ENV"))
	errs := []error{err}
	for _, e := range entries {
		errs = append(errs, to.Schedule(e.Name, e.Recurring))
	}
	if err := errors.Join(errs...); err != nil {
		return prefix.Errorf("schedule %s: %w", path, err)
	}
	return nil
}

// Parse reads the entries for an environment, in the order of the
// file, and an error that names those it cannot read.
func Parse(text []byte, environment string) ([]Entry, error) {
	var file yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, prefix.Of(err)
	}
	if file.IsZero() {
		return nil, nil // an empty file
	}
	source := reader{left: maxNodes}
	all, err := source.pairs(file.Content[0])
	if err != nil {
		return nil, prefix.Of(err)
	}
	var entries []Entry
	var errs []error
	for _, p := range all {
		var r goworker.Recurring
		text, err := source.json(p.value)
		if err == nil {
			err = r.UnmarshalJSON(text)
		}
		switch {
		case errors.Is(err, errTooLarge):
			return entries, prefix.Of(errors.Join(append(errs, err)...))
		case err != nil:
			errs = append(errs, fmt.Errorf("entry %s, line %d: %w", p.name, p.value.Line, err))
			continue
		case r.Cron == "" && r.Every == 0: // in the file only to be run by hand
			continue
		case r.Environments != nil && !slices.Contains(r.Environments, environment):
			continue
		}
		r.Shared = true
		entries = append(entries, Entry{Name: p.name, Recurring: r})
	}
	return entries, prefix.Of(errors.Join(errs...))
}
