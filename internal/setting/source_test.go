package setting

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

type sourced struct {
	Place, PlaceFile string
	On               bool
	Least, Most      int
	Every            time.Duration
}

var sourcedRows = []Row[sourced]{
	{Field: "Place", Flag: "place", Env: []string{"OLD_PLACE"}, Default: "here"},
	{Field: "PlaceFile", Flag: "place-file", Rival: "Place", Credential: "the-place"},
	{Field: "On", Flag: "on", Env: []string{"OLD_ON"}, Environment: func(getenv func(string) string) string { return getenv("OLD_ON") }},
	{Field: "Least", Upto: "Most", Flag: "many", Default: 5, Live: true},
	{Field: "Every", Flag: "every", Default: time.Second},
}

// Of all sources that say something the first counts, and it is known which that is.
func TestTake(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "the-place"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		s       sourced
		flags   []string
		env     map[string]string
		file    map[string]Text
		want    sourced
		origins string // of Place, PlaceFile, On, Least, Every
		wrong   string
	}{
		{name: "nothing", want: sourced{Place: "here", Least: 5, Every: time.Second}, origins: "default default default default default"},
		{name: "the file", file: map[string]Text{"place": {"f", "x:1:1"}, "on": {"true", "x:2:1"}, "many": {"2..3", "x:3:1"}, "every": {"1m", "x:4:1"}},
			want: sourced{Place: "f", On: true, Least: 2, Most: 3, Every: time.Minute}, origins: "x:1:1 default x:2:1 x:3:1 x:4:1"},
		{name: "the environment goes before the file", env: map[string]string{"GOWORKER_ON": "false", "OLD_PLACE": "old", "GOWORKER_MANY": "9"},
			file: map[string]Text{"place": {"f", "x:1:1"}, "on": {"true", "x:2:1"}, "many": {"2", "x:3:1"}},
			want: sourced{Place: "old", Least: 9, Every: time.Second}, origins: "OLD_PLACE default GOWORKER_ON GOWORKER_MANY default"},
		{name: "its own variable goes before the old one", env: map[string]string{"GOWORKER_PLACE": "new", "OLD_PLACE": "old", "OLD_ON": "true"},
			want: sourced{Place: "new", On: true, Least: 5, Every: time.Second}, origins: "GOWORKER_PLACE default OLD_ON default default"},
		{name: "the program goes before the environment", s: sourced{Place: "p", Most: 7}, env: map[string]string{"GOWORKER_PLACE": "new", "GOWORKER_MANY": "1"},
			want: sourced{Place: "p", Least: 5, Most: 7, Every: time.Second}, origins: "program default default program default"},
		{name: "a switch that is off by a flag stays off", flags: []string{"on"}, env: map[string]string{"OLD_ON": "true", "GOWORKER_ON": "true"},
			file: map[string]Text{"on": {"true", "x:1:1"}}, want: sourced{Place: "here", Least: 5, Every: time.Second}, origins: "default default -on default default"},
		{name: "the higher of rivals", env: map[string]string{"GOWORKER_PLACE_FILE": "pf"}, file: map[string]Text{"place": {"f", "x:1:1"}},
			want: sourced{Place: "here", PlaceFile: "pf", Least: 5, Every: time.Second}, origins: "default GOWORKER_PLACE_FILE default default default"},
		{name: "a credential is the last", env: map[string]string{"CREDENTIALS_DIRECTORY": dir}, file: map[string]Text{"place": {"f", "x:1:1"}},
			want: sourced{Place: "f", Least: 5, Every: time.Second}, origins: "x:1:1 default default default default"},
		{name: "a credential alone", env: map[string]string{"CREDENTIALS_DIRECTORY": dir},
			want: sourced{Place: "here", PlaceFile: filepath.Join(dir, "the-place"), Least: 5, Every: time.Second}, origins: "default " + filepath.Join(dir, "the-place") + " default default default"},
		{name: "rivals of one source", file: map[string]Text{"place": {"f", "x:1:1"}, "place-file": {"g", "x:2:1"}},
			wrong: "x:2:1: place-file and place say the same thing in two ways: give one of them"},
		{name: "a bad variable", env: map[string]string{"GOWORKER_EVERY": "x"}, wrong: `the variable GOWORKER_EVERY is "x": it takes seconds, as in 2.5, or a duration, as in 500ms, 1m30s, 30d or 2w, and no negative one`},
	} {
		origins, errs := Take(sourcedRows, &tt.s, Sources{
			Given: func(flag string) bool { return slices.Contains(tt.flags, flag) }, Getenv: func(name string) string { return tt.env[name] }, File: tt.file,
		})
		for _, row := range sourcedRows {
			errs = append(errs, row.Fill(&tt.s, origins[row.Field]))
		}
		if err := errors.Join(errs...); err != nil || tt.wrong != "" {
			if err == nil || err.Error() != tt.wrong {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.wrong)
			}
			continue
		}
		got := fmt.Sprint(origins["Place"], " ", origins["PlaceFile"], " ", origins["On"], " ", origins["Least"], " ", origins["Every"])
		if tt.s != tt.want || got != tt.origins {
			t.Errorf("%s: %+v from %s\nwant %+v from %s", tt.name, tt.s, got, tt.want, tt.origins)
		}
	}
}

// What changes at once is taken over, and the rest is said each time.
func TestChanges(t *testing.T) {
	t.Parallel()
	was, now := sourced{Place: "a", Least: 2}, sourced{Place: "b", Least: 2, Most: 4}
	for _, want := range []string{"[place a → b many 2 → 2..4]", "[place a → b]"} {
		if got := fmt.Sprint(Changes(sourcedRows, &was, &now)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
