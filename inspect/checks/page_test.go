package checks

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/doctor.md")

const page = "../../docs/doctor.md"

// The page on doctor shows the table of checks.
func TestPageShowsTheTable(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, part := range []struct {
		mark string
		in   func(*Check) bool
	}{{"checks", func(c *Check) bool { return c.Number > 0 }}, {"moving", func(c *Check) bool { return c.Number == 0 && c.Uses != Alert }}} {
		begin, end := "<!-- "+part.mark+" -->\n", "<!-- end "+part.mark+" -->"
		before, rest, found := strings.Cut(text, begin)
		shows, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("the page has no place for its table of %s", part.mark)
		}
		var want strings.Builder
		want.WriteString("| | says | bound | what to do |\n|--:|---|---|---|\n")
		for _, c := range Table {
			if part.in(c) {
				want.WriteString(rowOf(c))
			}
		}
		if shows == want.String() {
			continue
		}
		if !*update {
			t.Errorf("the table of %s is not that of the code; go test ./inspect/checks -update writes it", part.mark)
		}
		text = before + begin + want.String() + end + after
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// rowOf is a row of the page.
func rowOf(c *Check) string {
	number, severity := "", "W"
	if c.Severity == Error {
		severity = "E"
	}
	if c.Number > 0 {
		number = strconv.Itoa(c.Number)
	}
	var bounds []string
	for _, b := range append([]Bound{c.Bound}, c.More...) {
		if b.Unit != "" {
			bounds = append(bounds, boundText(b))
		}
	}
	do := plainly(c.Remedy)
	if c.HasFix() {
		do += "; `--fix`"
	}
	if trouble := c.Trouble(); trouble.Number > 0 {
		do += fmt.Sprintf(" ([%d](runbook.md%s))", trouble.Number, strings.TrimPrefix(trouble.URL(), Runbook))
	}
	return fmt.Sprintf("| %s%s | %s | %s | %s |\n", number, severity, plainly(c.Sentence), strings.Join(bounds, ", "), do)
}

func plainly(text string) string {
	text = strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;").Replace(text)
	return placeholder.ReplaceAllString(text, "*$1*")
}

func boundText(b Bound) string {
	switch b.Unit {
	case "s":
		return duration(b.Duration())
	case "share":
		return in(share(b.Value))
	case "bytes":
		return bytesOf(int64(b.Value))
	case "version":
		return strconv.FormatFloat(b.Value, 'f', -1, 64)
	}
	return count(int64(b.Value)) + " " + b.Unit
}
