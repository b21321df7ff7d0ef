package goworker

import (
	"fmt"
	"testing"
)

// givesBack has a daemon reserve a job ahead and give it back, since all workers
// turned out to be slow; and Redis was to tell of the queue when that happened.
func givesBack(t *testing.T) *bundle {
	t.Helper()
	b := setup(t)
	b.start()
	b.idle()
	var short []string
	for i := range 500 {
		short = append(short, job("Mark", fmt.Sprint(i)))
	}
	b.push(short...)
	b.eventually("short jobs have run", func() bool { return b.stat("processed") == 500 })
	b.push(job("Hold", "a"), job("Hold", "b"), job("Hold", "c"), job("Hold", "d"), job("Mark", "back"))
	b.eventually("a job is given back", func() bool {
		return b.runs.starts("d") == 1 && len(b.queue("work")) == 1
	})
	return b
}

// Redis tells nobody of a change of his own.
func TestJobGivenBackRunsWhenAWorkerIsFree(t *testing.T) {
	t.Parallel()
	b := givesBack(t)
	b.open()
	b.eventually("it runs", func() bool { return b.runs.ends("back") == 1 })
	b.push(job("Mark", "late"))
	b.eventually("a later one runs", func() bool { return b.runs.ends("late") == 1 })
}

// And thereafter it has forgotten whom to tell.
func TestPushWakesAfterOthersTookAJobGivenBack(t *testing.T) {
	t.Parallel()
	b := givesBack(t)
	b.redis.Do(t, "LPOP", "resque:queue:work")
	b.open()
	b.eventually("the workers are free", func() bool { return b.runs.ends("d") == 1 })
	b.push(job("Mark", "late"))
	b.eventually("a later one runs", func() bool { return b.runs.ends("late") == 1 })
}
