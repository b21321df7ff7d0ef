package repository

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The page about upgrading names the test of each of its claims: a part of TestMixed, or a test elsewhere, which TestDocsNameTests looks
// for. It names all parts.
func TestUpgradingNamesItsTests(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(top, "test/operate/mixed/mixed_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(source), "func TestMixed(")
	table, _, _ = strings.Cut(table, "t.Run(name")
	var parts []string
	for _, m := range regexp.MustCompile(`(?m)^\t\t"([^"]+)":`).FindAllStringSubmatch(table, -1) {
		parts = append(parts, m[1])
	}
	if len(parts) < 8 {
		t.Fatalf("TestMixed has the parts %q; this test reads another file", parts)
	}
	page := docs(t)[filepath.Join("..", "..", "docs", "upgrading.md")]
	for _, part := range parts {
		if !strings.Contains(page, "`"+part+"`") {
			t.Errorf("docs/upgrading.md does not name %q of TestMixed", part)
		}
	}
	_, rows, _ := strings.Cut(page, "## While both run")
	rows, _, _ = strings.Cut(rows, "\n## ")
	name := regexp.MustCompile("`([^`]+)`")
	claims := 0
	for _, row := range regexp.MustCompile(`(?m)^\| .* \|$`).FindAllString(rows, -1) {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if cells[len(cells)-1] == "test" {
			continue
		}
		claims++
		named := name.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(named) == 0 {
			t.Errorf("no test holds %q", row)
		}
		for _, m := range named {
			folder, _ := os.Stat(filepath.Join(top, m[1]))
			if !slices.Contains(parts, m[1]) && !strings.HasPrefix(m[1], "Test") && folder == nil {
				t.Errorf("%q is no test, of which %q says that it is", m[1], row)
			}
		}
	}
	if claims < 8 {
		t.Errorf("the page has %d claims", claims)
	}
}
