// Package health serves the health of a daemon's process to probes, over HTTP.
//
//	http.ListenAndServe(":9400", health.Handler(daemon))
//
// There are three paths. Each answers 200 or 503, and both with the checks it made as JSON:
//
//   - /healthz, for a probe of liveness: 503 if a restart of the process helps. The poller's loop or the
//     lease's has not turned for a minute, or all workers have been stuck for ten. A Redis that is away, jobs
//     on all workers and a pause are no reasons to restart.
//   - /readyz, for a probe of readiness: 200 once the daemon has started and until it stops, while it holds its
//     lease and Redis has answered in the last ten seconds.
//   - /startupz, for a probe of startup: 200 once all parts of the daemon run.
//
// A probe reads a few numbers in memory. It asks Redis nothing, and no job keeps it waiting.
package health

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/health"
)

// Daemon is what is probed: a *goworker.Daemon or *goworker.Shards.
type Daemon interface{ Signs() goworker.Signs }

// An Option changes when a probe fails.
type Option func(*handler)

// The defaults of the options, and what /readyz goes by.
const (
	DefaultHung  = health.HungAfter
	DefaultStuck = health.StuckFor

	// Recent is how long ago Redis may have answered last.
	Recent = 10 * time.Second
)

// Hung says how long a loop may stand before /healthz fails, by default DefaultHung. That is beside the time
// that the settings let Redis take: twice the sum of ConnectTimeout, ReadTimeout and WriteTimeout.
func Hung(d time.Duration) Option { return func(h *handler) { h.hung = d } }

// Stuck says how long all workers may be stuck in jobs that run past their time limits before /healthz fails,
// by default DefaultStuck. 0 turns the check off. A job without a time limit is never stuck.
func Stuck(d time.Duration) Option { return func(h *handler) { h.stuck = d } }

// Handler returns the handler of the three paths. Another path is not found. The options hold for the watchdog of systemd too, by
// Daemon.SetWatchdog: it gets a sign of life while /healthz answers 200.
func Handler(d Daemon, opts ...Option) http.Handler {
	h := &handler{daemon: d, hung: DefaultHung, stuck: DefaultStuck}
	for _, o := range opts {
		o(h)
	}
	if watched, ok := d.(interface {
		SetWatchdog(func(goworker.Signs) bool)
	}); ok && len(opts) > 0 {
		watched.SetWatchdog(h.lives)
	}
	return h
}

type handler struct {
	daemon      Daemon
	hung, stuck time.Duration
}

// check is one line of an answer.
type check struct {
	name string
	ok   bool
	age  time.Duration // what it goes by; negative: there is none
	why  string        // what is wrong, unless it is ok
}

// most is how many checks an answer has at most.
const most = 4

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var room [most]check
	checks := room[:0]
	switch r.URL.Path {
	case "/healthz":
		checks = h.live(checks, h.daemon.Signs())
	case "/readyz":
		checks = ready(checks, h.daemon.Signs())
	case "/startupz":
		checks = started(checks, h.daemon.Signs())
	default:
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "a probe is a GET", http.StatusMethodNotAllowed)
		return
	}
	answer(w, checks)
}

func (h *handler) live(checks []check, s goworker.Signs) []check {
	poller, lease, workers := health.Life{Poller: s.Poller, Lease: s.Lease, Patience: s.Patience, AllStuck: s.AllStuck}.Of(h.hung, h.stuck)
	checks = append(checks,
		check{"poller", poller, s.Poller, "the loop of the poller does not turn: restart the process"},
		check{"lease", lease, s.Lease, "the loop that renews the lease does not turn: restart the process"})
	if h.stuck > 0 {
		checks = append(checks, check{"workers", workers, s.AllStuck, "all workers are stuck in jobs that run past their time limits: restart the process"})
	}
	return checks
}

// lives reports whether /healthz answers 200.
func (h *handler) lives(s goworker.Signs) bool {
	var room [most]check
	return !slices.ContainsFunc(h.live(room[:0], s), func(c check) bool { return !c.ok })
}

func ready(checks []check, s goworker.Signs) []check {
	last := s.Renewed // the last answer of Redis
	if last < 0 || s.Exchanged >= 0 && s.Exchanged < last {
		last = s.Exchanged
	}
	return append(started(checks, s),
		check{"stopping", !s.Stopping, -1, "the daemon stops: it takes no more jobs"},
		check{"lease", s.LeaseHeld, s.Renewed, "the daemon does not hold its lease, and other processes may have taken its jobs over: it takes another lease when Redis answers"},
		check{"redis", last >= 0 && last <= Recent, last, "Redis has not answered for ten seconds: look at Redis and the way to it, a restart does not help"})
}

func started(checks []check, s goworker.Signs) []check {
	why := "not all parts of the daemon run yet: PartStates says which"
	if !s.Running {
		why = "the daemon does not run: call Run or Work"
	}
	return append(checks, check{"started", s.Running && s.Started, -1, why})
}

// The values of these header fields are shared by all answers.
var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
)

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// answer writes the checks as JSON, with ages in seconds.
func answer(w http.ResponseWriter, checks []check) {
	status := http.StatusOK
	for _, c := range checks {
		if !c.ok {
			status = http.StatusServiceUnavailable
		}
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	b := append((*buffer)[:0], `{"ok":`...)
	b = strconv.AppendBool(b, status == http.StatusOK)
	b = append(b, `,"checks":{`...)
	for i, c := range checks {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, c.name...)
		b = append(b, `":{"ok":`...)
		b = strconv.AppendBool(b, c.ok)
		if c.age >= 0 {
			b = append(b, `,"age":`...)
			b = strconv.AppendFloat(b, c.age.Seconds(), 'f', 3, 64)
		}
		if !c.ok {
			b = append(b, `,"why":"`...)
			b = append(b, c.why...)
			b = append(b, '"')
		}
		b = append(b, '}')
	}
	b = append(b, "}}\n"...)
	*buffer = b
	header := w.Header()
	header["Content-Type"], header["Cache-Control"] = jsonType, noStore
	w.WriteHeader(status)
	_, _ = w.Write(b)
}
