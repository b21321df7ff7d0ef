package cron

import (
	"strings"
	"testing"
	"time"
)

func TestGrammar(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ cron, from, want string }{
		{"0 12 * * 7", "2026-11-21", "2026-11-22 12:00:00"},
		{"0 24 * * *", "2026-11-21", "2026-11-22 00:00:00"},
		{"0 22-24 * * *", "2026-11-21 23:30:00", "2026-11-22 00:00:00"},
		{"0 12-24/6 * * *", "2026-11-21 12:30:00", "2026-11-21 18:00:00"},
		{"0 22-2 * * *", "2026-11-21 02:30:00", "2026-11-21 22:00:00"},
		{"15 30 6 * * *", "2026-11-21", "2026-11-21 06:30:15"},
		{"*/20 * * * * *", "2026-11-21 00:00:50", "2026-11-21 00:01:00"},
		{"0 6 * jan mon", "2026-11-21", "2027-01-04 06:00:00"},
		{"0 6 * JAN-MAR,dec Mon-Fri", "2026-11-21", "2026-12-01 06:00:00"},
		{"0 6 * * sun-tue", "2026-11-21", "2026-11-22 06:00:00"},
		{"0 6 * * fri-mon", "2026-11-24", "2026-11-27 06:00:00"},
		{"0 6 * * 5-7", "2026-11-22", "2026-11-22 06:00:00"},
		{"0 6 L * *", "2026-11-21", "2026-11-30 06:00:00"},
		{"0 6 l * *", "2028-02-21", "2028-02-29 06:00:00"},
		{"0 6 -1 * *", "2026-11-21", "2026-11-30 06:00:00"},
		{"0 6 -2 * *", "2026-11-21", "2026-11-29 06:00:00"},
		{"0 6 1,-2 * *", "2026-11-30", "2026-12-01 06:00:00"},
		{"0 6 -3--1 * *", "2026-11-28 07:00:00", "2026-11-29 06:00:00"},
		{"0 6 -3-L * *", "2026-11-21", "2026-11-28 06:00:00"},
		{"0 6 * * mon#1", "2026-11-21", "2026-12-07 06:00:00"},
		{"0 6 * * 1#1,fri", "2026-11-21", "2026-11-27 06:00:00"},
		{"0 6 * * mon#-1", "2026-11-21", "2026-11-30 06:00:00"},
		{"0 6 * * mon#-2", "2026-11-21", "2026-11-23 06:00:00"},
		{"0 6 * * fri,mon#-1", "2026-11-28", "2026-11-30 06:00:00"},
		{"0 6 1 * mon#-1", "2026-11-30 07:00:00", "2026-12-01 06:00:00"},
		{"0 6 13 * fri", "2026-11-21", "2026-11-27 06:00:00"},
		{"0 6 13 * fri", "2026-12-12", "2026-12-13 06:00:00"},
		{"0 6 */2 * fri", "2026-11-21", "2026-11-21 06:00:00"},
		// Week 0 begins on Monday, 2018-12-31: the 6th is its Sunday, the 13th that of week 1.
		{"0 6 * * sun%2", "2019-01-02", "2019-01-06 06:00:00"},
		{"0 6 * * sun%2", "2019-01-06 06:00:00", "2019-01-20 06:00:00"},
		{"0 6 * * sun%2+1", "2019-01-02", "2019-01-13 06:00:00"},
		{"0 6 * * mon%3", "2018-12-01", "2018-12-10 06:00:00"}, // week -3
		// What was compared with fugit 1.5.2.
		{"15 10 last * *", "2026-01-15", "2026-01-31 10:15:00"},
		{"15 10 LAST * *", "2026-02-15", "2026-02-28 10:15:00"},
		{"15 10 * * sun#last", "2026-01-15", "2026-01-25 10:15:00"},
		{"15 10 * * sun#L", "2026-01-25 11:00:00", "2026-02-22 10:15:00"},
		{"15 10 15-L * *", "2026-01-31 11:00:00", "2026-02-15 10:15:00"},
		{"15 10 28-3 * *", "2026-01-31 11:00:00", "2026-02-01 10:15:00"},
		{"/15 * * * *", "2026-01-15 10:20:30", "2026-01-15 10:30:00"},
		{"0 /5 * * *", "2026-01-15 10:20:30", "2026-01-15 15:00:00"},
		{"5/15 * * * *", "2026-01-15 10:20:30", "2026-01-15 10:35:00"},
		{"*/90 * * * *", "2026-01-15 10:20:30", "2026-01-15 11:00:00"},
		{"0 */25 * * *", "2026-01-15 10:20:30", "2026-01-16 00:00:00"},
		{"0 0 */32 * *", "2026-01-15 10:20:30", "2026-02-01 00:00:00"},
		{"0 0 1 */13 *", "2026-01-15 10:20:30", "2027-01-01 00:00:00"},
		{"38 * * 5/8 *", "2026-05-31 23:40:00", "2027-05-01 00:38:00"},
		{"50-10/5 * * * *", "2026-01-15 10:11:00", "2026-01-15 10:50:00"},
		{"0 24-2 * * *", "2026-01-15 02:30:00", "2026-01-16 00:00:00"},
		{"0 0-24/6 * * *", "2026-01-15 18:30:00", "2026-01-16 00:00:00"},
		{"0 0 1 * *,mon", "2026-01-15", "2026-01-19 00:00:00"},
		{"0 0 1 * *,mon", "2026-01-27", "2026-02-01 00:00:00"},
		{"0 0 * * 7-2", "2026-01-14", "2026-01-18 00:00:00"},
		{"0 0 * * 7-2", "2026-01-18", "2026-01-19 00:00:00"},
		{"0 0 * * 3/2", "2026-01-15", "2026-01-21 00:00:00"},
		{"0 0 1 * */1", "2026-01-15", "2026-01-16 00:00:00"},
		{"0 0 0 * * mon-fri/2", "2026-01-15", "2026-01-16 00:00:00"},
		{"0, 10 * * *", "2026-01-15 10:20:30", "2026-01-16 10:00:00"},
		{"0 0 * * fri#1,fri#3", "2026-01-02 00:00:00", "2026-01-16 00:00:00"},
		// What was compared with later versions.
		{"0 9 * * sat-tue/2", "2026-01-15", "2026-01-17 09:00:00"},
		{"0 9 * * sat-tue/2", "2026-01-17 09:00:00", "2026-01-19 09:00:00"},
		{"0 9 * * sat-tue/2", "2026-01-19 09:00:00", "2026-01-24 09:00:00"},
		{"0 9 * * mon-sun/2", "2026-01-16 09:00:00", "2026-01-18 09:00:00"},
		{"0 9 * * 7-3/2", "2026-01-18 09:00:00", "2026-01-20 09:00:00"},
		{"0 9 13 * fri&", "2026-01-15", "2026-02-13 09:00:00"},
		{"0 9 13& * fri", "2026-03-13 09:00:00", "2026-11-13 09:00:00"},
		{"0 9 13& * fri#2,sat&", "2026-03-13 09:00:00", "2026-06-13 09:00:00"},
		{"0 9 13& * *", "2026-03-13 09:00:00", "2026-04-13 09:00:00"},
		{"0 9 * * fri&", "2026-01-16 09:00:00", "2026-01-23 09:00:00"},
		{"0 9 29 2 mon&", "2072-03-01", "2112-02-29 09:00:00"},
		{"0 9 1-31 * mon", "2026-01-19 09:00:00", "2026-01-26 09:00:00"},
		{"0 9 1-L * mon", "2026-01-19 09:00:00", "2026-01-26 09:00:00"},
		{"0 9 1/1 * mon", "2026-01-19 09:00:00", "2026-01-26 09:00:00"},
		{"0 9 1-30,31 * mon", "2026-01-19 09:00:00", "2026-01-20 09:00:00"},
		{"10/1 * * * *", "2026-01-15 10:20:30", "2026-01-15 10:21:00"},
		{"0 3 * * * +0900", "2026-01-15 10:20:30", "2026-01-15 18:00:00"},
		{"0 3 * * * -05:00", "2026-01-15 10:20:30", "2026-01-16 08:00:00"},
		{"@daily", "2026-11-21", "2026-11-22 00:00:00"},
		{"@midnight", "2026-11-21", "2026-11-22 00:00:00"},
		{"@noon", "2026-11-21", "2026-11-21 12:00:00"},
		{"@weekly", "2026-11-21", "2026-11-22 00:00:00"},
		{"@monthly", "2026-11-21", "2026-12-01 00:00:00"},
		{"@yearly", "2026-11-21", "2027-01-01 00:00:00"},
		{"@hourly", "2026-11-21", "2026-11-21 01:00:00"},
		{"@daily Asia/Tokyo", "2026-11-21", "2026-11-21 15:00:00"},
		{"0 6 * * * Europe/Berlin", "2026-11-21", "2026-11-21 05:00:00"},
		{"0 0 6 * * * Europe/Berlin", "2026-11-21", "2026-11-21 05:00:00"},
		{"0 6 * * 1 UTC", "2026-11-21", "2026-11-23 06:00:00"},
		{"0 6 * * mon +09:00", "2026-11-21", "2026-11-22 21:00:00"},
		{"0 0 29 2 *", "2026-11-21", "2028-02-29 00:00:00"},
		{"0 0 29 2 *", "2096-03-21", "2104-02-29 00:00:00"},
	} {
		layout := "2006-01-02 15:04:05"
		from, err := time.Parse(layout[:len(tt.from)], tt.from)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse(tt.cron, time.UTC, Gem{})
		if err != nil {
			t.Errorf("%q: %v", tt.cron, err)
			continue
		}
		if got := c.Next(from).UTC().Format(layout); got != tt.want {
			t.Errorf("%q after %s: %s, want %s", tt.cron, tt.from, got, tt.want)
		}
	}
}

