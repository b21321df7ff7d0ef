package argv

import (
	"strings"
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0.25": 250 * time.Millisecond, "500ms": 500 * time.Millisecond,
		"1m30s": 90 * time.Second, "30d": 720 * time.Hour, "2w": 336 * time.Hour, "1w2d12h": 228 * time.Hour, "1.5d": 36 * time.Hour, "1d30m": 1470 * time.Minute, "0": 0, " 2 ": 2 * time.Second, "1e-300": 1,
	} {
		var s Seconds
		if err := s.Set(value); err != nil || time.Duration(s) != want {
			t.Errorf("seconds %q is %v, %v", value, s.String(), err)
		}
	}
	for _, value := range []string{"", "x", "-1", "-1s", "NaN", "Inf", "1e300", "5 s", "9223372037", "d", "-1d", "1d-1h", "1d+1h", "1d2w", "1e9d", "1d5", "200000000w", "106000d1000000h", "infd"} {
		s := Seconds(7)
		if err := s.Set(value); err == nil || s != 7 {
			t.Errorf("seconds %q is %v, %v", value, s.String(), err)
		}
	}
}

// One number is one, and two are two bounds.
func TestSpan(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]Span{"25": {Least: 25}, " 1 ": {Least: 1}, "5..50": {5, 50}, "5 .. 5": {5, 5}} {
		var s Span
		if err := s.Set(value); err != nil || s != want {
			t.Errorf("%q is %v, %v", value, s, err)
		}
		var again Span
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%q is read back as %v, %v", s.String(), again, err)
		}
	}
	for _, value := range []string{"", "0", "-1", "x", "..", "5..", "..5", "5..4", "0..5", "5...6", "5-6", "1..2..3", "1..9999999999999999999"} {
		s := Span{Least: 7}
		if err := s.Set(value); err == nil || s != (Span{Least: 7}) {
			t.Errorf("%q is %v, %v", value, s, err)
		}
	}
}

// A time on the command line is never negative, never rounded to nothing, and is
// read back as it is printed.
func FuzzSeconds(f *testing.F) {
	for _, seed := range []string{"5", "2.5", "1e-300", "1h", "-0", "inf", "nan", " 7 ", "9223372036", "0x1p-40", "1_0", "30d", "1w2d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s Seconds
		if s.Set(text) != nil {
			return
		}
		d := time.Duration(s)
		if d < 0 || d == 0 && strings.ContainsAny(strings.ToLower(text), "123456789") && !strings.ContainsAny(strings.ToLower(text), "ex") && !strings.ContainsAny(text, "smhnuµμdw") {
			t.Errorf("%q is %v", text, d)
		}
		var again Seconds
		if err := again.Set(s.String()); err != nil || (time.Duration(again)-d).Abs() > d/1e9+1 {
			t.Errorf("%q prints %q and comes back as %v, not %v (%v)", text, s.String(), time.Duration(again), d, err)
		}
	})
}
