package playtest

import (
	"fmt"
	"slices"

	"github.com/goworker/goworker/internal/resque"
)

// Among returns some of the processes.
func (w *World) Among(which func(*Process) bool) (found []*Process) {
	for _, p := range w.Procs {
		if which(p) {
			found = append(found, p)
		}
	}
	return found
}

// Alive picks a process that works.
func (w *World) Alive(n uint8) *Process {
	return Pick(w.Among(func(p *Process) bool { return !p.Killed && !p.Stopping && !p.Fenced }), n)
}

// Working picks a run that a worker has.
func (w *World) Working(n uint8) *Run {
	var busy []*Run
	for _, p := range w.Procs {
		busy = append(busy, p.Busy...)
	}
	return Pick(busy, n)
}

// StepEnter has a process enter, up to three.
func (w *World) StepEnter(Step) bool {
	if len(w.Among(func(p *Process) bool { return !p.Killed && !p.Reaped })) == 3 {
		return false
	}
	w.Enter()
	return true
}

// StepExchange is a turn of a process's poller. Its request or the answer may be lost.
func (w *World) StepExchange(s Step) bool {
	p := w.Alive(s.A)
	if p == nil {
		return false
	}
	how := Answered
	if s.B < 100 {
		how = Way(s.B % uint8(ways))
	}
	return p.Exchange(how)
}

// StepWork is a turn of a process whose workers take what it has reserved.
func (w *World) StepWork(s Step) bool {
	p := w.Alive(s.A)
	if p == nil {
		return false
	}
	return p.Turn()
}

// Turn is a turn of the process's poller and its workers.
func (p *Process) Turn() bool {
	worked := p.Exchange(Answered)
	for !p.Killed && p.Start() {
		worked = true
	}
	return worked
}

// StepKill kills a process.
func (w *World) StepKill(s Step) bool {
	p := w.Alive(s.A)
	if p == nil || w.Calm {
		return false
	}
	w.Kills++
	p.Kill()
	return true
}

// gone are processes that may be taken for dead: mostly they are.
func (w *World) gone(s Step) *Process {
	return Pick(w.Among(func(p *Process) bool { return !p.Reaped && (p.Killed || p.Fenced || p.Stopping || s.C < 30) }), s.B)
}

// StepFence has a process declared dead, and no more.
func (w *World) StepFence(s Step) bool {
	p := w.Alive(s.A)
	if p == nil || w.Calm {
		return false
	}
	_, err := w.Store.Fence(w.Conn, p.ID, p.Lease())
	w.Must(err)
	return true
}

// StepReap has a process take the jobs of another one.
func (w *World) StepReap(s Step) bool {
	dead := w.gone(s)
	if dead == nil {
		return false
	}
	p := Pick(w.Among(func(p *Process) bool { return !p.Killed && p != dead && !p.Reaped }), s.A)
	if p == nil {
		return false
	}
	p.Reap(dead)
	return true
}

// StepStop gives back the jobs that no worker has, as a process does that stops.
func (w *World) StepStop(s Step) bool {
	p := w.Alive(s.A)
	if p == nil || w.Calm {
		return false
	}
	p.Stopping = true
	p.rec.Requeue(true)
	p.Exchange(Answered)
	return true
}

// StepHear has a process read the keys that its features watch.
func (w *World) StepHear(s Step) bool {
	p := w.Alive(s.A)
	if p == nil {
		return false
	}
	p.Hear()
	return true
}

// StepPoison makes a job that waits one with which two deaths were charged: the next one files it.
func (w *World) StepPoison(s Step) bool {
	queue := w.Store.KeyOfQueue(Pick(w.Queues, s.B))
	if w.Calm || slices.Contains(w.Spoiled, queue) {
		return false
	}
	waiting := w.List("LRANGE", queue, 0, -1)
	if len(waiting) == 0 {
		return false
	}
	w.Do("HSET", "resque:go:recovered", resque.Digest([]byte(Pick(waiting, s.A))), fmt.Sprintf("2 %d other 2 0", w.Now.UnixMilli()))
	return true
}

// Spoil puts another program's text under one of some keys, if it holds nothing or may be lost.
func (w *World) Spoil(s Step, keys ...string) bool {
	key := Pick(keys, s.A)
	if w.Calm || len(w.Spoiled) > 0 || w.Number("EXISTS", key) == 1 && key != "resque:queues" {
		return false
	}
	w.Do("SET", key, "another program's")
	w.Spoiled = append(w.Spoiled, key)
	return true
}

// StepMend removes the keys of another program.
func (w *World) StepMend(Step) bool {
	if len(w.Spoiled) == 0 {
		return false
	}
	for _, key := range w.Spoiled {
		w.Do("DEL", key)
	}
	w.Spoiled = nil
	return true
}

// Bury has a process kill and reap all others.
func (w *World) Bury(p *Process, after func()) {
	for _, other := range w.Procs {
		if other != p && !other.Reaped {
			other.Kill()
			p.Reap(other)
			after()
		}
	}
}
