package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the directory of the module, seen from the tests.
const root = "../.."

// page is a page of the docs: its directives and fenced blocks, in their order.
type page struct {
	name  string // from the root of the module: docs/limits.md
	items []item
}

// item is a fenced block with the directives right before it, or, without a language, a directive that
// stands alone. Its section is the last heading before it, and its part is the last label in bold: Look, Do.
type item struct {
	line          int
	lang, text    string
	directives    map[string]string
	section, part string
}

func (b item) is(name string) bool { _, ok := b.directives[name]; return ok }

// The directives. Each is an HTML comment, so readers do not see it.
var directives = []string{
	"declare",    // Go declarations for all later fragments of the page
	"setup",      // before the block: Go for a Go block, with a line ... where the block goes; else shell
	"check",      // shell that runs after the block; it fails where the block did not do what the page says
	"file",       // the block is written to this file, below the page's first directory
	"run",        // a Go fragment is run, not only compiled
	"prints",     // each line is somewhere in what the block prints
	"lacks",      // no line is anywhere in what the block prints
	"exits",      // the block ends with this status
	"output",     // the block is what the block before it prints, or what runs in the background; … stands for anything
	"background", // the block's commands go on while later blocks run
	"interrupt",  // stands alone: the commands in the background get Ctrl-C, and end with status 0
	"redis",      // stands alone: sentinel or cluster, to which redis-cli speaks from there on
	"fresh",      // stands alone: Redis is emptied, and the processes of the page are killed
	"apart",      // stands alone: each section of the page has a scene of its own, and they play side by side
}

var directive = regexp.MustCompile(`(?s)^<!-- ([a-z]+)(?:: ?(.*?))? ?-->$`)

// standing are the directives that need no block.
var standing = []string{"declare", "interrupt", "fresh", "redis", "apart"}

var label = regexp.MustCompile(`^\*\*([A-Z][a-z]+)\.?\*\*`)

// pages reads the README and the pages of docs, not those for maintainers.
func pages(t *testing.T) []page {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(names) < 20 {
		t.Fatalf("docs has %d pages: %v", len(names), err)
	}
	var all []page
	for _, path := range append(names, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(root, path)
		items, err := parse(string(text))
		if err != nil {
			t.Errorf("%s:%v", name, err)
		}
		all = append(all, page{name, items})
	}
	return all
}

// parse returns the blocks and directives of a page.
func parse(text string) (items []item, err error) {
	lines := strings.Split(text, "\n")
	pending := make(map[string]string)
	section, part := "", ""
	for i := 0; i < len(lines); i++ {
		begin, line := i, strings.TrimSpace(lines[i])
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section, part = heading, ""
		} else if m := label.FindStringSubmatch(line); m != nil {
			part = m[1]
		}
		switch {
		case strings.HasPrefix(line, "<!--"):
			for !strings.Contains(lines[i], "-->") && i+1 < len(lines) {
				i++
			}
			m := directive.FindStringSubmatch(strings.TrimSpace(strings.Join(lines[begin:i+1], "\n")))
			if m == nil || !slices.Contains(directives, m[1]) {
				continue // a mark of another tool, such as <!-- results: … -->
			}
			if slices.Contains(standing, m[1]) {
				items = append(items, item{line: begin + 1, directives: map[string]string{m[1]: m[2]}, section: section})
				continue
			}
			if _, twice := pending[m[1]]; twice {
				return items, fmt.Errorf("%d: the directive %s is given twice", begin+1, m[1])
			}
			pending[m[1]] = m[2]
		case strings.HasPrefix(line, "```"):
			indent := lines[i][:strings.Index(lines[i], "`")]
			var body strings.Builder
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
				body.WriteString(strings.TrimPrefix(lines[i], indent) + "\n")
			}
			items = append(items, item{begin + 1, strings.TrimPrefix(line, "```"), body.String(), pending, section, part})
			pending = make(map[string]string)
		case line != "" && len(pending) > 0:
			return items, fmt.Errorf("%d: directives stand before a text, not before a block", begin+1)
		}
	}
	return items, nil
}

// contains reports whether text is what a block of output shows. There … stands for anything. Blanks at the
// ends of lines do not count.
func shows(output, text string) bool {
	parts := strings.Split(strings.TrimSpace(output), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	pattern := strings.Join(parts, "(?s:.*?)")
	return regexp.MustCompile(`(?m)^`+pattern).MatchString(trimLines(text)) && strings.TrimSpace(output) != ""
}

func trimLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

func TestParse(t *testing.T) {
	t.Parallel()
	items, err := parse("a\n<!-- declare: var x int -->\n<!-- setup:\nx = 1\n-->\n```go\nx++\n```\n<!-- interrupt -->\n  ```sh\n  ls\n  ```\n")
	if err != nil || len(items) != 4 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	if b := items[1]; b.lang != "go" || b.text != "x++\n" || b.directives["setup"] != "\nx = 1\n" || b.line != 6 {
		t.Errorf("the block is %+v", b)
	}
	if b := items[3]; b.lang != "sh" || b.text != "ls\n" || len(b.directives) > 0 {
		t.Errorf("the indented block is %+v", b)
	}
	if _, err := parse("<!-- setup: x -->\ntext\n"); err == nil {
		t.Error("a setup without a block was accepted")
	}
	if !shows("a … c\nd", "first\na b c\nd\n") || shows("a … c", "a b\nd") || shows("", "a") {
		t.Error("the comparison of outputs is wrong")
	}
}
