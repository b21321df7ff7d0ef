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
	"log/slog"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/recurring"
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
// It logs a warning, to slog's default logger, of each key that no scheduler reads: quue, or Cron.
//
// The error names each entry that LoadFile cannot read. It schedules the others, unless the
// file is no YAML.
func LoadFile(to Scheduler, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return prefix.Errorf("reading the schedule: %w", err)
	}
	entries, passedOver, err := parse(text, os.Getenv("RAILS_ENV"))
	errs := []error{prefix.Of(err)}
	for _, k := range passedOver {
		slog.Warn("a schedule has a key that no scheduler reads", "file", path, "line", k.line, "schedule", k.entry, "key", k.name)
	}
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
	entries, _, err := parse(text, environment)
	return entries, prefix.Of(err)
}

// key is a key of an entry that is not read.
type key struct {
	entry, name string
	line        int
}

// parse also returns the keys that are passed over.
func parse(text []byte, environment string) (entries []Entry, passedOver []key, err error) {
	var file yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, nil, err
	}
	if file.IsZero() {
		return nil, nil, nil // an empty file
	}
	source := reader{left: maxNodes}
	all, err := source.pairs(file.Content[0])
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, p := range all {
		var r goworker.Recurring
		text, err := source.json(p.value)
		if err == nil {
			err = r.UnmarshalJSON(text)
		}
		switch {
		case errors.Is(err, errTooLarge):
			return entries, nil, errors.Join(append(errs, err)...)
		case err != nil:
			errs = append(errs, fmt.Errorf("entry %s, line %d: %w", p.name, p.value.Line, err))
			continue
		case r.Cron == "" && r.Every == 0: // in the file only to be run by hand, or to be merged into others
			passedOver = append(passedOver, unread(p, true)...)
			continue
		case r.Environments != nil && !slices.Contains(r.Environments, environment):
			continue
		}
		r.Shared = true
		passedOver = append(passedOver, unread(p, false)...)
		entries = append(entries, Entry{Name: p.name, Recurring: r})
	}
	return entries, passedOver, errors.Join(errs...)
}

// unread returns the keys of an entry that no scheduler reads. With misspelled it returns only those that
// would be read in lower case.
func unread(entry pair, misspelled bool) (keys []key) {
	again := reader{left: maxNodes} // the entry was read before
	all, _ := again.pairs(entry.value)
	for _, p := range all {
		if !slices.Contains(recurring.Fields, p.name) && (!misspelled || slices.Contains(recurring.Fields, strings.ToLower(p.name))) {
			keys = append(keys, key{entry.name, p.name, p.value.Line})
		}
	}
	return keys
}
