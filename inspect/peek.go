package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

const (
	// MaxPeek is how many jobs Peek returns at most.
	MaxPeek = 1000
	// mostPeeked is about how many bytes Peek reads. One job may be larger.
	mostPeeked = 1 << 20
)

// Peek returns jobs that wait in a queue, without those in its lanes: from the head on, the next one first, or with tail from
// the tail on, the newest first. It passes over the first skip jobs, and returns at most count, 1 to 1,000. It reads about
// 1 MiB at most; full reports that it left off there, although there may be more.
//
// Over shards it returns the jobs of the first one whose queue has such jobs.
func (i *Inspector) Peek(ctx context.Context, queue string, skip, count int, tail bool) (jobs []Entry, full bool, err error) {
	if queue == "" || skip < 0 || count < 1 || count > MaxPeek {
		return nil, false, fmt.Errorf("goworker: Peek takes the name of a queue, how many jobs to pass over, and a count of 1 to %d", MaxPeek)
	}
	if i.several() {
		for _, one := range i.shards {
			jobs, full, err = one.Peek(ctx, queue, skip, count, tail)
			for n := range jobs {
				jobs[n].Shard = one.name()
			}
			if err != nil || len(jobs) > 0 {
				return jobs, full, one.about(err)
			}
		}
		return nil, false, nil
	}
	err = i.do(ctx, func(s resque.Store, c redis.Conn) error {
		bytes := 0
		for step := 1; len(jobs) < count && bytes < mostPeeked; step *= 2 { // jobs of an unknown size: begin with one
			step = min(step, count-len(jobs))
			at := skip + len(jobs)
			if tail {
				at = -at - step
			}
			raws, err := s.Peek(c, queue, at, step)
			if err != nil {
				return err
			}
			if tail {
				slices.Reverse(raws)
			}
			size := 0
			for _, raw := range raws {
				jobs = append(jobs, i.entry(Queued, queue, raw))
				size += len(raw)
			}
			bytes += size
			if len(raws) < step {
				return nil
			}
			if size > mostPeeked/8 {
				step = max(1, step/2)
			}
		}
		full = len(jobs) < count
		return nil
	})
	return jobs, full, err
}
