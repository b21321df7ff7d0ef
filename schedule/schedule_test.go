package schedule

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
)

const file = `
defaults: &defaults
  queue: low
  every: never

nightly:
  cron: "0 3 * * * Europe/Berlin"
  class: Report
  queue: reports
  args: [all, {z: 1, a: [1.50, ~, true, "007", 1_000]}]
  description: the figures of the day
hourly:
  every: ["1h", {first_in: 5m, overlap: false}]
  queue: low
  args: {b: 2, a: yes}
merged:
  <<: *defaults
  every: 90
  args: one
:symbols:
  :class: Tidy
  :queue: :low
  :cron: "@daily"
  args:
staging_only:
  cron: "@daily"
  queue: low
  rails_env: staging, test
everywhere_we_are:
  cron: "@daily"
  queue: low
  env: [staging, production]
both:
  cron: "@hourly"
  every: 1d
  queue: low
bad_cron: {cron: "every day", queue: low}
bad_every: {every: 500ms, queue: low}
bad_option: {every: [1h, {first_at: noon}], queue: low}
bad_class: {cron: "@daily", queue: low, custom_job_class: "Resque::Plugins::Status"}
manual: {never: true, queue: low}
no_queue: {cron: "@daily"}
text: 12
`

type book struct {
	*goworker.Daemon
	taken map[string]goworker.Recurring
}

func (b book) Schedule(name string, r goworker.Recurring) error {
	err := b.Daemon.Schedule(name, r)
	if err == nil {
		b.taken[name] = r
	}
	return err
}

func TestLoadFile(t *testing.T) {
	t.Setenv("RAILS_ENV", "production")
	path := filepath.Join(t.TempDir(), "schedule.yml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	b := book{goworker.New(goworker.WorkerSettings{}), make(map[string]goworker.Recurring)}
	err := LoadFile(b, path)
	for _, bad := range []string{"defaults", "bad_cron", "bad_every", "bad_option", "first_at", "bad_class", "no_queue", "text", path} {
		if err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("the error does not speak of %s: %v", bad, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "manual") {
		t.Errorf("an entry to be run by hand is a mistake: %v", err)
	}
	type row struct {
		Cron    string
		Every   time.Duration
		FirstIn time.Duration
		Class   string
		Queue   string
		Args    string
	}
	got := make(map[string]row)
	for name, r := range b.taken {
		if !r.Shared {
			t.Errorf("%s is not shared with Ruby", name)
		}
		var args []string
		for _, a := range r.Args {
			text, err := goworkerJSON(a)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			args = append(args, text)
		}
		got[name] = row{r.Cron, r.Every, r.FirstIn, r.Class, r.Queue, strings.Join(args, " ")}
	}
	want := map[string]row{
		"nightly":           {Cron: "0 3 * * * Europe/Berlin", Class: "Report", Queue: "reports", Args: `"all" {"z":1,"a":[1.5,null,true,"007",1000]}`},
		"hourly":            {Every: time.Hour, FirstIn: 5 * time.Minute, Queue: "low", Args: `{"b":2,"a":true}`},
		"merged":            {Every: 90 * time.Second, Queue: "low", Args: `"one"`},
		"symbols":           {Cron: "@daily", Class: "Tidy", Queue: "low"},
		"everywhere_we_are": {Cron: "@daily", Queue: "low"},
		"both":              {Cron: "@hourly", Queue: "low"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("schedules (-want +got):\n%s", diff)
	}
}

func goworkerJSON(v any) (string, error) {
	text, ok := v.(interface{ MarshalJSON() ([]byte, error) })
	if !ok {
		return "", errors.New("no JSON")
	}
	b, err := text.MarshalJSON()
	return string(b), err
}

func TestParseMistakes(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no YAML":    "a: [",
		"a list":     "- a\n- b\n",
		"text":       "hello",
		"an itself":  "a: &a\n  args: [*a]\n  cron: '@daily'\n  queue: q\n",
		"many laugh": "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: {cron: '@daily', queue: q, args: *e}\n",
		"infinity":   "a: {cron: '@daily', queue: q, args: [.inf]}",
	} {
		if entries, err := Parse([]byte(text), ""); err == nil {
			t.Errorf("%s: %v", name, entries)
		}
	}
	if entries, err := Parse(nil, ""); err != nil || len(entries) > 0 {
		t.Errorf("an empty file: %v, %v", entries, err)
	}
	if err := LoadFile(goworker.New(goworker.WorkerSettings{}), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(file))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = Parse(text, "production")
	})
}

// The version of fugit is a text, and false is no argument.
func TestFugitAndNoArguments(t *testing.T) {
	t.Parallel()
	entries, err := Parse([]byte(`
old: {cron: "0 9 * * sun%2", queue: low, fugit: "1.10", args: false}
number: {cron: "0 9 * * sun%2", queue: low, fugit: 1.11, args: [false]}
`), "")
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	if r := entries[0].Recurring; r.Fugit != "1.10" || len(r.Args) != 0 {
		t.Errorf("old is %+v", r)
	}
	if r := entries[1].Recurring; r.Fugit != "1.11" || len(r.Args) != 1 {
		t.Errorf("number is %+v", r)
	}
}
