package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/schedule"
)

// mostFile is how many bytes of the file of schedules are read.
const mostFile = 4 << 20

// Diff is a difference between the file of schedules and Redis.
type Diff struct {
	Name   string   `json:"name"`
	What   string   `json:"what"`
	Fields []string `json:"fields,omitempty"` // those in which an entry differs
}

// Changed are the differences of schedules that are in the file.
func (l *List) Changed() []Diff {
	return slices.DeleteFunc(slices.Clone(l.Diffs), func(d Diff) bool { return d.What == inspect.OnlyInRedis })
}

// Extra are the schedules that are not in the file.
func (l *List) Extra() []Diff {
	return slices.DeleteFunc(slices.Clone(l.Diffs), func(d Diff) bool { return d.What != inspect.OnlyInRedis })
}

// compare fills in where Redis differs from the file of Options.ScheduleFile. The file is read each ten seconds at most.
func (l *List) compare(ctx context.Context, a *site.Ask) {
	diffs, err := site.Keep(ctx, a.Fleet, "schedule file", 10*time.Second, func(ctx context.Context) ([]inspect.ScheduleDiff, error) {
		entries, err := read(a.Schedule, cmp.Or(a.Name, os.Getenv("RAILS_ENV")))
		if err != nil {
			return nil, err
		}
		return a.In().DiffSchedules(ctx, entries)
	})
	if err != nil {
		l.FileError = a.Masks.Text(strings.TrimPrefix(err.Error(), "goworker: "))
	}
	for _, d := range diffs {
		l.Diffs = append(l.Diffs, Diff{d.Name, d.What, d.Fields})
	}
}

// read reads the entries of a file for an environment.
func read(path, environment string) (map[string]json.RawMessage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	if err == nil && len(text) > mostFile {
		err = fmt.Errorf("%s has more than %d MiB", path, mostFile>>20)
	}
	if err != nil {
		return nil, err
	}
	all, err := schedule.Parse(text, environment)
	if err != nil {
		return nil, err
	}
	entries := make(map[string]json.RawMessage, len(all))
	for _, e := range all {
		if entries[e.Name], err = e.Recurring.MarshalJSON(); err != nil {
			return nil, err
		}
	}
	return entries, nil
}
