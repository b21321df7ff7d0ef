package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
)

// leader ends the process that fires recurring schedules, in every way and at their
// ticks: another fires them, each once.
func leader(opts options) result {
	return contain(opts, "leader", nil, func(a *arena) {
		a.tickEvery = 1
		start := func() *process { return a.startWith([]string{"CHAOS_TICKS=1"}) }
		for range 3 {
			start()
		}
		a.produce(load{rate: 60, longest: 10})
		for i := range max(6, opts.kills/2) {
			owner := a.ticksGoOn()
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)) + a.between(-15*time.Millisecond, 15*time.Millisecond))
			switch i % 6 {
			case 0, 1, 2:
				owner.kill()
				start()
			case 3: // it stands still while another takes its place
				owner.freeze(func() { a.ticksGoOn(owner) })
			case 4: // a deploy
				start()
				owner.stop()
			case 5: // no process is left for a while
				var killing sync.WaitGroup
				for _, p := range a.alive() {
					killing.Go(p.kill)
				}
				killing.Wait()
				time.Sleep(a.between(0, 3*time.Second))
				for range 3 {
					start()
				}
			}
			a.inject()
		}
		a.ticksGoOn()
	})
}

// ticksGoOn waits until all schedules are fired, by processes that live and are none of
// those given, and returns the one that fires the first.
func (a *arena) ticksGoOn(but ...*process) (owner *process) {
	was := a.number("LLEN", "resque:queue:ticks")
	a.eventually("ticks go on", func() bool {
		if a.number("LLEN", "resque:queue:ticks") < was+4 {
			return false
		}
		for _, name := range []string{"shared", "cron"} {
			text, _ := redis.String(a.must("HGET", "resque:go:ticks", name), nil)
			fields := strings.Fields(text)
			i := slices.IndexFunc(a.fleet, func(p *process) bool { return len(fields) >= 3 && p.alive() && pidOf(fields[1]) == p.pid })
			if i < 0 || slices.Contains(but, a.fleet[i]) {
				return false
			}
			owner = a.fleet[i]
		}
		return true
	})
	return owner
}

// pumpKill kills Redis, and the leader, which moves delayed jobs, while many are due.
func pumpKill(opts options) result {
	return contain(opts, "pump-kill", durable, func(a *arena) {
		for range 4 {
			a.start("-concurrency=10")
		}
		a.produce(load{rate: 1500, longest: 3, delayed: true})
		for i := range 8 {
			time.Sleep(a.between(500*time.Millisecond, 1500*time.Millisecond))
			if i%2 == 0 {
				a.crashRedis(a.between(0, time.Second))
				continue
			}
			if p := a.leads(); p != nil {
				p.kill()
				a.inject()
				a.launch("-concurrency=10")
			}
		}
	})
}

// leads is the process that leads the fleet, or will when the dead are found.
func (a *arena) leads() *process {
	ids := a.list("ZRANGE", "resque:go:processes", 0, -1)
	slices.Sort(ids)
	alive := a.alive()
	for _, id := range ids {
		if i := slices.IndexFunc(alive, func(p *process) bool { return p.pid == pidOf(id) }); i >= 0 {
			return alive[i]
		}
	}
	return nil
}

// pushDelayed delays jobs in one of both schedules.
func pushDelayed(p *producer, jobs []job) {
	at := time.Now().Add(p.a.between(0, 3*time.Second))
	ruby := p.a.intn(2) == 0
	var all []*goworker.Job
	for _, j := range jobs {
		o := order{job: j, at: at, ruby: ruby}
		p.a.expect(o)
		all = append(all, o.goJob())
		if !ruby {
			_, err := o.enqueue(p.a.client)
			p.note(verdict(err), j)
		}
	}
	if ruby {
		p.note(verdict(p.a.client.EnqueueAllAt(at, all...)), jobs...)
	}
}

const masterLock = "resque:resque:resque_scheduler_master_lock"

// schedulers runs a Ruby scheduler beside ours again and again. The one with the lock moves
// the delayed jobs that both know, and fires the schedule that both have.
func schedulers(opts options) result {
	const every = 6 // we hold the lock for 5 s after a tick; then it is Ruby's
	return contain(opts, "schedulers", nil, func(a *arena) {
		a.tickEvery = every
		start := func() *process { return a.startWith([]string{fmt.Sprint("CHAOS_TICKS=", every)}) }
		start()
		start()
		a.produce(load{rate: 100, longest: 5, delayed: true})
		for i := range max(3, opts.kills/6) {
			a.fires(false)
			ruby := a.run("ruby", exec.Command(a.opts.worker), fmt.Sprintf("CHAOS_RUBY=%s,%d", a.redis.Addr, every))
			a.fires(true)
			switch i % 3 {
			case 0:
				ruby.signal(syscall.SIGTERM)
				<-ruby.exited
			case 1: // not between a tick's job and its note: Ruby fires that twice
				time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 100*time.Millisecond)))
				time.Sleep(a.between(0, 700*time.Millisecond))
				ruby.kill()
				a.must("EXPIRE", masterLock, 1) // of its three minutes
			case 2: // ours die meanwhile
				for _, p := range a.alive() {
					p.kill()
				}
				start()
				start()
				ruby.signal(syscall.SIGTERM)
				<-ruby.exited
			}
			a.inject()
		}
		a.fires(false)
	})
}

// fires waits until the schedule that Ruby has too is fired by Ruby's scheduler, or by
// ours.
func (a *arena) fires(ruby bool) {
	fired := func() (n int) {
		for _, text := range a.list("LRANGE", "resque:queue:ticks", 0, -1) {
			if name, _ := tickOf(text); name == "shared" && strings.Contains(text, `"by":"ruby"`) == ruby {
				n++
			}
		}
		return n
	}
	was := fired()
	a.eventually(map[bool]string{true: "Ruby's scheduler fires", false: "ours fires"}[ruby], func() bool { return fired() > was })
}