func TestNoCron(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                           "0 fields",
		"* * * *":                    "4 fields",
		"* * * * * * *":              "7 fields",
		"5/* * * * *":                "",
		"every day":                  "2 fields",
		"every day at noon in march": "",
		"0 0 31 2 *":                 "no such date",
		"0 0 31 2 mon&":              "no such date",
		"0 0 & * mon":                "empty",
		"0 0 13&& * mon":             "",
		"0& 0 13 * mon":              "",
		"60 * * * *":                 "",
		"* 25 * * *":                 "",
		"* 20-25 * * *":              "",
		"* -3-24 * * *":              "",
		"* 0-24/0 * * *":             "",
		"* * 0 * *":                  "",
		"* * -0 * *":                 "between 1 and 31",
		"* * -1--5 * *":              "names no days",
		"* * * 13 *":                 "",
		"* * * * 8":                  "",
		"* * * * xyz":                "",
		"* * * * mon#6":              "",
		"* * * * mon#-6":             "",
		"* * * * xyz#-2":             "",
		"* * * * sun%0":              "no weeks",
		"*/0 * * * *":                "steps by 0",
		"*/100 * * * *":              "",
		"007 * * * *":                "",
		", * * * *":                  "empty",
		"/ * * * *":                  "",
		"0 24/6 * * *":               "from 24",
		"0 24-2/2 * * *":             "from 24",
		"0 0 15--5 * *":              "names no days",
		"0 0 -3-5 * *":               "names no days",
		"0 0 L-2 * *":                "names no days",
		"0 0 32 * *":                 "between 1 and 31",
		"0 0 * * sunday":             "between 0 and 7",
		"0 0 * * xyz%2":              "between 0 and 7",
		"0 0 * * mon#0":              "",
		"1- * * * *":                 "",
		"TZ=":                        "",
		"TZ=UTC":                     "",
		"CRON_TZ=UTC":                "",
		"CRON_TZ=UTC * * * * *":      "",
		"TZ=Europe/Berlin 1 * * * *": "",
		"@every 5m":                  "there is no @every",
		"@every -5m":                 "there is no @every",
		"@reboot":                    "there is no @reboot",
		"@daily @daily":              "",
		"0 6 * * * Europe/Nowhere":   "Nowhere",
		"0 6 * * * ../../etc/passwd": "",
		strings.Repeat("1,", 300):    "characters",
	} {
		_, err := Parse(text, time.UTC, Gem{})
		if err == nil {
			t.Errorf("%q is taken", text)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q in it", text, err, says)
		}
	}
}

