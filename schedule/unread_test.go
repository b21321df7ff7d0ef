package schedule

import (
	"fmt"
	"slices"
	"testing"
)

// Keys that no scheduler reads are passed over, as in Ruby, and found.
func TestUnreadKeys(t *testing.T) {
	t.Parallel()
	entries, passedOver, err := parse([]byte(`
defaults: &defaults {queue: low, team: ops}
misspelled: {cron: "@daily", quue: low, queue: low}
merged: {<<: *defaults, every: 5m}
switched_off: {Cron: "@daily", queue: low, colour: red}
template: {queue: low, colour: red}
right: {cron: "@daily", class: C, queue: low, args: [], description: d, rails_env: "", custom_job_class: "", persist: true}
`), "")
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v; want misspelled and merged", len(entries), err)
	}
	var got []string
	for _, k := range passedOver {
		got = append(got, fmt.Sprint(k.entry, " ", k.name, " ", k.line))
	}
	if want := []string{"misspelled quue 3", "merged team 2", "switched_off Cron 5"}; !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
}
