package cron

import (
	"strings"
	"testing"
	"time"
)

func gem(t testing.TB, version string) Gem {
	t.Helper()
	g, err := ParseGem(version)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The weeks of each version, on all days of the week, as the gems themselves count them.
func TestWeeksOfVersions(t *testing.T) {
	t.Parallel()
	names := []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}
	from := time.Date(2026, 1, 15, 10, 20, 30, 0, time.UTC) // a Thursday
	for _, tt := range []struct {
		versions, weeks string
		want            string // the next day of each name
	}{
		{"1.5 1.5.2 1.6.0", "%2", "01-19 01-27 01-28 01-29 01-16 01-17 01-18"},
		{"1.7 1.11.2", "%2", "01-19 01-27 01-28 01-29 01-16 01-17 01-18"},
		{" 1.12 1.12.3 1.13 2.0", "%2", "01-19 01-20 01-21 01-22 01-23 01-24 01-25"},
		{"1.5 1.5.2 1.6.0", "%3+1", "01-19 02-03 02-04 02-05 01-16 01-17 01-18"},
		{"1.7 1.11.2", "%3+1", "02-02 01-27 01-28 01-29 01-30 01-31 02-01"},
		{" 1.12 1.12.3 1.13 2.0", "%3+1", "02-02 02-03 02-04 02-05 01-16 01-17 01-18"},
	} {
		for version := range strings.SplitSeq(tt.versions, " ") {
			var got []string
			for _, name := range names {
				c, err := Parse("0 9 * * "+name+tt.weeks, time.UTC, gem(t, version))
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, c.Next(from).Format("01-02"))
			}
			if days := strings.Join(got, " "); days != tt.want {
				t.Errorf("%s, as fugit %q counts: %s; want %s", tt.weeks, version, days, tt.want)
			}
		}
	}
}

func TestGemVersions(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1", "1.4", "1.1", "0.9.6", "1.x", "v1.5", "1.5-rc", "1.5.", " 1.5", "99999.1"} {
		if g, err := ParseGem(text); err == nil {
			t.Errorf("%q is taken for %v", text, g)
		}
	}
}
