package checks

import (
	"slices"
	"testing"
)

// TestTroublesNameChecks: each trouble names checks that are there, each check once, and each check of an alert has a trouble.
func TestTroublesNameChecks(t *testing.T) {
	t.Parallel()
	all := slices.Concat(Table, Files)
	trouble := make(map[string]int)
	for at, of := range Troubles {
		if of.Number != at+1 {
			t.Errorf("trouble %d is at place %d", of.Number, at+1)
		}
		for _, name := range of.Checks {
			if trouble[name] > 0 {
				t.Errorf("check %s belongs to the troubles %d and %d", name, trouble[name], of.Number)
			}
			if trouble[name] = of.Number; !slices.ContainsFunc(all, func(c *Check) bool { return c.Name == name }) {
				t.Errorf("trouble %d names a check %s, which is not there", of.Number, name)
			}
		}
	}
	for _, c := range all {
		if c.In(Alert) && c.RunbookURL() == "" && c.Name != "webhook-dead" { // docs/webhook.md has it
			t.Errorf("who is woken by check %s finds no section of the runbook", c.Name)
		}
	}
}
