package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// MaxCancelled is how many entries Cancelled returns at most.
const MaxCancelled = 1000

// CancelledJob is a job that was cancelled and has not ended since: no process is to run it. Its entry goes when a process finds the job,
// and otherwise when its time is over.
type CancelledJob struct {
	ID string // "" where it was cancelled by another name

	// Place is the entry of a job with an id that only its queue knows: a digest of both.
	Place string
	// Process and Ticket name a running job; see CancelRunning.
	Process string
	Ticket  int64

	Until time.Time // how long the entry is kept

	Shard string // of several Redises, the one where it is
}

// Cancelled returns the jobs that were cancelled and have not ended since, those that are kept for longest first: at most count,
// 1 to 1,000. more says that there are others.
func (i *Inspector) Cancelled(ctx context.Context, count int) (jobs []CancelledJob, more bool, err error) {
	if count < 1 || count > MaxCancelled {
		return nil, false, fmt.Errorf("goworker: Cancelled returns 1 to %d jobs, not %d", MaxCancelled, count)
	}
	err = i.each(func(one *Inspector) error {
		return one.do(ctx, func(s resque.Store, c redis.Conn) error {
			entries, others, err := s.ListCancelled(c, count)
			more = more || others
			for _, e := range entries {
				j := cancelledOf(e)
				if i.several() {
					j.Shard = one.name()
				}
				jobs = append(jobs, j)
			}
			return err
		})
	})
	slices.SortStableFunc(jobs, func(a, b CancelledJob) int { return cmp.Or(b.Until.Compare(a.Until), cmp.Compare(a.ID, b.ID)) })
	if len(jobs) > count {
		jobs, more = jobs[:count], true
	}
	return jobs, more, err
}

func cancelledOf(e resque.CancelledEntry) CancelledJob {
	j := CancelledJob{Until: e.Until}
	kind, name, _ := strings.Cut(e.Entry, ":")
	switch kind {
	case "j":
		j.ID = name
	case "t":
		at := max(0, strings.LastIndexByte(name, ':'))
		j.Process = name[:at]
		j.Ticket, _ = strconv.ParseInt(strings.TrimPrefix(name[at:], ":"), 10, 64)
	default:
		j.Place = name
	}
	return j
}
