package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// result is what one fault came to.
type result struct {
	name, title      string
	injected         int // how often the fault was done
	pushed           int // acknowledged, or unknown but run
	unknown, refused int // pushes without an answer, and those answered by an error
	done, failed     int
	dirty            int // of the failed: given up after too many dead processes
	dropped          int // expired, or another took their place
	removed          int // with the key in which they stood
	undone           int // lost by Redis itself, by its data before and after
	retried          int // runs that were followed by a retry
	lost             []string
	twice            map[string]int // repeated runs by cause
	overlapped       int            // of these, with both runs at the same time
	unexplained      []string
	recovery         []time.Duration
	goroutines, heap int // the most of a surviving worker at rest; heap in bytes
	problems, notes  []string
}

func newResult() result { return result{twice: map[string]int{}} }

func (r *result) bad() bool { return len(r.lost)+len(r.unexplained)+len(r.problems) > 0 }

// repeats is how many runs were not the first of their job.
func (r *result) repeats() int {
	n := len(r.unexplained)
	for _, k := range r.twice {
		n += k
	}
	return n
}

func (r *result) add(o result) {
	r.injected += o.injected
	r.pushed += o.pushed
	r.unknown += o.unknown
	r.refused += o.refused
	r.done += o.done
	r.failed += o.failed
	r.dirty += o.dirty
	r.dropped += o.dropped
	r.removed += o.removed
	r.undone += o.undone
	r.retried += o.retried
	r.goroutines, r.heap = max(r.goroutines, o.goroutines), max(r.heap, o.heap)
	r.overlapped += o.overlapped
	r.lost = append(r.lost, o.lost...)
	r.unexplained = append(r.unexplained, o.unexplained...)
	r.recovery = append(r.recovery, o.recovery...)
	r.problems = append(r.problems, o.problems...)
	r.notes = append(r.notes, o.notes...)
	for cause, n := range o.twice {
		r.twice[cause] += n
	}
}

// causes says why jobs ran twice, "" where none did.
func (r *result) causes() string {
	var parts []string
	for _, cause := range slices.Sorted(maps.Keys(r.twice)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.twice[cause], cause))
	}
	if n := len(r.unexplained); n > 0 {
		parts = append(parts, fmt.Sprintf("%d UNEXPLAINED", n))
	}
	if len(parts) > 0 && r.overlapped > 0 {
		parts = append(parts, fmt.Sprintf("%d of them side by side", r.overlapped))
	}
	return strings.Join(parts, ", ")
}

// extra is what became of jobs with policies, "" where there were none.
func (r *result) extra() string {
	var parts []string
	if r.retried > 0 {
		parts = append(parts, fmt.Sprintf("%d retries", r.retried))
	}
	if r.dropped > 0 {
		parts = append(parts, fmt.Sprintf("%d expired or replaced", r.dropped))
	}
	if r.removed > 0 {
		parts = append(parts, fmt.Sprintf("%d removed with their key", r.removed))
	}
	if r.undone > 0 {
		parts = append(parts, fmt.Sprintf("%d lost by Redis itself", r.undone))
	}
	return strings.Join(parts, ", ")
}

// recovered are the median, the 99th percentile and the largest recovery time, in seconds.
func (r *result) recovered(between string) string {
	if len(r.recovery) == 0 {
		return "–"
	}
	slices.Sort(r.recovery)
	at := func(part float64) string {
		i := min(len(r.recovery)-1, int(part*float64(len(r.recovery))))
		return fmt.Sprintf("%.1f", r.recovery[i].Seconds())
	}
	return at(0.5) + between + at(0.99) + between + at(1)
}

const columns = "%-15s %5v %8v %7v %7v %8v %6v %4v %5v  %-14s %s\n"

func titles() string {
	return fmt.Sprintf(columns, "fault", "times", "pushed", "unknown", "refused", "done", "failed", "lost", "twice",
		"p50/p99/max s", "")
}

// row is the result's line in a terminal's table, and below it what has no room there.
func (r *result) row() string {
	verdict := "ok"
	if r.bad() {
		verdict = "BAD"
	}
	if c := r.causes(); c != "" {
		verdict += " (" + c + ")"
	}
	if r.dirty > 0 {
		verdict += fmt.Sprintf(", %d given up as poison", r.dirty)
	}
	if extra := r.extra(); extra != "" {
		verdict += ", " + extra
	}
	if r.goroutines > 0 {
		verdict += fmt.Sprintf(", survivors ≤ %d goroutines, %.1f MiB", r.goroutines, float64(r.heap)/(1<<20))
	}
	var b strings.Builder
	fmt.Fprintf(&b, columns, r.name, r.injected, r.pushed, r.unknown, r.refused, r.done, r.failed, len(r.lost), r.repeats(),
		r.recovered("/"), verdict)
	say := func(what string, lines []string) {
		const most = 20
		for i, line := range lines {
			if i == most {
				fmt.Fprintf(&b, "    … and %d more\n", len(lines)-i)
				break
			}
			fmt.Fprintf(&b, "    %s: %s\n", what, line)
		}
	}
	say("note", r.notes)
	say("LOST", r.lost)
	say("UNEXPLAINED", r.unexplained)
	say("WRONG", r.problems)
	return b.String()
}

// sum is the last line of a run.
func (r *result) sum() string {
	return fmt.Sprintf("pushed=%d done=%d failed=%d lost=%d twice=%d", r.pushed, r.done, r.failed, len(r.lost), r.repeats())
}

// markdown is the table of docs/internals/chaos.md.
func markdown(rows []result, total result, how string) string {
	var b strings.Builder
	b.WriteString(how + "\n\n")
	b.WriteString("| fault | times | pushed | done | failed | lost | ran twice, and why | recovery p50 / p99 / max, s |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|---|--:|\n")
	for _, r := range rows {
		causes := r.causes()
		if causes == "" {
			causes = "0"
		}
		parts := append([]string{r.title}, r.notes...)
		if extra := r.extra(); extra != "" {
			parts = append(parts, extra)
		}
		title := strings.Join(parts, "; ")
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %s | %s |\n", title, r.injected, r.pushed, r.done, r.failed,
			len(r.lost), causes, r.recovered(" / "))
	}
	fmt.Fprintf(&b, "\nWorkers that lived through a fault had at most %d goroutines and %.1f MiB of heap at rest.\n", total.goroutines, float64(total.heap)/(1<<20))
	fmt.Fprintf(&b, "\n`%s`\n", total.sum())
	return b.String()
}
