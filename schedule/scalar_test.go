package schedule

import (
	"slices"
	"testing"
	"time"
)

// TestScalars has what Psych 4.0.3 and the json gem of Ruby 3.1 make of them.
func TestScalars(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ yaml, want string }{
		{`08`, `"08"`},
		{`08901`, `"08901"`},
		{`007`, `7`},
		{`017`, `15`},
		{`0o17`, `"0o17"`},
		{`0_7`, `7`},
		{`1e3`, `"1e3"`},
		{`1E+3`, `"1E+3"`},
		{`12e03`, `"12e03"`},
		{`1.5e7`, `"1.5e7"`},
		{`1.5e+7`, `15000000.0`},
		{`1.e+3`, `1000.0`},
		{`12:30`, `45000`},
		{`12:30:45`, `45045`},
		{`1:30`, `5400`},
		{`-1:30`, `-1800`},
		{`1:60`, `"1:60"`},
		{`1:30.5`, `5430.0`},
		{`1,000`, `1000`},
		{`1,000.5`, `1000.5`},
		{`1_000`, `1000`},
		{`1__0`, `"1__0"`},
		{`1_`, `"1_"`},
		{`5.`, `5.0`},
		{`.5`, `0.5`},
		{`-.5`, `-0.5`},
		{`.`, `"."`},
		{`1.50`, `1.5`},
		{`-0.0`, `-0.0`},
		{`-0`, `0`},
		{`+5`, `5`},
		{`0x1F`, `31`},
		{`0b11`, `3`},
		{`100000000000000000.0`, `1.0e+17`},
		{`12345678901234567890123`, `12345678901234567890123`},
		{`0.00001`, `1.0e-05`},
		{`1.5e-7`, `1.5e-07`},
		{`1.2.3`, `"1.2.3"`},
		{`2026-01-02`, `"2026-01-02"`},
		{`2026-1-2`, `"2026-01-02"`},
		{`2026-02-30`, `"2026-02-30"`},
		{`yes`, `true`},
		{`No`, `false`},
		{`oN`, `true`},
		{`y`, `"y"`},
		{`n`, `"n"`},
		{`~`, `null`},
		{`Null`, `null`},
		{`tRuE`, `true`},
		{`:sym`, `"sym"`},
		{`:"two words"`, `"two words"`},
		{`:'x'`, `"x"`},
		{`+a`, `"+a"`},
		{`1 2`, `"1 2"`},
		{`0,5`, `5`},
		{`09.5`, `9.5`},
		{`1,5`, `15`},
		{`0x`, `"0x"`},
		{`1e+400`, `"1e+400"`},
		{`!!str 5`, `"5"`},
		{`!!int "7"`, `7`},
		{`!!int 7`, `7`},
		{`!!float 3`, `3.0`},
		{`!!float "3"`, `3.0`},
		{`!ruby/symbol foo`, `"foo"`},
		{`!ruby/sym 5`, `"5"`},
		{`! 5`, `5`},
		{`!x 5`, `5`},
		{`!!bool "yes"`, `true`},
		{`!!null ""`, `null`},
		{`"5"`, `"5"`},
		{`"a\u2028b</é"`, "\"a\u2028b</é\""},
	} {
		entries, err := Parse([]byte("x:\n  cron: '@daily'\n  queue: q\n  args:\n    - "+tt.yaml+"\n"), "")
		if err != nil || len(entries) != 1 {
			t.Errorf("%s: %d entries, %v", tt.yaml, len(entries), err)
			continue
		}
		if got, err := goworkerJSON(entries[0].Recurring.Args[0]); err != nil || got != tt.want {
			t.Errorf("%s is %s, %v; want %s", tt.yaml, got, err, tt.want)
		}
	}
}

// TestPairs has what Psych makes of names that come twice, of merges, and of names that
// are no texts.
func TestPairs(t *testing.T) {
	t.Parallel()
	const merged = "d: &d {queue: low, m: 1}\ne: &e {m: 2, n: 2}\nf: &f {<<: *d, m: 3}\n"
	for _, tt := range []struct{ yaml, want string }{
		{`{b: 1, a: 2, b: 3}`, `{"b":3,"a":2}`},
		{`{queue: high, <<: *d}`, `{"queue":"low","m":1}`},
		{`{<<: *d, queue: high}`, `{"queue":"high","m":1}`},
		{`{a: 0, <<: [*d, *e], z: 1}`, `{"a":0,"m":1,"n":2,"queue":"low","z":1}`},
		{`{<<: [*d, *e], queue: x}`, `{"m":1,"n":2,"queue":"x"}`},
		{`{<<: [{queue: one}, {queue: two, n: 1}]}`, `{"queue":"one","n":1}`},
		{`{<<: *d, <<: *e}`, `{"queue":"low","m":2,"n":2}`},
		{`{<<: *f}`, `{"queue":"low","m":3}`},
		{`{1: a, 1: b}`, `{"1":"b"}`},
		{`{true: a, 2.50: c, 0x10: d, 08: g, "q": f}`, `{"true":"a","2.5":"c","16":"d","08":"g","q":"f"}`},
	} {
		entries, err := Parse([]byte(merged+"x: {cron: '@daily', queue: q, args: "+tt.yaml+"}\n"), "")
		if err != nil || len(entries) != 1 {
			t.Errorf("%s: %d entries, %v", tt.yaml, len(entries), err)
			continue
		}
		if got, err := goworkerJSON(entries[0].Recurring.Args[0]); err != nil || got != tt.want {
			t.Errorf("%s is %s, %v; want %s", tt.yaml, got, err, tt.want)
		}
	}
}

// What comes later counts, of entries and of their fields.
func TestLaterEntries(t *testing.T) {
	t.Parallel()
	entries, err := Parse([]byte(`
d: {every: 2s, queue: first}
other: {cron: "0 * * * *", cron: "5 * * * *", queue: low, queue: high, args: 1, args: 2}
d: {every: 3s, queue: second}
`), "")
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	if d := entries[0]; d.Name != "d" || d.Recurring.Queue != "second" || d.Recurring.Every != 3*time.Second {
		t.Errorf("d is %+v", d)
	}
	if o := entries[1].Recurring; o.Cron != "5 * * * *" || o.Queue != "high" {
		t.Errorf("other is %+v", o)
	}
}

// What Ruby passes over as empty, and the environments it finds none in.
func TestEmptyFields(t *testing.T) {
	t.Parallel()
	entries, err := Parse([]byte(`
empty_cron: {cron: "", every: 5m, queue: low}
no_crons: {cron: [], every: 5m, queue: low}
both_empty: {cron: "", every: "", queue: low}
described: {every: 5m, queue: low, description: 5}
switched_off: {Cron: "@daily", EVERY: 5m, queue: low}
nowhere: {every: 5m, queue: low, rails_env: ""}
nowhere_either: {every: 5m, queue: low, rails_env: "", env: production}
not_here: {every: 5m, queue: low, rails_env: staging, env: production}
here: {every: 5m, queue: low, rails_env: ~, env: production}
`), "production")
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
		if e.Recurring.Cron != "" || e.Recurring.Every != 5*time.Minute {
			t.Errorf("%s is %+v", e.Name, e.Recurring)
		}
	}
	if want := []string{"empty_cron", "no_crons", "described", "here"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("entries %v, %v; want %v", names, err, want)
	}
}
