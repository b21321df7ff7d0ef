package resque

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fleet is a process that renews its lease, and others whose times a test sets. Its periods are
// so long that the time a test takes does not matter.
type fleet struct {
	*wire
	now time.Time
}

const (
	longLease = time.Hour
	longGap   = 10 * time.Minute
)

func newFleet(t *testing.T) *fleet {
	w := newWire(t)
	f := &fleet{wire: w}
	for _, id := range []string{"me", "other", "third"} {
		w.must(w.s.Enter(w.c, someProcess(id), longLease, noon))
	}
	var err error
	f.now, err = w.s.Now(w.c)
	w.must(err)
	return f
}

// renewed sets the last renewal of a process.
func (f *fleet) renewed(id string, ago time.Duration) {
	f.do("ZADD", f.s.processes(), f.now.Add(longLease-ago).UnixMilli(), id)
}

// fenced sets how long ago a process was declared dead.
func (f *fleet) fenced(id string, ago time.Duration) {
	f.do("ZADD", f.s.processes(), -f.now.Add(-ago).UnixMilli(), id)
}

// pulse sets since when the fleet renews, and how long ago it last did.
func (f *fleet) pulse(since, last time.Duration) {
	f.do("SET", f.s.pulse(), fmt.Sprint(f.now.Add(-since).UnixMilli(), " ", f.now.Add(-last).UnixMilli()))
}

// dead renews a lease and returns the dead processes.
func (f *fleet) dead() []string {
	f.t.Helper()
	renewed, err := f.s.Renew(f.c, "me", longLease, longGap, nil)
	f.must(err)
	names := []string{}
	for _, l := range renewed.Dead() {
		names = append(names, l.Process)
	}
	return sorted(names)
}

func TestDead(t *testing.T) {
	t.Parallel()
	const min, day = time.Minute, 24 * time.Hour
	none := []string{}
	tests := []struct {
		name   string
		happen func(f *fleet)
		dead   []string
	}{
		{"all renew", func(f *fleet) { f.pulse(9*day, min) }, none},
		{"silent for a period while others renewed", func(f *fleet) {
			f.pulse(9*day, min)
			f.renewed("other", 61*min)
		}, []string{"other"}},
		{"silent for a little less", func(f *fleet) {
			f.pulse(9*day, min)
			f.renewed("other", 50*min)
		}, none},
		{"several", func(f *fleet) {
			f.pulse(9*day, min)
			f.renewed("other", 61*min)
			f.renewed("third", 9*day)
		}, []string{"other", "third"}},
		{"the one that asks was silent too", func(f *fleet) {
			f.pulse(9*day, min)
			f.renewed("me", 61*min)
			f.renewed("other", 61*min)
		}, []string{"other"}},
		{"its lease was removed", func(f *fleet) {
			f.pulse(9*day, min)
			f.do("ZREM", f.s.processes(), "other")
		}, none},
		{"the pulse is younger than a period", func(f *fleet) {
			f.pulse(50*min, min)
			f.renewed("other", 9*day)
		}, none},
		{"a gap in the pulse: Redis stood still", func(f *fleet) {
			f.pulse(9*day, 11*min)
			f.renewed("other", 61*min)
		}, none},
		{"the clock went ahead by a day", func(f *fleet) {
			f.pulse(9*day, day)
			f.renewed("other", day)
			f.renewed("third", day+9*min)
		}, none},
		{"the clock went back by a day", func(f *fleet) {
			f.pulse(-23*60*min, -day)
			f.renewed("other", -day)
			f.renewed("third", 61*min-day)
		}, none},
		{"the clock went back a period ago", func(f *fleet) {
			f.pulse(61*min, min)
			f.renewed("other", -day)
			f.renewed("third", 50*min)
		}, []string{"other"}},
		{"fenced a while ago", func(f *fleet) { f.fenced("other", min) }, []string{"other"}},
		{"fenced before the clock went back", func(f *fleet) { f.fenced("other", -min) }, []string{"other"}},
		{"fenced by an older release", func(f *fleet) { f.do("ZADD", f.s.processes(), -1, "other") }, []string{"other"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			tt.happen(f)
			w, before := f.wire, f.now.UnixMilli()
			w.same("dead", tt.dead, f.dead())
			if r, err := f.s.Renew(f.c, "me", longLease, longGap, nil); err != nil || r.now < before || r.since > r.now {
				t.Errorf("the pulse is %+v, %v", r, err)
			}
		})
	}
}

// A process that was just fenced is left to its reaper.
func TestDeadAfterAFence(t *testing.T) {
	t.Parallel()
	for ago, want := range map[time.Duration]int{0: 0, fencedGrace - time.Millisecond: 0, fencedGrace: 1, -time.Millisecond: 1} {
		r := Renewed{now: noon.UnixMilli(), Late: []Lease{{"p", strconv.FormatInt(-noon.Add(-ago).UnixMilli(), 10)}}}
		if got := len(r.Dead()); got != want {
			t.Errorf("fenced %v ago: %d dead, want %d", ago, got, want)
		}
	}
}

// With any text in the pulse, or none, no process is found dead, and from then on the pulse is
// right.
func TestPulseHeals(t *testing.T) {
	t.Parallel()
	future := time.Now().Add(24 * time.Hour).UnixMilli()
	for name, spoil := range map[string]func(f *fleet){
		"none":       func(*fleet) {},
		"removed":    func(f *fleet) { f.pulse(9*time.Hour, 0); f.do("DEL", f.s.pulse()) },
		"a list":     func(f *fleet) { f.do("RPUSH", f.s.pulse(), "1 2") },
		"no numbers": func(f *fleet) { f.do("SET", f.s.pulse(), "x y") },
		"one number": func(f *fleet) { f.do("SET", f.s.pulse(), "1") },
		"negative":   func(f *fleet) { f.do("SET", f.s.pulse(), "-1 -1") },
		"huge":       func(f *fleet) { f.do("SET", f.s.pulse(), "99999999999999999999999 99999999999999999999999") },
		"begins after it ended": func(f *fleet) {
			f.do("SET", f.s.pulse(), fmt.Sprint(future, " ", f.now.UnixMilli()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			w := f.wire
			f.do("DEL", f.s.pulse())
			spoil(f)
			f.renewed("other", 9*time.Hour)
			w.same("dead", []string{}, f.dead())
			text := w.server.Text(t, "GET", w.s.pulse())
			parts := regexp.MustCompile(`^(\d{13}) (\d{13})$`).FindStringSubmatch(text)
			if parts == nil || parts[1] > parts[2] || parts[1] < strconv.FormatInt(f.now.UnixMilli(), 10) {
				t.Fatalf("the pulse is %q", text)
			}
			w.same("dead while the pulse is young", []string{}, f.dead())
			since, _, _ := strings.Cut(w.server.Text(t, "GET", w.s.pulse()), " ")
			w.same("since when", parts[1], since)
		})
	}
}
