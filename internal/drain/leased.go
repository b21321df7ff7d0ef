package drain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// takers adds the servers that live to what is alive: their clients would go on to take jobs.
func (d *drain) takers() error {
	err := d.do(func(c redis.Conn) error {
		all, err := leases.New(d.store).Takers(c)
		for _, t := range all {
			d.Alive = append(d.Alive, fmt.Sprintf("the HTTP server %s:%d (started %v ago)", t.Host, t.PID, d.now.Sub(t.Started).Round(time.Second)))
		}
		return err
	})
	if resque.IsWrongType(err) {
		d.leave(leases.New(d.store).TakersKey().String(), 0, err.Error())
		return nil
	}
	return err
}

// leased puts the jobs that clients hold to the heads of their queues, byte for byte: the one whose lease ends first comes
// to the very head. A client that ends its job afterwards finds no lease.
func (d *drain) leased() error {
	jobs, err := d.held()
	if resque.IsWrongType(err) {
		d.leasedLeft = true
		d.leave(d.store.KeyOfLeased(), 0, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(j leases.Job) bool {
		if j.Queue == "" {
			d.leasedLeft = true
			d.leave(d.store.KeyOfLeased(), 1, "its field names no queue; look at it with HGETALL, then HDEL the field")
		}
		return j.Queue == ""
	})
	slices.SortStableFunc(jobs, func(a, b leases.Job) int { // the first lease comes last
		first, _ := leases.LeaseEnds(a.Lease)
		second, _ := leases.LeaseEnds(b.Lease)
		return cmp.Compare(second, first)
	})
	if d.DryRun {
		d.Requeued += len(jobs)
		for _, j := range jobs {
			d.ignore([][]byte{j.Payload})
		}
		return nil
	}
	for some := range slices.Chunk(jobs, pieceJobs) {
		if err := d.do(func(c redis.Conn) error { return d.giveBack(c, some) }); err != nil {
			return err
		}
	}
	return nil
}

// held reads the jobs that clients hold, each once.
func (d *drain) held() (all []leases.Job, err error) {
	seen := make(map[string]bool)
	for cursor, more := "0", true; more; more = cursor != "0" {
		if err := d.do(func(c redis.Conn) error {
			jobs, next, err := leases.New(d.store).Scan(c, cursor)
			cursor = next
			for _, j := range jobs {
				if !seen[j.Place()] {
					seen[j.Place()] = true
					all = append(all, j)
				}
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// giveBack puts jobs to the heads of their queues. The answer to a call over HTTP is no job: it goes.
func (d *drain) giveBack(c redis.Conn, jobs []leases.Job) error {
	ended := make([]resque.Ended, len(jobs))
	for i, j := range jobs {
		ended[i].Place = j.Place()
		if !httpjob.IsReply(j.Queue) {
			ended[i].Effects = d.store.LeasedHead(j.Queue)
		}
		ended[i].Effects = append(ended[i].Effects, d.store.EndLease(j.Place(), j.Lease)...)
	}
	out, err := d.store.CommitLeased(c, ended)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if out.Ended[j.Place()] && !httpjob.IsReply(j.Queue) {
			d.Requeued++
			d.ignore([][]byte{j.Payload})
		}
	}
	for _, r := range out.Refused {
		if r.Place != "" {
			d.leasedLeft = true
			d.leave(d.store.KeyOfLeased(), 1, r.Error())
		}
	}
	return nil
}