// FuzzParse looks for what hangs or panics.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"0 6 13 * fri", "-5-L", "0 0 29 2 mon%52+7", "* * -31 2 *", "0 22-24/2 * * mon#-1 Europe/Berlin", "@daily",
		"/15 */25 15-L * *,7-2 +0900", "0, 24-2 last * sun#last", "0 0 13& * fri#2,mon%3+1&", "0 0 * * sat-tue/2"} {
		f.Add(text)
	}
	at := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)
	berlin := load(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text, berlin, Gem{})
		if err != nil {
			return
		}
		for next := at; !next.IsZero() && next.Before(at.AddDate(0, 0, 3)); {
			tick := c.Next(next)
			if !tick.IsZero() && !tick.After(next) {
				t.Fatalf("%q: %v is not after %v", text, tick, next)
			}
			if next = tick; !next.IsZero() {
				next = next.Add(time.Hour)
			}
		}
		written, err := c.ForRuby()
		if err != nil {
			return
		}
		again, err := Parse(written, time.UTC, Gem{})
		if err != nil {
			t.Fatalf("%q is written as %q: %v", text, written, err)
		}
		for next, n := at, 0; !next.IsZero() && n < 20; n++ {
			tick := c.Next(next)
			if other := again.Next(next); !tick.Equal(other) {
				t.Fatalf("after %v, %q ticks at %v; written as %q, at %v", next, text, tick, written, other)
			}
			next = tick
		}
	})
}

