package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goworker/goworker/inspect/checks"
)

// runbook reads the page for 3 a.m. and returns its text and its blocks by their sections.
func runbook(t *testing.T) (text string, sections map[string][]item) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	items, err := parse(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	sections = make(map[string][]item)
	for _, b := range items {
		sections[b.section] = append(sections[b.section], b)
	}
	return string(raw), sections
}

// TestRunbook holds the runbook to its form: a row and a section for each trouble, in which commands look, mend and look again. The
// look prints what a later check has to lack, so neither can pass where the trouble was not planted, or was not mended.
func TestRunbook(t *testing.T) {
	t.Parallel()
	text, sections := runbook(t)
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| \[[^\n]*?\]\(#([^)]*)\) \| ([^|\n]+) \| ([^|\n]+) \|$`).FindAllStringSubmatch(text, -1)
	if len(rows) != 25 || len(checks.Troubles) != 25 {
		t.Fatalf("the table has %d rows, and the checks know %d troubles", len(rows), len(checks.Troubles))
	}
	for at, trouble := range checks.Troubles {
		row, heading := rows[at], fmt.Sprintf("%d %s", trouble.Number, trouble.Title)
		if row[1] != strconv.Itoa(trouble.Number) || checks.Runbook+"#"+row[2] != trouble.URL() {
			t.Errorf("row %d is of trouble %s and leads to #%s, not to %s", at+1, row[1], row[2], trouble.URL())
		}
		section := sections[heading]
		if len(section) == 0 {
			t.Errorf("no section with commands has the heading %q", heading)
			continue
		}
		for _, wrong := range formOf(section) {
			t.Errorf("%s: %s", heading, wrong)
		}
		_, prose, _ := strings.Cut(text, "\n## "+heading+"\n")
		prose, _, _ = strings.Cut(prose, "\n## ")
		if !strings.Contains(prose, "\n**Prevent.**") {
			t.Errorf("%s does not say what prevents it", heading)
		}
	}
}

// formOf says what the section of a trouble lacks.
func formOf(section []item) (wrong []string) {
	executed := make(map[string]int)
	var found, gone []string
	planted := false
	for _, b := range section {
		if b.lang != "sh" || strings.TrimSpace(local(b.text)) == "" {
			continue
		}
		executed[b.part]++
		switch b.part {
		case "Look":
			planted = planted || b.is("setup")
			found = append(found, lines(b.directives["prints"])...)
		case "Check":
			gone = append(gone, lines(b.directives["lacks"])...)
		}
	}
	for _, part := range []string{"Look", "Do", "Check"} {
		if executed[part] == 0 {
			wrong = append(wrong, "nothing is executed under "+part)
		}
	}
	if !planted {
		wrong = append(wrong, "no look has a setup that plants the trouble")
	}
	if !slices.ContainsFunc(gone, func(text string) bool {
		return slices.ContainsFunc(found, func(look string) bool { return strings.Contains(look, text) })
	}) {
		wrong = append(wrong, fmt.Sprintf("the check lacks %q, none of which a look prints: %q", gone, found))
	}
	return wrong
}

func lines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line = folded(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// TestFormOf: a section without a plant, a do, a check or an answer that changes is none.
func TestFormOf(t *testing.T) {
	t.Parallel()
	const whole = "## 1 X\n**Look.**\n<!-- setup: plant -->\n<!-- prints: it is wrong -->\n```sh\nlook\n```\n**Do.**\n```sh\nmend\n```\n**Check.**\n<!-- lacks: it is wrong -->\n```sh\nlook\n```\n"
	for _, tc := range []struct{ name, old, new string }{
		{"whole", "", ""},
		{"no plant", "<!-- setup: plant -->\n", ""},
		{"no do", "mend", "kubectl mend"},
		{"no check", "**Check.**", "**Do.**"},
		{"another answer", "lacks: it is wrong", "lacks: something"},
	} {
		items, err := parse(strings.Replace(whole, tc.old, tc.new, 1))
		if err != nil {
			t.Fatal(err)
		}
		if wrong := formOf(items); (len(wrong) == 0) != (tc.name == "whole") {
			t.Errorf("%s: %q", tc.name, wrong)
		}
	}
}
