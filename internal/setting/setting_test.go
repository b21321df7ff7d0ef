package setting

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

type settings struct {
	Name, Old, Kind string
	On              bool
	Workers, Limit  int
	Every, Within   time.Duration
}

var rows = []Row[settings]{
	{Field: "Name", Also: "Old", Flag: "name", Env: []string{"NAME", "OTHER_NAME"}, Default: "nobody", Put: func(s *settings) { s.Old = "" },
		Check: func(s *settings) error {
			if s.Name == "bad" {
				return errors.New("Name is bad")
			}
			if s.Name == "" {
				s.Name = s.Old
			}
			return nil
		}},
	{Field: "Kind", Flag: "kind", Allowed: []string{"one", "two"}, Default: "one"},
	{Field: "On", Flag: "on", Env: []string{"ON"}, Environment: func(getenv func(string) string) string { return strings.ToLower(getenv("ON")) }},
	{Field: "Workers", Flag: "workers", Default: 5},
	{Field: "Limit", Flag: "limit", Default: 3, None: "NoLimit"},
	{Field: "Every", Flag: "every", Default: time.Second},
	{Field: "Within", Flag: "within", None: "NoTimeout"},
}

func fill(s settings, env map[string]string) (settings, error) {
	origins, errs := Take(rows, &s, Sources{Getenv: func(name string) string { return env[name] }})
	for _, row := range rows {
		errs = append(errs, row.Fill(&s, origins[row.Field]))
	}
	return s, errors.Join(errs...)
}

func TestFill(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		s, want settings
		env     map[string]string
	}{
		{"the zero value", settings{}, settings{Name: "nobody", Kind: "one", Workers: 5, Limit: 3, Every: time.Second}, nil},
		{"the environment", settings{}, settings{Name: "b", On: true, Kind: "one", Workers: 5, Limit: 3, Every: time.Second},
			map[string]string{"OTHER_NAME": "b", "ON": "TRUE"}},
		{"the first variable", settings{}, settings{Name: "a", Kind: "one", Workers: 5, Limit: 3, Every: time.Second},
			map[string]string{"NAME": "a", "OTHER_NAME": "b", "ON": "yes"}},
		{"a setting goes before the environment", settings{Name: "c"}, settings{Name: "c", Kind: "one", Workers: 5, Limit: 3, Every: time.Second},
			map[string]string{"NAME": "a"}},
		{"a check that fills in", settings{Old: "o"}, settings{Name: "o", Old: "o", Kind: "one", Workers: 5, Limit: 3, Every: time.Second},
			map[string]string{"NAME": "a"}},
		{"no limit, and a word in capitals", settings{Limit: -1, Within: -1, Kind: "TWO"}, settings{Name: "nobody", Kind: "two", Workers: 5, Every: time.Second}, nil},
	} {
		got, err := fill(tt.s, tt.env)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s:\n%s", tt.name, diff)
		}
	}
}

func TestFillNamesEachMistake(t *testing.T) {
	t.Parallel()
	_, err := fill(settings{Name: "bad", Kind: "three", Workers: -1, Limit: -2, Every: -1, Within: -5}, nil)
	want := `Name is bad
Kind is "three": it must be one or two
Workers is -1: it must be at least 1, or 0 for 5
Limit is -2: it must be positive, 0 for the default, or NoLimit
Every is -1ns: it must be positive, or 0 for 1s
Within is -5ns: it must be positive, 0 for the default, or NoTimeout`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestDefine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args, wrong string
		want        settings
	}{
		{args: "", want: settings{Name: "n", Old: "o", Limit: 7}},
		{args: "--name= --on --kind=TWO --workers=1 --limit=2 --every=0.5 --within=1m",
			want: settings{Kind: "two", On: true, Workers: 1, Limit: 2, Every: time.Second / 2, Within: time.Minute}},
		{args: "--limit=0 --within=0 --every=0 --on=false", want: settings{Name: "n", Old: "o", Limit: -1, Within: -1}},
		{args: "--kind=x", wrong: "it takes one or two"},
		{args: "--workers=0", wrong: "a whole number of at least 1"},
		{args: "--limit=-1", wrong: "a whole number of at least 0"},
		{args: "--every=-1", wrong: "it takes seconds"},
	} {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		var puts []func(*settings)
		for _, row := range rows {
			puts = append(puts, row.Define(set))
		}
		err := set.Parse(strings.Fields(tt.args))
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%s: %v", tt.args, err)
			}
			continue
		}
		s := settings{Name: "n", Old: "o", Limit: 7}
		for _, put := range puts {
			put(&s)
		}
		if diff := cmp.Diff(tt.want, s); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", tt.args, err, diff)
		}
	}
}