func TestDelays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"0": 0, "0s": 0, "0.25s": 250 * time.Millisecond, "PT0S": 0, "1h": time.Hour} {
		if got, err := ParseDelay(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	if got, err := ParseDelay("-1s"); err == nil {
		t.Errorf("-1s is taken for %v", got)
	}
}

func FuzzPeriod(f *testing.F) {
	for _, text := range []string{"1h30m", "1 hour and 30 minutes", "1h, .5M 30", "PT1H", "p1y2m3w4dt5h6m7.5s", "0s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDelay(text); err == nil && (d < 0 || d > LongestPeriod || d%time.Millisecond != 0) {
			t.Errorf("%q is %v", text, d)
		}
	})
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "15mins": 15 * time.Minute, "1m": time.Minute, "1h30m": 90 * time.Minute,
		"1h 30m": 90 * time.Minute, "2.5h": 150 * time.Minute, "1d": day, "1w": 7 * day, "1M": 30 * day, "1y": 365 * day,
		"2 hours": 2 * time.Hour, "90": 90 * time.Second, "1.5": 1500 * time.Millisecond, "PT1H": time.Hour, "P1D": day,
		"P1DT2H30M": 26*time.Hour + 30*time.Minute, "P1M": 30 * day, "PT1M": time.Minute, "PT1.5S": 1500 * time.Millisecond, "P2W": 14 * day,
		"1D": day, "1H": time.Hour, "1W": 7 * day, "1S": time.Second, "5ss": 5 * time.Second, "1 Day": day, "1Hour": time.Hour, "1Y2M": 425 * day,
		"1M1m": 30*day + time.Minute, "2months": 60 * day, "1h, 30m": 90 * time.Minute, "1h and 30m": 90 * time.Minute, "1hand30m": 90 * time.Minute,
		"1 hour AND 30 minutes": 90 * time.Minute, ", 5m": 5 * time.Minute, ".5h": 30 * time.Minute, "5.": 5 * time.Second, "5.h": 5 * time.Hour, "1h30": time.Hour + 30*time.Second,
		"1h 30": time.Hour + 30*time.Second, "1h1h": 2 * time.Hour, "pt1h": time.Hour, "p1dT1m": day + time.Minute,
	} {
		if got, err := ParsePeriod(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "500ms", "0s", "0", "-5m", "-1", "every hour", "1h-30m", "h", "1.5.2h", "1x", "P", "PT", "P1DT",
		"1e9", "Inf", "NaN", "0x10", "101y", "999999999999999999999999y", "0.2s",
		"1Min", "1 Month", "1mo", "1mon", "1hr", "1yr", "1m,", "5 5", "1h and", "and", ".", ".h", "1_000", "1e2", "1:30", "1 fortnight"} {
		if got, err := ParsePeriod(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}
