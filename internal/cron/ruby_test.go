package cron

import (
	"strings"
	"testing"
	"time"
)

// What fugit 1.5.2 and the newest read, and take for the same times as goworker.
func TestForRuby(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ cron, want string }{
		// What all versions read stays.
		{"0 3 * * *", ""},
		{"05 03 01 01 1", ""},
		{"*/20 30 4 * * mon-FRI Europe/Berlin", ""},
		{"5,10-40/15,*/7,/8,50-10/5 22-2,24 1,L,-2,-3-L,15-L jan-Mar/2,12 sun,1#1,fri#last,2-4", ""},
		{"5/15 4/12 * 5/8 3/2", ""},
		{"0 0 * * 7-2", ""},
		{"0 0 * * mon-7/2", ""},
		{"0 0 1 * */1", ""},
		{"0 0 * * * +05:30", ""},
		{"0 0 * * * -0945", ""},
		{"0 0 * * * Etc/GMT+5", ""},
		{"@daily", ""},
		{"@noon", ""},
		{"0 0 -31 2 mon", ""},
		// What some versions refuse.
		{"0 0 ? * *", "0 0 * * *"},
		{"0 0 * * 01", "0 0 * * 1"},
		{"0 0 * * 01-05/2", "0 0 * * 1,3,5"},
		{"-0 * * * *", "0 * * * *"},
		{"?/10 * * * ?", "0,10,20,30,40,50 * * * *"},
		{"5, * * * *", "5 * * * *"},
		{",5,,7 1 * * ,mon", "5,7 1 * * mon"},
		{" 0\t0 *  * *\n", "0 0 * * *"},
		{"@Daily", "0 0 * * *"},
		{"@daily Europe/Berlin", "0 0 * * * Europe/Berlin"},
		{"@yearly UTC", "0 0 1 1 * UTC"},
		// What some take for something else.
		{"0 9 * * sat-tue/2", "0 9 * * 6,1"},
		{"0 9 * * mon-sun/2,sat", "0 9 * * 1,3,5,0,sat"},
		{"0 9 * * 7-3/2", "0 9 * * 0,2"},
		{"10/1 22/1 * * *", "10-59 22,23 * * *"},
		{"0 9 1-31 * mon", "0 9 * * mon"},
		{"0 9 1-L * mon", "0 9 * * mon"},
		{"0 9 1/1 * mon", "0 9 * * mon"},
		{"0 0 31 4,5 *", ""},
		{"0 9 * * mon#1,mon#3,mon", ""},
	} {
		c, err := Parse(tt.cron, time.Local, Gem{})
		if err != nil {
			t.Errorf("%q: %v", tt.cron, err)
			continue
		}
		if tt.want == "" {
			tt.want = tt.cron
		}
		if got, err := c.ForRuby(); err != nil || got != tt.want {
			t.Errorf("%q is written as %q, %v; want %q", tt.cron, got, err, tt.want)
		}
	}
}

// What is read by some versions alone is written if one is named that reads it.
func TestNotForEveryRuby(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ cron, refuses, takes, says string }{
		{"0 9 13 * fri&", " 1.5 1.6.0", "1.7 1.12.3 2.0", `Fugit: "1.7"`},
		{"0 9 * * sun%2", " ", "1.5 1.11 1.12", `Fugit: "1.12"`},
		{"0 9 * * sun%3+1,fri", " ", "1.5 1.11 1.12", `"sun%3+1"`},
		{"0 9 * * mon#1,1#3", " 1.5 1.11.2", "1.12 1.13", "two schedules"},
		{"0 9 * * mon%4,mon%4+1", "1.5 1.11.2", "1.12 1.13", "two schedules"},
		{"0 9 * * mon%2,mon#1", "1.5 1.13", "", "fails on"},
		{"0 9 * * mon%300", "1.12", "", "too seldom"},
		{"0 9 31 4,5 mon", " 1.12", "", "drops months"},
		{"0 9 30 2 mon", " 1.12", "", "drops months"},
		{"0 9 * * * +13:00", " 1.12", "", "is none of Ruby's"},
		{"0 9 * * * +05:17", " 1.12", "", "is none of Ruby's"},
		{strings.Repeat("0,1,2,", 48) + "3 9 * * *", " 1.12", "", "256"},
	} {
		write := func(version string) error {
			c, err := Parse(tt.cron, time.Local, gem(t, version))
			if err != nil {
				t.Fatal(err)
			}
			text, err := c.ForRuby()
			if err == nil && text != strings.ReplaceAll(tt.cron, "&", "")+strings.Repeat("&", strings.Count(tt.cron, "&")) {
				t.Errorf("%q is written as %q", tt.cron, text)
			}
			return err
		}
		for version := range strings.SplitSeq(tt.refuses, " ") {
			if err := write(version); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q for fugit %q: %v; want %q in the error", tt.cron, version, err, tt.says)
			}
		}
		for version := range strings.FieldsSeq(tt.takes) {
			if err := write(version); err != nil {
				t.Errorf("%q for fugit %q: %v", tt.cron, version, err)
			}
		}
	}
}
