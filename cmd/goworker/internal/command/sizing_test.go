package command

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// sizing computes without a Redis, in words and as JSON, and says what is wrong with a load.
func TestSizing(t *testing.T) {
	t.Parallel()
	run := func(args string) (code int, out, errs string) {
		var o, e strings.Builder
		code = Run(t.Context(), append([]string{"sizing"}, strings.Fields(args)...), none, &o, &e)
		return code, o.String(), e.String()
	}
	for args, want := range map[string][]string{
		"--rate 500/s --duration 200ms":                          {"workers      125, of which 100 are busy", "processes    6 of 25 workers", "connections  27 to each Redis", "% of a core"},
		"--rate 30000/m --duration 200ms":                        {"workers      125, "},
		"--rate 50/s --duration 3s --processes 3":                {"3 of 25 workers, which is too few: jobs pile up"},
		"--rate 100000/s --duration 100ms --workers 500":         {"Redises, which share the queues", "exchanges wait for each other"},
		"--rate 1/s --duration 1ms --waiting 1000000 --size 300": {"MiB in Redis"},
	} {
		code, out, errs := run(args)
		if code != 0 || slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(out, w) }) {
			t.Errorf("%s: %d\n%s%s\nwant %q", args, code, out, errs, want)
		}
	}
	code, out, _ := run("--rate 500/s --duration 200ms --json")
	var object map[string]any
	if err := json.Unmarshal([]byte(out), &object); err != nil || code != 0 || object["workers"] != 125.0 || object["connections"] != 27.0 {
		t.Errorf("%d, %v: %s", code, err, out)
	}
	for args, want := range map[string]string{
		"--rate fast --duration 1s":             "--rate is \"fast\"",
		"--rate 5/d --duration 1s":              "--rate is \"5/d\"",
		"--rate 5/s":                            "--duration is missing",
		"--rate 0 --duration 1s":                "the rate is 0 jobs a second",
		"--rate 5 --duration 1s --kind sticky":  "called \"sticky\"",
		"--rate 5 --duration 1s --processes -2": "negative",
	} {
		if code, _, errs := run(args); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: %d, %q; want %q", args, code, errs, want)
		}
	}
}
