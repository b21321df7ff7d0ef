package checks

import (
	"strings"

	"github.com/goworker/goworker/inspect"
)

// The checks that only alert rules have: they look at counters over a time, which neither doctor nor a sample has. Package metrics
// has the counters.
var alertChecks = []*Check{{
	Name: "no-process", Severity: Error, Uses: Alert, Title: "whether anything runs jobs",
	Bound:    Bound{60, "s"},
	Sentence: "no process of goworker and no worker of another program is there: no job runs",
	Remedy:   "start one, and see why the last one ended",
	Command:  "goworker log",
}, {
	Name: "lease-lost", Severity: Warning, Uses: Alert, Title: "processes that lost their lease",
	Bound:    Bound{600, "s"},
	Sentence: "processes were found dead {times} within ten minutes though they lived: their jobs ran twice",
	Remedy:   "they stood still for 8 s or more: look at memory, at the processor, and at the way to Redis",
	Command:  "goworker log",
}, {
	Name: "poison", Severity: Error, Uses: Alert, Title: "jobs that kill their process",
	Bound:    Bound{600, "s"},
	Sentence: "jobs failed {times} within ten minutes because the processes that ran them died",
	Remedy:   "look at them, and run their class with Isolated and MaxMemory",
	Command:  "goworker failed ls -- error:DirtyExit",
}, {
	Name: "redis-errors", Severity: Error, Uses: Alert, Title: "errors of Redis",
	Bound: Bound{10, "errors"}, More: []Bound{{300, "s"}},
	Sentence: "Redis refuses, or does not answer: errors of the kind {kind} go on",
	Remedy:   "the logs of the processes say which command and why",
	Command:  "goworker doctor",
}, {
	Name: "restart-loop", Severity: Error, Uses: Alert, Title: "processes that start again and again",
	Bound: Bound{5, "starts"}, More: []Bound{{900, "s"}},
	Sentence: "{what} was started {times} within 15 minutes",
	Remedy:   "its log says why it ends; memory that runs out ends a process without a line",
	Command:  "goworker log",
}, {
	Name: "webhook-dead", Severity: Warning, Uses: Alert, Title: "deliveries that were given up",
	Bound:    Bound{3600, "s"},
	Sentence: "webhook {webhook} has given up {times} within an hour",
	Remedy:   "see whether its receiver takes them; the log of the deliverer says what it answered",
	Command:  "goworker log",
}}

// NotExchanging returns how many processes of a sample renew their leases, have idle workers, and have not asked Redis for jobs for
// longer than check 52 permits, though jobs wait that they could take.
func NotExchanging(s inspect.Sample) (processes int) {
	if s.PausedAll {
		return 0
	}
	bound := ByNumber(52).Bound.Duration()
	for _, p := range s.Processes {
		v := p.Vitals
		if p.Dead || v.LastExchange.IsZero() || v.Busy >= v.Workers || v.At.Sub(v.LastExchange) <= bound {
			continue
		}
		for _, q := range s.Queues {
			if !q.Paused && q.Waiting.N > q.InLanes.N && names(strings.Split(p.Queues, ","), q.Name) {
				processes++
				break
			}
		}
	}
	return processes
}
