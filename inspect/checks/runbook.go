package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goworker/goworker/internal/pattern"
)

// Runbook is the page for those who look after a fleet at night. It has a section for each trouble.
const Runbook = "https://github.com/goworker/goworker/blob/main/docs/runbook.md"

// Trouble is a section of the runbook.
type Trouble struct {
	Number int // from 1. Numbers and titles stay: links have both
	Title  string
	Checks []string // the names of the checks that find it
}

// Troubles are the sections of the runbook, by their numbers.
var Troubles = []Trouble{
	{1, "Jobs wait and nobody takes them", []string{"queue-names", "queues-not-listed", "unserved", "unknown-classes", "paused-all", "paused-queues", "orphans", "own-jobs", "paused", "no-process"}},
	{2, "The queue is empty in resque-web but work goes on", nil},
	{3, "A queue grows", []string{"redis-slow", "slow-commands", "queue-grows", "workers-saturated"}},
	{4, "Jobs are old while workers are idle", []string{"limit-numbers", "limit-by-hand", "limits-differ", "lost-slots", "not-exchanging", "waits-long"}},
	{5, "One class must stop or slow down", nil},
	{6, "The same job runs twice", []string{"lease-lost"}},
	{7, "A job kills its process again and again", []string{"poison", "restart-loop"}},
	{8, "Failures flood in", []string{NewKind, "class-fails", "jobs-fail"}},
	{9, "A job hangs", []string{"stuck", "stuck-job"}},
	{10, "A process at 100 percent", nil},
	{11, "The memory of a process grows", nil},
	{12, "The memory of Redis grows", []string{"redis-memory"}},
	{13, "Redis refuses writes", []string{"redis-oom"}},
	{14, "Jobs are gone after a fail-over", []string{"redis-evicts", "redis-evicted", "redis-keeps-nothing", "redis-fsync-off", "redis-half-transaction", "replica-lag"}},
	{15, "Redis unavailable, retrying", []string{"redis-save-failed", "redis-replica", "redis-errors"}},
	{16, "Wrong password or NOPERM", []string{"user-refused", "user-not-notified"}},
	{17, "Dead workers are still shown", []string{"dead-workers", "prune-lock", "worker-twice"}},
	{18, "Ruby workers end at their start", []string{"worker-ids", "worker-jobs", "heartbeats", "heartbeats-ahead", "no-json"}},
	{19, "Delayed jobs are late", []string{"delayed-late", "scheduler-lock", "lost-buckets"}},
	{20, "A recurring job ran twice or not at all", []string{"clocks-differ", "recurring-unserved", "missed-tick"}},
	{21, "A deploy loses time", []string{"versions", "manifest", "unit"}},
	{22, "Too many connections", []string{"connections"}},
	{23, "A unique job never runs again", []string{"lost-locks"}},
	{24, "Failures cannot be shown or retried", []string{"failures", "backtraces"}},
	{25, "A change was wrong", nil},
}

var notInLinks = pattern.New(`[^a-z0-9 -]`)

// URL is where the section is.
func (t Trouble) URL() string {
	heading := fmt.Sprintf("%d %s", t.Number, strings.ToLower(t.Title))
	return Runbook + "#" + strings.ReplaceAll(notInLinks.ReplaceAllString(heading, ""), " ", "-")
}

// Trouble is the section of the runbook that says what to do about what the check finds. Where there is none, its Number is 0.
func (c *Check) Trouble() Trouble {
	for _, t := range Troubles {
		if slices.Contains(t.Checks, c.Name) {
			return t
		}
	}
	return Trouble{}
}

// RunbookURL is the section of the runbook that says what to do about what the check finds, or "" where there is none.
func (c *Check) RunbookURL() string {
	if t := c.Trouble(); t.Number > 0 {
		return t.URL()
	}
	return ""
}
