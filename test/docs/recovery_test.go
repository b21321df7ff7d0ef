package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recovers is how the docs say when the jobs of a dead process run again. test/crash holds it.
const recovers = "within 15 s"

// deviating are other numbers for it that were once said.
var deviating = regexp.MustCompile(`(?i)(?:within|after|at most|about|latest|slots back[^.|]*|again[^.|]*|notices?[^.|]*|dead[^.|]*)\s(?:about |at most |within |after )?(1[0-46-9](?:\.\d)?) s\b|about 8 s\b|8 s, 13|13 at most`)

// TestRecoveryTimeIsOneNumber finds sentences about dead processes with another number than the one that the
// pages agree on.
func TestRecoveryTimeIsOneNumber(t *testing.T) {
	t.Parallel()
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md", "*.go", "inspect/*.go", "internal/*/*.go", "internal/feature/*/*.go"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	must := []string{"README.md", "CHANGELOG.md", "doc.go", "docs/guarantees.md", "docs/operating.md", "docs/migrating.md", "docs/limits.md", "docs/deploying.md", "docs/reliability.md"}
	for _, path := range paths {
		name, _ := filepath.Rel(root, path)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		prose := strings.ReplaceAll(string(text), "\n// ", " ")
		if i := slices.Index(must, name); i >= 0 {
			must = slices.Delete(must, i, i+1)
			if !strings.Contains(strings.ToLower(prose), recovers) {
				t.Errorf("%s does not say that jobs of a dead process run again %s", name, recovers)
			}
		}
		for line := range strings.Lines(prose) {
			if strings.HasSuffix(name, ".go") && !strings.Contains(line, "//") {
				continue
			}
			for sentence := range strings.SplitSeq(line, ". ") {
				about := regexp.MustCompile(`(?i)dead process|killed process|process (?:died|dies)|after the kill|run again|runs again|notice`).MatchString(sentence)
				if m := deviating.FindString(sentence); about && m != "" {
					t.Errorf("%s says %q; the jobs of a dead process run again %s", name, m, recovers)
				}
			}
		}
	}
	if len(must) > 0 {
		t.Errorf("%v are not there", must)
	}
}

// TestReliabilitySaysWhatChaosMeasured compares the figures of the page for users with the table of chaos.
func TestReliabilitySaysWhatChaosMeasured(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page, table := read("reliability.md"), read("internals/chaos.md")
	figures := regexp.MustCompile(`\b\d+(?: \d{3})+\b|\b\d{4,}\b|\b\d+\.\d\b`).FindAllString(page, -1)
	if len(figures) < 10 {
		t.Errorf("the page has the figures %v", figures)
	}
	for _, figure := range figures {
		if figure != "2026" && !strings.Contains(table, figure) {
			t.Errorf("docs/reliability.md says %s, which docs/internals/chaos.md does not have", figure)
		}
	}
}
