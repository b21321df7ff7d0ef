package main

import (
	"slices"
	"sync"
	"time"
)

// mixed is the soak: kills all the time, and two other faults at once, drawn at random,
// until its duration is over.
func mixed(opts options) result {
	return contain(opts, "mixed", slices.Concat(impatient, durable), func(a *arena) {
		a.harsh = true
		m := &mixture{a: a, end: time.Now().Add(opts.duration), line: a.line(), queues: "work"}
		m.acts = append(m.gentle(), m.unlease)
		m.run(max(5, opts.workers), load{rate: 500, longest: 20, failing: 10, node: true})
	})
}

// policies is mixed with every option of a job: delayed, retried, unique,
// limited, isolated and recurring jobs, in two queues.
func policies(opts options) result {
	return contain(opts, "policies", slices.Concat(impatient, durable), func(a *arena) {
		a.harsh, a.keeps, a.tickEvery = true, true, 1
		span := 45 * time.Second
		if opts.duration > 0 {
			span = min(span, opts.duration)
		}
		m := &mixture{a: a, end: time.Now().Add(span), line: a.line(), queues: "work,lanes", environment: []string{"CHAOS_TICKS=1"}}
		m.acts = append(m.gentle(), m.rest) // removing leases by hand makes jobs invisible for those that want their locks
		m.run(5, load{rate: 300, longest: 20, failing: 10, orders: true})
	})
}

type mixture struct {
	a           *arena
	end         time.Time
	line        *line // to every other worker
	queues      string
	environment []string
	acts        []func()
	redis       sync.Mutex // one fault of Redis at a time
	wire        sync.Mutex // one fault of the line at a time

	mu    sync.Mutex
	fleet []*process
}

// run has workers work under a load while they are attacked.
func (m *mixture) run(workers int, l load) {
	for i := range workers {
		m.fleet = append(m.fleet, m.a.startWith(m.environment, m.flags(i)...))
	}
	m.a.produce(l)
	var wg sync.WaitGroup
	wg.Go(func() { m.guarded(m.kill, time.Second, 4*time.Second) })
	for range 2 {
		wg.Go(func() { m.guarded(m.any, 500*time.Millisecond, 3*time.Second) })
	}
	wg.Wait()
	time.Sleep(2 * time.Second)
}

// guarded does something again and again, until the end or until it fails.
func (m *mixture) guarded(act func(), least, most time.Duration) {
	defer func() {
		if f, ok := recover().(fatal); ok {
			m.a.problem("%s", f.text)
		}
	}()
	for time.Now().Before(m.end) {
		time.Sleep(m.a.between(least, most))
		act()
		m.a.inject()
	}
}

func (m *mixture) flags(i int) []string {
	flags := []string{"-concurrency=8", "-queues=" + m.queues}
	if i%2 == 1 {
		flags = append(flags, m.line.uri())
	}
	return flags
}

// draw draws a worker, but not the first: there is always one process to find the dead.
func (m *mixture) draw() int { return 1 + m.a.intn(len(m.fleet)-1) }

func (m *mixture) kill() { m.replace((*process).kill) }

// replace ends a worker and starts another one in its place.
func (m *mixture) replace(end func(*process)) {
	i := m.draw()
	m.mu.Lock()
	old := m.fleet[i]
	m.fleet[i] = m.a.launchWith(m.environment, m.flags(i)...)
	m.mu.Unlock()
	end(old)
}

// gentle are faults that lose nothing.
func (m *mixture) gentle() []func() {
	return []func(){
		func() { m.replace((*process).term) },
		m.freeze,
		m.slow, m.partition,
		m.crash, m.pause, m.flush, m.hangUp, m.starve, m.hog, m.unregister,
	}
}

// any does one of the faults.
func (m *mixture) any() { m.acts[m.a.intn(len(m.acts))]() }

func (m *mixture) freeze() {
	i := m.draw()
	m.mu.Lock()
	p := m.fleet[i]
	m.mu.Unlock()
	p.freeze(func() { time.Sleep(m.a.between(time.Second, 14*time.Second)) })
}

// slow delays each answer on the line. If connections were also closed again and again, no
// process there would get to work.
func (m *mixture) slow() {
	m.onLine(3*time.Second, func() func() { return m.line.toxic("latency", "downstream", `"latency":100,"jitter":100`) })
}

func (m *mixture) partition() {
	m.onLine(m.a.between(time.Second, 14*time.Second), m.line.halfOpen)
}

// onLine disturbs the line for a while, which silences the processes on it, now or meanwhile.
func (m *mixture) onLine(span time.Duration, disturb func() (heal func())) {
	m.wire.Lock()
	defer m.wire.Unlock()
	from := time.Now()
	heal := disturb()
	time.Sleep(span)
	heal()
	to := time.Now()
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	for _, p := range m.a.fleet {
		if slices.Contains(p.cmd.Args, m.line.uri()) {
			m.a.silences[p.name] = append(m.a.silences[p.name], window{from, to})
		}
	}
}

func (m *mixture) ofRedis(f func()) {
	m.redis.Lock()
	defer m.redis.Unlock()
	f()
}

func (m *mixture) crash() {
	m.ofRedis(func() { m.a.crashRedis(m.a.between(0, 2*time.Second)) })
}

func (m *mixture) pause() {
	m.ofRedis(func() {
		m.a.outage(func() {
			m.a.redis.Pause()
			time.Sleep(m.a.between(time.Second, 12*time.Second))
			m.a.redis.Resume()
		})
	})
}

func (m *mixture) flush() { m.ofRedis(func() { m.a.must("SCRIPT", "FLUSH") }) }

func (m *mixture) hangUp() {
	m.ofRedis(func() {
		m.a.outage(func() {
			for range 20 {
				m.a.hangUp()
				time.Sleep(100 * time.Millisecond)
			}
		})
	})
}

func (m *mixture) starve() {
	m.ofRedis(func() { m.a.outage(func() { m.a.starve(2 * time.Second) }) })
}

func (m *mixture) hog() {
	m.ofRedis(func() { m.a.outage(func() { m.a.hog(1500 * time.Millisecond) }) })
}

func (m *mixture) unregister() {
	m.ofRedis(func() { m.a.must("DEL", "resque:workers", "resque:workers:heartbeat") })
}

// rest pauses a queue.
func (m *mixture) rest() {
	sure := func(what func(string) error) {
		m.a.eventually("a queue is paused and resumed", func() bool { return what("lanes") == nil })
	}
	sure(m.a.client.PauseQueue)
	time.Sleep(m.a.between(0, 2*time.Second))
	sure(m.a.client.ResumeQueue)
}

func (m *mixture) unlease() { m.ofRedis(func() { m.a.must("DEL", "resque:go:processes") }) }
