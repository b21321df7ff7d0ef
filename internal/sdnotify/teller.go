package sdnotify

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

const (
	// Spare is how much longer than a stop takes a service manager should wait, before it kills the process.
	Spare = 5 * time.Second

	// Every is how often the status is looked at. A watchdog shorter than three times that has it looked at more often.
	Every = 10 * time.Second
)

// State is how a run is at one moment.
type State struct {
	Busy, Workers int
	Live          bool     // a restart would not help
	Reasons       []string // what is wrong, in sentences
}

// Judge decides whether the process lives.
type Judge struct{ Of func() bool }

// Lives asks the judge, or where there is none the usual one.
func (j *Judge) Lives(usual func() bool) bool {
	if j == nil {
		return usual()
	}
	return j.Of()
}

// Config is what a Teller knows of its run. All functions are safe for concurrent use.
type Config struct {
	Clock    clock.Clock
	Log      *slog.Logger
	Stops    <-chan struct{} // closed when the stop begins
	StopTime time.Duration   // how long a stop takes at most; not positive: it has no limit
	Look     func() State
}

// Teller tells the service manager of one run: READY when all parts run, STOPPING when the stop begins, and a watchdog's sign of
// life while the run is live. A nil Teller tells nothing.
type Teller struct {
	Config
	socket   string
	watchdog time.Duration
	ready    chan struct{} // closed by Ready
	over     chan struct{} // closed by End
	ended    chan struct{}
	failed   sync.Once

	mu     sync.Mutex // one message after another; guards what follows
	is     stage
	status string // as it was sent last
}

// stage is what the manager knows of a run.
type stage int

const (
	starting stage = iota
	running
	stopping
)

// current is the run that speaks for the process; nil: there is none.
var current atomic.Pointer[Teller]

// Begin returns the Teller of a run that begins, and nil if the environment names no socket. A manager knows one service in a process:
// while one run tells, another has a nil Teller.
func Begin(c Config) *Teller {
	socket, watchdog := ownEnvironment()
	if socket == "" {
		return nil
	}
	t := begin(c, socket, watchdog)
	if !current.CompareAndSwap(nil, t) {
		return nil
	}
	go t.run()
	return t
}

func begin(c Config, socket string, watchdog time.Duration) *Teller {
	return &Teller{Config: c, socket: socket, watchdog: watchdog, ready: make(chan struct{}), over: make(chan struct{}), ended: make(chan struct{})}
}

// Ready says that all parts run. It is called once at most.
func (t *Teller) Ready() {
	if t != nil {
		close(t.ready)
	}
}

// End ends the Teller, and returns when it sends nothing more.
func (t *Teller) End() {
	if t == nil {
		return
	}
	close(t.over)
	<-t.ended
	current.CompareAndSwap(t, nil)
}

func (t *Teller) run() {
	defer close(t.ended)
	every := Every
	if t.watchdog > 0 {
		every = min(every, t.watchdog/3)
	}
	timer := t.Clock.NewTimer(every)
	defer timer.Stop()
	ready, stops := t.ready, t.Stops
	var until time.Time // when the stop is over at the latest, with Spare; zero: it has no limit
	for over := false; !over; {
		tick := false
		select {
		case <-t.over:
			over = true
		case <-ready:
		case <-stops:
		case <-timer.C():
			timer.Reset(every)
			tick = true
		}
		switch { // in the order of a run, though all have come at once
		case ready != nil && closed(t.ready):
			ready = nil
			t.enter(running, "READY=1")
		case tick && stops != nil:
			t.tell()
		case tick:
			t.tell(t.extend(until, every))
		}
		if stops != nil && closed(t.Stops) {
			ready, stops = nil, nil
			if t.StopTime > 0 {
				until = t.Clock.Now().Add(t.StopTime + Spare)
			}
			t.enter(stopping, "STOPPING=1", t.extend(until, every))
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// extend has the manager wait for the end of a stop, whatever it was configured to: until the stop is over at the latest, or
// without such a limit until the next message may be late twice. After the limit it is "": then the stop hangs.
func (t *Teller) extend(until time.Time, every time.Duration) string {
	left := 3 * every
	if !until.IsZero() {
		if left = clock.Until(t.Clock, until); left <= 0 {
			return ""
		}
	}
	return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d000000", (left+time.Second-1)/time.Second)
}

// enter says that the run has come to a stage.
func (t *Teller) enter(s stage, lines ...string) {
	t.mu.Lock()
	t.is = s
	t.mu.Unlock()
	t.tell(lines...)
}

func (t *Teller) entered() stage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.is
}

// tell sends lines, with the status if it has changed and a sign of life if one is due. It sends nothing if that is nothing.
func (t *Teller) tell(lines ...string) {
	var state State
	if t.entered() != starting {
		state = t.Look()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if status := t.describe(state); status != t.status {
		t.status, lines = status, append(lines, "STATUS="+status)
	}
	if t.watchdog > 0 && state.Live {
		lines = append(lines, "WATCHDOG=1")
	}
	t.send(lines)
}

// describe returns the status, in words.
func (t *Teller) describe(s State) string {
	text := fmt.Sprintf("%d of %d busy", s.Busy, s.Workers)
	switch t.is {
	case starting:
		return "starting"
	case stopping: // what is wrong is that it stops
		return "stopping, " + text
	}
	all := append([]string{text}, s.Reasons...)
	if t.watchdog > 0 && !s.Live {
		all = append(all, "the watchdog gets no sign of life")
	}
	return oneLine(strings.Join(all, "; "))
}

// send sends the lines that are not empty. The mutex is held.
func (t *Teller) send(lines []string) {
	var all []string
	for _, line := range lines {
		if line != "" {
			all = append(all, line)
		}
	}
	if len(all) == 0 {
		return
	}
	if err := send(t.Clock, t.socket, all...); err != nil {
		t.failed.Do(func() {
			t.Log.Warn("the service manager cannot be told how this process is; look at NOTIFY_SOCKET", "socket", t.socket, "error", err)
		})
	}
}

// Reloading says that the process reads its configuration again. It returns a function that says that this is over, well or not, and that
// is called in any case. Both do nothing while no run is ready, or one stops.
func Reloading() (done func()) {
	t := current.Load()
	if t == nil || !t.between("RELOADING=1", monotonic()...) {
		return func() {}
	}
	return func() { t.between("READY=1") }
}

// between sends lines if the run is ready and does not stop, and reports that.
func (t *Teller) between(line string, lines ...string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.is != running {
		return false
	}
	t.send(append([]string{line}, lines...))
	return true
}
