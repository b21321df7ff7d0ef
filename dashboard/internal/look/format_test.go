package look

import (
	"html/template"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ got, want string }{
		{Whole(0), "0"}, {Whole(981), "981"}, {Whole(14907), "14,907"}, {Whole(int64(-1234567)), "−1,234,567"},
		{Whole(uint8(7)), "7"}, {Whole(1.6), "2"}, {Whole(int64(9007199254740993)), "9,007,199,254,740,993"}, {Whole(int64(math.MinInt64)), "−9,223,372,036,854,775,808"},
		{Whole(math.NaN()), "?"}, {Whole(math.Inf(-1)), "?"}, {Whole("many"), "many"}, {Whole(nil), "<nil>"},

		{Short(0), "0"}, {Short(981), "981"}, {Short(999.4), "999"}, {Short(999.6), "1k"}, {Short(8412), "8.4k"}, {Short(14907), "14.9k"}, {Short(99960), "100k"},
		{Short(148213), "148k"}, {Short(999600), "1M"}, {Short(1234567), "1.2M"}, {Short(-8412), "−8.4k"}, {Short(61.23), "61.2"}, {Short(.04), "0"}, {Short("x"), "?"},
		{Short(math.MaxFloat64), Short(math.MaxFloat64)}, {Short(math.MaxInt64), "9.2E"},

		{Bytes(0), "0 B"}, {Bytes(814), "814 B"}, {Bytes(1234), "1.2 kB"}, {Bytes(64_000_000), "64 MB"}, {Bytes(int64(1) << 40), "1.1 TB"},

		{Plural(1, "job", "jobs"), "1 job"}, {Plural(0, "job", "jobs"), "0 jobs"}, {Plural(3941, "job", "jobs"), "3,941 jobs"},

		{Share(21, 100), "21 %"}, {Share(3, 1000), "0.3 %"}, {Share(0, 5), "0 %"}, {Share(5, 5), "100 %"}, {Share(1, 100000), "< 0.1 %"}, {Share(9999, 10000), "> 99 %"},
		{Share(1, 0), "–"}, {Share(math.NaN(), 1), "?"}, {Share(-3, 1000), "−0.3 %"}, {Share(3, 2), "150 %"},

		{Count(inspect.Count{N: 1204, Bound: inspect.Exact}), "1,204"}, {Count(inspect.Count{N: 1204, Bound: inspect.AtLeast}), "≥ 1,204"},
		{Count(inspect.Count{N: 3, Bound: inspect.AtMost}), "≤ 3"}, {Count(inspect.Count{}), "?"}, {CountShort(inspect.Count{N: 14907, Bound: inspect.AtLeast}), "≥ 14.9k"},

		{Age(inspect.Age{For: 252 * time.Second, Method: inspect.AgeExact}), "4 min 12 s"}, {Age(inspect.Age{For: 250 * time.Second, Method: inspect.AgeCounted}), "≈ 4 min 10 s"},
		{Age(inspect.Age{For: 14 * time.Minute, Method: inspect.AgeSeen}), "> 14 min"}, {Age(inspect.Age{}), "?"},

		{Rate(inspect.Rate{PerSecond: 61.2, Bound: inspect.Exact}), "61.2/s"}, {Rate(inspect.Rate{PerSecond: .02, Bound: inspect.AtLeast}), "≥ 1.2/min"},
		{Rate(inspect.Rate{}), "?"}, {PerSecond(0), "0/s"}, {PerSecond(.0001), "0.4/h"}, {PerSecond(-13), "−13/s"}, {PerSecond(math.Inf(1)), "?"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestDur(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0 s"}, {400 * time.Microsecond, "400 µs"}, {6 * time.Millisecond, "6 ms"}, {5250 * time.Microsecond, "5.2 ms"}, {310 * time.Millisecond, "310 ms"},
		{999_900 * time.Microsecond, "999 ms"}, {1200 * time.Millisecond, "1.2 s"}, {9990 * time.Millisecond, "9.9 s"}, {59999 * time.Millisecond, "59 s"}, {time.Minute, "1 min"},
		{252 * time.Second, "4 min 12 s"}, {59*time.Minute + 59*time.Second, "59 min 59 s"}, {2*time.Hour + 5*time.Minute, "2 h 05 min"}, {76 * time.Hour, "3 d 4 h"},
		{-4 * time.Second, "−4 s"}, {math.MinInt64, "−106,751 d 23 h"},
	} {
		if got := Dur(tt.d); got != tt.want {
			t.Errorf("Dur(%d) = %q, want %q", tt.d, got, tt.want)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	at := Times{Now: testNow, Loc: testNow.Location()}
	text := func(h template.HTML) string {
		_, after, _ := strings.Cut(string(h), ">")
		before, _, _ := strings.Cut(after, "<")
		return before
	}
	ago := func(d time.Duration) string { return text(at.Ago(testNow.Add(-d))) }
	for _, tt := range []struct{ got, want string }{
		{ago(0), "now"}, {ago(1900 * time.Millisecond), "now"}, {ago(-1 * time.Second), "now"}, {ago(41 * time.Second), "41 s ago"}, {ago(252 * time.Second), "4 min ago"},
		{ago(125 * time.Minute), "2 h 05 min ago"}, {ago(76 * time.Hour), "3 d 4 h ago"}, {text(at.In(testNow.Add(53 * time.Second))), "in 53 s"}, {text(at.Ago(time.Unix(1, 0))), "20740 d 12 h ago"},
		{text(at.Ago(time.Time{})), "–"},
		{text(at.Clock(testNow)), "14:32:07"}, {text(at.Clock(testNow.AddDate(0, 0, -1))), "13 Oct 14:32"}, {text(at.Clock(testNow.AddDate(-1, 0, 0))), "14 Oct 2025"},
		{text(at.Day(testNow)), "Wed 14 Oct"}, {text(at.Day(testNow.AddDate(1, 0, 0))), "Thu 14 Oct 2027"},
		{at.Zone(), "CEST, UTC+2"}, {Times{Now: testNow}.Zone(), "UTC"}, {Times{Now: testNow, Loc: time.FixedZone("", -(3*3600 + 1800))}.Zone(), "UTC−3:30"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
	const want = `<time datetime="2026-10-14T14:31:07.000+02:00" title="Wed 14 Oct 2026, 14:31:07 CEST" data-rel>1 min ago</time>`
	if got := at.Ago(testNow.Add(-time.Minute)); got != want {
		t.Errorf("got %s", got)
	}
}
