package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

// drainToRuby moves what only goworker reads into keys that Ruby reads.
func (p *program) drainToRuby() *cobra.Command {
	var now bool
	c := p.changes(&cobra.Command{
		Use: "drain-to-ruby", Short: "Move jobs that only goworker reads to where Ruby's workers read", Args: noArguments,
		Long: "drain-to-ruby takes a fleet back to Ruby: jobs in lanes, with clients over HTTP, in goworker's own schedule and of dead processes go to the queues and\n" +
			"schedules that Ruby reads; locks, limits and other keys that hold no job are removed. Stop all goworker processes and HTTP servers first: while one lives it does\n" +
			"nothing. It moves at most 500 jobs in one step. Where it ends early, no job is lost or doubled, and run again it goes on.",
	}, func(ctx context.Context, o *operator, _ []string) error {
		opts := []goworker.DrainOption{goworker.DrainDryRun()}
		if now {
			opts = append(opts, goworker.DrainNow())
		}
		report, err := o.client().DrainToResque(ctx, opts...)
		if err != nil || o.dryRun {
			return o.drained(report, err, true)
		}
		asked := plan{Sentence: "take this fleet back to Ruby", Count: int64(moved(report)), Notes: drainLines(report, true), Type: "ruby"}
		if ok, err := o.confirm(ctx, asked); !ok {
			return err
		}
		report, err = o.client().DrainToResque(ctx, opts[1:]...)
		for _, door := range o.in.Doors() {
			err = door.Record(ctx, "DrainToResque", "the fleet goes back to Ruby", int64(moved(report)), err)
		}
		return o.drained(report, err, false)
	})
	c.Flags().BoolVar(&now, "now", false, "delayed jobs go to their queues at once, for a fleet without resque-scheduler")
	return c
}

// moved is how many jobs a drain moves.
func moved(r inspect.DrainReport) int {
	return r.Requeued + r.Failed + r.Lanes + r.Groups + r.Delayed + r.Queued + r.Kept + r.Own
}

// drained prints the report of a drain, and what follows from it.
func (o *operator) drained(r inspect.DrainReport, err error, dry bool) error {
	if o.json {
		if err := o.print(drainObject(r, dry), ""); err != nil {
			return err
		}
	} else {
		for _, line := range drainLines(r, dry) {
			if _, err := io.WriteString(o.out, view.Text(line)+"\n"); err != nil {
				return err
			}
		}
	}
	switch {
	case errors.Is(err, goworker.ErrProcessesAlive):
		return exitError{exitFailed, err}
	case err != nil:
		return err
	case len(r.Left) > 0:
		return partly("%s of goworker's keys is left: Ruby does not read what is in there", view.Plural(int64(len(r.Left)), "part"))
	}
	return nil
}

// drainLines says what a drain does or did.
func drainLines(r inspect.DrainReport, dry bool) (lines []string) {
	add := func(n int, noun, more, where string) {
		verb := "went"
		switch {
		case dry && n == 1:
			verb = "goes"
		case dry:
			verb = "go"
		}
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%s%s %s %s", view.Plural(int64(n), noun), more, verb, where))
		}
	}
	add(len(r.Dead), "daemon", " found dead", "out of the fleet")
	add(r.Requeued, "job", "", "back to their queues: those of dead processes, and of clients over HTTP")
	add(r.Failed, "job", "", "to the failures: those of dead processes that have been recovered too often")
	add(r.Lanes, "job", "", "from lanes to the heads of their queues")
	add(r.Groups, "job", "", "from groups to their queues")
	add(r.Delayed, "delayed job", "", "to resque-scheduler's schedule")
	for _, name := range slices.Sorted(maps.Keys(r.Dropped)) {
		lines = append(lines, fmt.Sprintf("  of these %s lose their %s", view.Count(int64(r.Dropped[name])), name))
	}
	add(r.Queued, "delayed job", "", "to their queues")
	add(r.Kept, "payload", " that had been kept", "to their queues")
	add(r.Own, "job", " of MessagePack queues", "to the queues of the same names, as JSON")
	for _, name := range slices.Sorted(maps.Keys(r.Ignored)) {
		lines = append(lines, fmt.Sprintf("  %s keep their %s, and Ruby passes over it", view.Count(int64(r.Ignored[name])), name))
	}
	add(r.Locks, "lock", "", "away")
	add(r.Removed, "key", " without jobs", "away")
	for _, l := range r.Left {
		jobs := ""
		if l.Jobs > 0 {
			jobs = view.Plural(int64(l.Jobs), "job") + ": "
		}
		lines = append(lines, "left: "+l.Key+": "+jobs+l.Why)
	}
	for _, n := range r.Notes {
		lines = append(lines, "note: "+strings.ReplaceAll(n, "drain with DrainNow", "drain with --now"))
	}
	for _, a := range r.Alive {
		lines = append(lines, "alive: "+a)
	}
	if len(lines) == 0 {
		lines = []string{"nothing is in goworker's keys that Ruby does not read"}
	}
	return lines
}

// drainObject is the report in JSON.
func drainObject(r inspect.DrainReport, dry bool) view.Object {
	fields := func(of map[string]int) view.Object {
		o := view.Object{}
		for _, name := range slices.Sorted(maps.Keys(of)) {
			o = o.With(name, of[name])
		}
		return o
	}
	left := make([]view.Object, 0, len(r.Left))
	for _, l := range r.Left {
		left = append(left, view.Object{{Key: "key", Value: l.Key}, {Key: "jobs", Value: l.Jobs}, {Key: "why", Value: l.Why}})
	}
	return view.Object{
		{Key: "dry_run", Value: dry}, {Key: "dead", Value: r.Dead}, {Key: "requeued", Value: r.Requeued}, {Key: "failed", Value: r.Failed}, {Key: "lanes", Value: r.Lanes},
		{Key: "groups", Value: r.Groups}, {Key: "delayed", Value: r.Delayed}, {Key: "queued", Value: r.Queued}, {Key: "kept", Value: r.Kept}, {Key: "own", Value: r.Own},
		{Key: "locks", Value: r.Locks}, {Key: "removed", Value: r.Removed}, {Key: "dropped", Value: fields(r.Dropped)}, {Key: "ignored", Value: fields(r.Ignored)},
		{Key: "left", Value: left}, {Key: "notes", Value: r.Notes}, {Key: "alive", Value: r.Alive}, {Key: "stopped_at", Value: r.StoppedAt},
	}
}
