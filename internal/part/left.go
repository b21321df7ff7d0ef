package part

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Left is what a stop left where: a ShutdownError.
type Left struct {
	Unfinished  []string
	Undelivered int
	Remaining   []string
	Record      string
	Parts       []string
}

// Text says it in a sentence. A dead process is found after the lease's time.
func (l Left) Text(lease time.Duration) string {
	var parts []string
	if n := len(l.Unfinished); n > 0 {
		where := ""
		switch back := len(without(l.Unfinished, l.Remaining)); back {
		case 0:
		case n:
			where = " and went back to the queue"
		default:
			where = fmt.Sprintf(", of which %d went back to the queue", back)
		}
		parts = append(parts, fmt.Sprintf("%s did not stop in time%s: %s", Count(n, "job"), where, some(l.Unfinished)))
	}
	if n := len(l.Remaining); n > 0 {
		verbs := [2]string{"stays", "runs"}
		if n > 1 {
			verbs = [2]string{"stay", "run"}
		}
		parts = append(parts, fmt.Sprintf("Redis confirmed no outcome of %s, which %s in %s and %s again when another process finds this one dead, in about %s: %s",
			Count(n, "job"), verbs[0], l.Record, verbs[1], lease, some(l.Remaining)))
	} else if l.Undelivered > 0 {
		parts = append(parts, fmt.Sprintf("Redis confirmed no outcome of %s; they run again", Count(l.Undelivered, "job")))
	}
	if n := len(l.Parts); n > 0 {
		parts = append(parts, fmt.Sprintf("%s did not stop in time and may still run: %s", Count(n, "part"), some(l.Parts)))
	}
	return strings.Join(parts, "; ")
}

// Count returns "1 job" or "2 jobs".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// some returns the first names of a list.
func some(names []string) string {
	if len(names) > 5 {
		names = append(slices.Clone(names[:5]), "…")
	}
	return strings.Join(names, ", ")
}

// without returns all names but those of others, each as often as it stands there.
func without(all, others []string) []string {
	left := slices.Clone(all)
	for _, name := range others {
		if i := slices.Index(left, name); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	return left
}
