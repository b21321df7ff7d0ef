package drain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/resque"
)

// recover brings the jobs of dead processes back, as the reaper of a live process does. It refuses
// while a process is alive.
func (d *drain) recover() error {
	before, err := d.look()
	if err != nil {
		return err
	}
	if len(d.Alive) > 0 && !d.DryRun {
		return d.alive()
	}
	if d.DryRun {
		return d.countDead(before)
	}
	if err := d.watch(before); err != nil {
		return err
	}
	for _, l := range before {
		if err := d.do(func(c redis.Conn) error { return d.reap(c, l) }); err != nil {
			return err
		}
	}
	return nil
}

// look reads which processes are alive, and returns the others: their leases are over, or they
// have a record and no lease.
func (d *drain) look() (dead []resque.Lease, err error) {
	if err := d.scan(); err != nil {
		return nil, err
	}
	d.Alive = nil
	known := make(map[string]bool)
	err = d.do(func(c redis.Conn) error {
		leases, now, err := d.store.Leases(c)
		if err != nil {
			return err
		}
		d.now = now
		for _, l := range leases {
			known[l.Process] = true
			if l.Fenced() || !l.Ends().After(now) {
				dead = append(dead, l)
				continue
			}
			p, err := d.store.ReadProcess(c, l.Process)
			if err != nil {
				return err
			}
			d.Alive = append(d.Alive, describe(l, p, now))
		}
		return nil
	})
	if err == nil {
		err = d.takers()
	}
	for _, builder := range []string{"inflight", "process"} {
		for _, k := range d.keys[builder] {
			if !known[k.Part] {
				known[k.Part] = true
				dead = append(dead, resque.Lease{Process: k.Part})
			}
		}
	}
	return dead, err
}

// describe names a process for people.
func describe(l resque.Lease, p resque.Process, now time.Time) string {
	name := l.Process
	if p.Host != "" {
		name = fmt.Sprintf("%s:%d", p.Host, p.PID)
	}
	renewed := now.Sub(l.Ends().Add(-fleet.LeasePeriod)).Round(100 * time.Millisecond)
	if p.Started.IsZero() {
		return fmt.Sprintf("%s (its lease was renewed %v ago)", name, renewed)
	}
	return fmt.Sprintf("%s (started %v ago, its lease was renewed %v ago)", name, now.Sub(p.Started).Round(time.Second), renewed)
}

// watch observes leases that are over until a live process would have renewed its own.
func (d *drain) watch(before []resque.Lease) error {
	if !slices.ContainsFunc(before, func(l resque.Lease) bool { return !l.Fenced() }) {
		return nil
	}
	timer := d.Clock.NewTimer(d.Watch)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-d.ctx.Done():
		return context.Cause(d.ctx)
	}
	return d.do(func(c redis.Conn) error {
		leases, now, err := d.store.Leases(c)
		if err != nil {
			return err
		}
		for _, l := range leases {
			if slices.Contains(before, l) {
				continue
			}
			p, err := d.store.ReadProcess(c, l.Process)
			if err != nil {
				return err
			}
			d.Alive = append(d.Alive, describe(l, p, now))
		}
		if len(d.Alive) > 0 {
			return d.alive()
		}
		return nil
	})
}

// reap takes the jobs of a dead process.
func (d *drain) reap(c redis.Conn, l resque.Lease) error {
	taking := fleet.Reaping{
		Store: d.store, Limit: d.RecoverLimit, Ends: d.Ends,
		Died: func(c redis.Conn, process string) error {
			return d.store.ReleaseMasterLock(c, d.store.MasterLock(process, d.LockPrefix, d.NodeScheduler))
		},
	}
	reaped, err := taking.Reap(c, l, d.now)
	d.Requeued += reaped.Requeued
	d.Failed += reaped.Failed
	if err != nil {
		return err
	}
	if !reaped.Taken {
		return resque.ErrAlive
	}
	d.Dead = append(d.Dead, l.Process)
	if reaped.Left > 0 {
		d.processesLeft = true
		why := "its values name no queue; look at them with HGETALL"
		if len(reaped.Refused) > 0 {
			why = reaped.Refused[0].Error()
		}
		d.leave(d.keyOf("inflight", l.Process), reaped.Left, why)
	}
	return nil
}

func (d *drain) countDead(dead []resque.Lease) error {
	for _, l := range dead {
		if err := d.do(func(c redis.Conn) error {
			n, err := d.store.ReservedJobs(c, l.Process)
			d.Requeued += n
			return err
		}); err != nil {
			return err
		}
		d.Dead = append(d.Dead, l.Process)
	}
	return nil
}

// keyOf returns the name of a key that the scan found.
func (d *drain) keyOf(builder, part string) string {
	for _, k := range d.keys[builder] {
		if k.Part == part {
			return k.Name
		}
	}
	return part
}
