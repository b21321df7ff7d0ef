package cron

import (
	"archive/zip"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func load(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func mustParse(t testing.TB, text string, zone *time.Location) *Cron {
	t.Helper()
	c, err := Parse(text, zone, Gem{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ticks are those in (from, to].
func ticks(c *Cron, from, to time.Time) (all []time.Time) {
	for at := c.Next(from); !at.IsZero() && !at.After(to); at = c.Next(at) {
		all = append(all, at)
	}
	return all
}

// The days on which clocks are set, one by one.
func TestDaysOfClockChanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		zone, day, cron string
		want            string // the times of that day, or how many there are
	}{
		{"Europe/Berlin", "2026-03-29", "30 2 * * *", "03:00+0200"},
		{"Europe/Berlin", "2026-03-29", "*/10 2 * * *", "03:00+0200"},
		{"Europe/Berlin", "2026-03-29", "0 3 * * *", "03:00+0200"},
		{"Europe/Berlin", "2026-03-29", "0 2,3 * * *", "03:00+0200"},
		{"Europe/Berlin", "2026-03-29", "0 * * * *", "23"},
		{"Europe/Berlin", "2026-03-29", "* * * * *", "1380"},
		{"Europe/Berlin", "2026-03-29", "0 */2 * * *", "12"},
		{"Europe/Berlin", "2026-10-25", "30 2 * * *", "02:30+0200"},
		{"Europe/Berlin", "2026-10-25", "0 3 * * *", "03:00+0100"},
		{"Europe/Berlin", "2026-10-25", "0 * * * *", "25"},
		{"Europe/Berlin", "2026-10-25", "* * * * *", "1500"},
		{"Europe/Berlin", "2026-10-25", "0 * * * * *", "1500"},
		{"America/New_York", "2026-03-08", "30 2 * * *", "03:00-0400"},
		{"America/New_York", "2026-11-01", "30 1 * * *", "01:30-0400"},
		{"America/New_York", "2026-11-01", "0 * * * *", "25"},
		{"Australia/Lord_Howe", "2026-10-04", "15 2 * * *", "02:30+1100"},
		{"Australia/Lord_Howe", "2026-10-04", "30 2 * * *", "02:30+1100"},
		{"Australia/Lord_Howe", "2026-10-04", "* * * * *", "1410"},
		{"Australia/Lord_Howe", "2026-04-05", "45 1 * * *", "01:45+1100"},
		{"Australia/Lord_Howe", "2026-04-05", "* * * * *", "1470"},
		{"America/Sao_Paulo", "2018-11-04", "0 0 * * *", "01:00-0200"},
		{"America/Sao_Paulo", "2018-11-04", "0 * * * *", "23"},
		{"America/Sao_Paulo", "2018-02-17", "30 23 * * *", "23:30-0200"},
		{"Asia/Beirut", "2026-03-29", "0 0 * * *", "01:00+0300"},
		{"Asia/Beirut", "2026-10-24", "30 23 * * *", "23:30+0300"},
		{"Africa/Cairo", "2026-04-24", "30 0 * * *", "01:00+0300"},
		{"Africa/Cairo", "2026-10-29", "30 23 * * *", "23:30+0300"},
		{"Africa/Cairo", "2026-10-29", "* * * * *", "1500"},
		{"Pacific/Apia", "2011-12-31", "0 10 * * *", "00:00+1400 10:00+1400"}, // the 30th was left out
		{"UTC", "2026-03-29", "30 2 * * *", "02:30+0000"},
	} {
		zone := load(t, tt.zone)
		c := mustParse(t, tt.cron, zone)
		noon, _ := time.ParseInLocation("2006-01-02 15", tt.day+" 12", zone)
		var got []string
		for _, tick := range ticks(c, noon.Add(-40*time.Hour), noon.Add(40*time.Hour)) {
			if tick.Format(time.DateOnly) == tt.day {
				got = append(got, tick.Format("15:04-0700"))
			}
		}
		if !strings.Contains(tt.want, ":") {
			if want := tt.want; want != itoa(len(got)) {
				t.Errorf("%s %s %q: %d ticks, want %s", tt.zone, tt.day, tt.cron, len(got), want)
			}
			continue
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s %s %q ticks at %q, want %q", tt.zone, tt.day, tt.cron, s, tt.want)
		}
	}
}

// Around the end of a leap year, for which a zone has a rule and no table: on most systems
// that begins in 2038, and with time/tzdata long ago.
func TestEndOfLeapYear(t *testing.T) {
	t.Parallel()
	berlin := load(t, "Europe/Berlin")
	from := time.Date(2044, 12, 30, 12, 0, 0, 0, berlin)
	for text, want := range map[string]int{"0 * * * *": 96, "0 0 * * *": 4, "30 23 * * *": 4, "0 0 1 1 *": 1} {
		if got := ticks(mustParse(t, text, berlin), from, from.AddDate(0, 0, 4)); len(got) != want {
			t.Errorf("%q ticks %d times in four days, want %d: %v", text, len(got), want, got)
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// TestEveryZone compares with what a clock on the wall shows, minute by minute, around
// each change of several years in each zone that Go knows.
func TestEveryZone(t *testing.T) {
	t.Parallel()
	crons := []struct {
		text  string
		flows bool
		means func(face time.Time) bool
	}{
		{"* * * * *", true, func(time.Time) bool { return true }},
		{"0 * * * *", true, func(f time.Time) bool { return f.Minute() == 0 }},
		{"*/20 * * * *", true, func(f time.Time) bool { return f.Minute()%20 == 0 }},
		{"0 0 * * *", false, func(f time.Time) bool { return f.Hour() == 0 && f.Minute() == 0 }},
		{"30 2 * * *", false, func(f time.Time) bool { return f.Hour() == 2 && f.Minute() == 30 }},
		{"*/15 0-3 * * *", false, func(f time.Time) bool { return f.Hour() < 4 && f.Minute()%15 == 0 }},
		{"45 23 * * mon-sat", false, func(f time.Time) bool { return f.Hour() == 23 && f.Minute() == 45 && f.Weekday() > 0 }},
		{"59 */3 * * *", false, func(f time.Time) bool { return f.Hour()%3 == 0 && f.Minute() == 59 }},
	}
	years := []int{1985, 2011, 2018, 2024, 2026}
	if testing.Short() {
		years = years[3:]
	}
	seen := make(map[string]bool)
	changes, compared := 0, 0
	for _, name := range zoneNames(t) {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, year := range years {
			at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).In(zone)
			for at.Year() <= year {
				_, end := at.ZoneBounds()
				if end.IsZero() || end.In(zone).Year() > year {
					break
				}
				_, before := end.Add(-time.Second).In(zone).Zone()
				_, after := end.In(zone).Zone()
				at = end.In(zone)
				key := end.UTC().String() + itoa(before) + itoa(after)
				if before == after || before%60 != 0 || after%60 != 0 || end.Unix()%60 != 0 || seen[key] {
					continue // links of one zone are seen once
				}
				seen[key] = true
				changes++
				for _, cron := range crons {
					around := 27 * time.Hour
					if cron.flows {
						around = 3 * time.Hour
					}
					from, to := end.Add(-around), end.Add(around)
					want := onTheWall(zone, from, to, cron.flows, cron.means)
					got := ticks(mustParse(t, cron.text, zone), from, to)
					compared += len(want)
					if !slices.EqualFunc(got, want, time.Time.Equal) {
						t.Errorf("%s %q around %v: %d ticks, want %d\n got %v\nwant %v", name, cron.text, end.In(zone), len(got), len(want), few(got), few(want))
					}
				}
			}
		}
	}
	t.Logf("%d changes of clocks, %d ticks", changes, compared)
	if changes < 100 {
		t.Errorf("only %d changes of clocks were found", changes)
	}
}

// onTheWall looks at a clock each minute.
func onTheWall(zone *time.Location, from, to time.Time, flows bool, means func(time.Time) bool) (want []time.Time) {
	var last time.Time // the latest face seen so far
	for at := from.Add(time.Minute); !at.After(to); at = at.Add(time.Minute) {
		_, offset := at.In(zone).Zone()
		face := at.UTC().Add(time.Duration(offset) * time.Second)
		if flows {
			if means(face) {
				want = append(want, at)
			}
			continue
		}
		if last.IsZero() {
			last = face.Add(-time.Minute)
		}
		due := false
		for ; last.Before(face); last = last.Add(time.Minute) { // each face since, shown or not
			due = due || means(last.Add(time.Minute))
		}
		if due {
			want = append(want, at)
		}
	}
	return want
}

func few(all []time.Time) []time.Time { return all[:min(len(all), 12)] }

func zoneNames(t *testing.T) (names []string) {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	return names
}
