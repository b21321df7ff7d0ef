package view

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
)

var update = flag.Bool("update", false, "write the golden files")

func exactly(n int64) inspect.Count { return inspect.Count{N: n, Bound: inspect.Exact} }

func persec(r float64) inspect.Rate { return inspect.Rate{PerSecond: r, Bound: inspect.Exact} }

// fleet is a status of a fleet that works, with each kind of number.
func fleet() Status {
	age := func(d time.Duration, m inspect.Method) inspect.Age { return inspect.Age{For: d, Method: m} }
	s := inspect.Sample{
		At: time.Date(2026, 11, 22, 12, 4, 31, 0, time.UTC), Namespace: "resque:",
		Servers:   []inspect.SampleServer{{Name: "redis://:***@redis-1:6379/0", Version: "7.0.15", Role: "master", Policy: "noeviction", Persistence: "aof", Memory: 3 << 30, MaxMemory: 8 << 30}},
		Processed: exactly(41204118), Failed: exactly(1204), Waiting: exactly(13369), Delayed: exactly(912), Retrying: inspect.Count{N: 38, Bound: inspect.AtMost},
		Failures: exactly(1204), QueueCount: exactly(7), Leased: exactly(12), Late: age(11*time.Minute, inspect.AgeExact),
		Workers:   inspect.SampleWorkers{All: exactly(170), Go: exactly(150), Other: exactly(20), Busy: exactly(131), Looked: 170},
		Processes: scaled(6), Servings: make([]inspect.SampleTaker, 2), Stuck: make([]inspect.StuckJob, 1),
		Queues: []inspect.SampleQueue{
			{Name: "legacy", Waiting: exactly(912), Oldest: age(723*time.Second, inspect.AgeExact), Other: exactly(20), Go: exactly(0), HTTP: exactly(0)},
			{Name: "mail", Waiting: exactly(12408), Oldest: age(250*time.Second, inspect.AgeCounted), Go: exactly(100), Other: exactly(0), HTTP: exactly(0)},
			{Name: "nobody's", Waiting: exactly(1), Go: exactly(0), Other: exactly(0), HTTP: exactly(0)},
			{Name: "payments", Waiting: exactly(0), Go: exactly(50), Other: exactly(0), HTTP: exactly(0)},
			{Name: "reports", Waiting: exactly(37), Oldest: age(2*time.Hour, inspect.AgeSeen), Paused: true, Go: exactly(100), Other: exactly(0), HTTP: exactly(0)},
			{Name: "shop.orders", Waiting: inspect.Count{N: 12, Bound: inspect.AtLeast}, Oldest: age(1400*time.Millisecond, inspect.AgeExact), HTTP: exactly(2), Go: exactly(0), Other: inspect.Count{}},
			{Name: "\x1b[2Ja name so long that it cannot stand in eighty columns beside all of its numbers", Waiting: exactly(0), Go: exactly(0), Other: exactly(0), HTTP: exactly(0)},
		},
	}
	return Status{
		Sample: s,
		Rates: &inspect.Rates{For: 2 * time.Second, Processed: persec(312), Failed: persec(4.0 / 60), Queues: map[string]inspect.QueueRates{
			"legacy": {In: persec(4), Out: persec(8.2), EmptyIn: 217 * time.Second}, "mail": {In: persec(80), Out: persec(61), Never: true},
			"payments": {In: persec(12), Out: persec(12)}, "reports": {In: persec(0.1), Out: persec(0)},
			"shop.orders": {In: inspect.Rate{PerSecond: 9, Bound: inspect.AtLeast}, Growth: persec(0)},
		}},
		Alarms: []Alarm{{Text: "mail grows; its 100 workers are 98 % busy: start more processes"}, {Text: "queue nobody's waits", Command: `goworker queues resume -- 'nobody'\''s' and-so-on-until-it-is-longer-than-a-line`}, {Text: "Resize is stuck in web-2:811:9c1f for 41m: its handler runs on after its time limit", Error: true}},
	}
}

// scaled are so many processes, of which all but the first two scale by themselves.
func scaled(n int) []inspect.SampleProcess {
	all := make([]inspect.SampleProcess, n)
	for i := range all[2:] {
		p := &all[2+i]
		p.ID = fmt.Sprintf("web-%d:%d:be04\x1b[2J", i, 700+i)
		p.Vitals = inspect.Vitals{Workers: 22, Autoscale: inspect.Autoscale{Min: 5, Max: 50, Reason: "saturated: 33 did no more than 22"}}
	}
	return all
}

// crowd is a status of many queues, seen from an old sample.
func crowd() Status {
	s := Status{Failed: "redis: nothing listens at redis-1:6379", Cursor: true, Chosen: "queue-250", Prompt: "? keys  q quit"}
	s.Sample.Refused = []error{errors.New("reading queue odd: it holds another type")}
	for n := range 500 {
		s.Sample.Queues = append(s.Sample.Queues, inspect.SampleQueue{Name: fmt.Sprintf("queue-%03d", n), Waiting: exactly(int64(n))})
	}
	for range 20 {
		s.Alarms = append(s.Alarms, Alarm{Text: "a queue grows"})
	}
	return s
}

// A frame is what its golden file has, and has no more cells and lines than there is room for.
func TestFrame(t *testing.T) {
	t.Parallel()
	onlyName, empty, byWaiting := fleet(), Status{}, fleet()
	onlyName.Filter, onlyName.Rates = "o", nil
	byWaiting.Order, byWaiting.Cursor, byWaiting.Chosen = ByWaiting, true, "reports"
	empty.Sample.PausedAll = true
	for _, tt := range []struct {
		name          string
		status        Status
		width, height int
	}{
		{"fleet", fleet(), 80, 0}, {"fleet-wide", fleet(), 200, 0}, {"fleet-uncut", fleet(), 0, 0}, {"fleet-screen", byWaiting, 80, 24}, {"fleet-small", byWaiting, 60, 12},
		{"filtered", onlyName, 80, 0}, {"empty", empty, 80, 24}, {"crowd", crowd(), 80, 24}, {"crowd-large", crowd(), 200, 50},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Frame(tt.status, tt.width, tt.height)
			lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
			if tt.height > 0 && len(lines) > tt.height {
				t.Errorf("%d lines, and there is room for %d", len(lines), tt.height)
			}
			for _, line := range lines {
				if tt.width > 0 && Width(line) > tt.width && !strings.HasPrefix(line, "  goworker ") { // a command is not broken
					t.Errorf("%d cells: %s", Width(line), line)
				}
			}
			if strings.Contains(got, "\x1b") {
				t.Error("a name reached the terminal as it is")
			}
			file := filepath.Join("testdata", tt.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || got != string(want) {
				t.Errorf("%s, %v, differs; go test -update writes it. It is now\n%s", file, err, got)
			}
		})
	}
}

// At any size a frame fits, and with colours it has the same cells.
func TestFrameFits(t *testing.T) {
	t.Parallel()
	for _, s := range []Status{fleet(), crowd()} {
		for width := 20; width < 160; width += 7 {
			for height := 12; height < 60; height += 5 {
				s.Colour = height%2 == 0
				lines := strings.Split(strings.TrimSuffix(Frame(s, width, height), "\n"), "\n")
				if len(lines) > height {
					t.Errorf("%d×%d: %d lines", width, height, len(lines))
				}
				for _, line := range lines {
					if Width(line) > max(width, 78) { // the columns of numbers are not cut
						t.Errorf("%d×%d: %d cells: %s", width, height, Width(line), line)
					}
				}
			}
		}
	}
}
