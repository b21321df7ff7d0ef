package generate

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/metrics"
)

const page = top + "/docs/metrics.md"

// The page lists every metric with its labels and meaning, every recording rule and every alert.
func TestPage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for mark, want := range map[string]string{"process": rowsOf(metrics.Process), "fleet": rowsOf(metrics.OfFleet), "recordings": recordingRows(), "alerts": alertRows()} {
		begin, end := "<!-- "+mark+" -->\n", "<!-- end "+mark+" -->"
		before, rest, found := strings.Cut(text, begin)
		shows, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("the page has no place for %s", mark)
		}
		if shows != want && !*update {
			t.Errorf("the table of %s is not that of the code; go -C metrics test ./internal/generate -update writes it", mark)
		}
		text = before + begin + want + end + after
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func rowsOf(scope metrics.Scope) string {
	var b strings.Builder
	b.WriteString("| metric | labels | kind | meaning |\n|---|---|---|---|\n")
	for _, r := range metrics.Table() {
		if r.Scope == scope {
			labels := "`" + strings.Join(r.Labels, "` `") + "`"
			if len(r.Labels) == 0 {
				labels = ""
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Name, labels, r.Kind, strings.TrimSuffix(r.Help, "."))
		}
	}
	return b.String()
}

func recordingRows() string {
	var b strings.Builder
	b.WriteString("| rule | what it is |\n|---|---|\n")
	for _, r := range recordings {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.name, r.says)
	}
	return b.String()
}

func alertRows() string {
	var b strings.Builder
	b.WriteString("| alert | severity | looks at | for | what to do |\n|---|---|---|---|---|\n")
	for _, a := range Alerts {
		duration := ""
		if a.For > 0 {
			duration = strings.TrimSuffix(strings.TrimSuffix(a.For.Round(time.Second).String(), "0s"), "m") + " min"
		}
		do := strings.ReplaceAll(a.Do(), "|", `\|`)
		if before, command, ok := strings.Cut(do, ": goworker "); ok {
			do = before + ": `goworker " + command + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", a.Name, a.Severity(), a.Check.Title, duration, do)
	}
	return b.String()
}
