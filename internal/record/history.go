package record

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
	"github.com/goworker/goworker/internal/stamp"
	"github.com/goworker/goworker/internal/stuck"
	"github.com/goworker/goworker/internal/usage"
)

// Config is what a History is given of its process.
type Config struct {
	Off bool // it says how the process is and nothing else

	Now     func() time.Time      // Redis's time
	Keeps   func() bool           // whether this process is to fold; two may do so at a time
	Steps   bool                  // it also does where nobody has folded for a minute
	Process func() resque.Process // as whom it is in the fleet now; nil: it is a server, whose record is that of Taker
	Taker   func() (id, version string, record resque.Key)
	Workers int        // how many it has at the start; 0: it takes jobs for clients
	Present func() int // how many workers there are now; nil: as many as at the start
	Busy    func() int // how many of them have a job
	Stuck   func() []stuck.Job
	Scale   func() *resque.Autoscale // how it changes its number of workers; nil: it does not
	Down    func() []string          // the names of its parts that have failed; nil: none is known

	// Exchanges returns how many exchanges Redis has answered, and when the last one; nil: it has no poller.
	Exchanges func() (int64, time.Time)

	// Waited hears how long a job has waited, where its payload says it; nil: nothing does. The worker that ended it calls this.
	Waited func(*outcome.Job, time.Duration)

	// Do lends a connection to the keeper.
	Do func(context.Context, func(redis.Conn) error) error
}

// present returns how many workers there are now.
func (c Config) present() int {
	if c.Present != nil {
		return c.Present()
	}
	return c.Workers
}

// History is a rider of the renewals of a process. It counts what becomes of its jobs, says how the process is, writes into the
// log of the fleet that it came and left, and folds if it is the keeper.
type History struct {
	config   Config
	base     part.Base
	store    history.Store
	recorder *Recorder
	keeper   *Keeper
	notes    chan note // lines of the log that are not written yet

	// of the goroutine that renews
	process string    // that was logged as online
	said    time.Time // when it said last how it is
	mute    bool      // Redis refuses lines of the log

	rtt atomic.Int64 // how long the last renewal took, in nanoseconds
}

// vitalsEvery is how often a process says how it is: with each fifth renewal.
const vitalsEvery = 10 * time.Second

// note is a line of the log of the fleet.
type note struct {
	kind, process string // process "": this one
	fields        []any
}

// mostNotes is how many lines wait to be written. What is too much is not logged.
const mostNotes = 100

// mostNoted is how many bytes of an error a line holds.
const mostNoted = 500

// New returns a History that has counted nothing.
func New(b part.Base, c Config) *History {
	h := &History{config: c, base: b, store: history.New(b.Store), notes: make(chan note, mostNotes)}
	if !c.Off {
		h.recorder, h.keeper = newRecorder(b, c), newKeeper(b, c)
	}
	return h
}

// Start starts the keeper.
func (h *History) Start(ctx context.Context) error {
	if h.keeper != nil {
		h.keeper.loop.Start(ctx)
	}
	return nil
}

// Stop stops the keeper. What the process counts after that leaves with its last renewal.
func (h *History) Stop(ctx context.Context) error {
	if h.keeper != nil {
		h.keeper.loop.Stop(ctx)
	}
	return nil
}

// Ended counts a job. The worker that ended it calls this: Set.Watch.
func (h *History) Ended(j *outcome.Job, o *outcome.Outcome) {
	if h.recorder != nil {
		h.recorder.Ended(j, o)
	} else if h.config.Waited != nil && o.Started {
		if at, ok := stamp.EnqueuedAt(&j.Parsed); ok {
			h.config.Waited(j, max(0, j.StartedAt.Sub(at)))
		}
	}
}

// EndedOf counts a job of a server, which has no registered classes and gives the name that counts; "": it has none.
func (h *History) EndedOf(class string, j *outcome.Job, o *outcome.Outcome) {
	if h.recorder != nil {
		h.recorder.EndedOf(class, j, o)
	}
}

// Done counts a leased job that its client has done, and whose payload nobody has read. Its class may be "".
func (h *History) Done(queue, class string) {
	if h.recorder != nil {
		h.recorder.Done(queue, class)
	}
}

// Lost logs that a process was found dead.
func (h *History) Lost(process string) { h.note(note{kind: history.Lost, process: process}) }

// PartFailed logs that a part of this process has failed. Unless that is final, it is started again.
func (h *History) PartFailed(part string, err error, final bool) {
	kind := history.PartRestarted
	if final {
		kind = history.PartFailed
	}
	text := logging.Shorten(err.Error(), mostNoted)
	h.note(note{kind: kind, fields: []any{"part", history.Name(part), "text", text}})
}

// AboveMaxRSS logs that this process stops, because its memory is above its setting MaxRSS.
func (h *History) AboveMaxRSS(rss, most int64) {
	text := fmt.Sprintf("%s of memory, and MaxRSS is %s", usage.MiB(rss), usage.MiB(most))
	h.note(note{kind: history.MaxRSS, fields: []any{"text", text, "rss", rss, "max_rss", most}})
}

func (h *History) note(n note) {
	select {
	case h.notes <- n:
	default:
	}
}

// Load has the next renewal carry what there is to say.
func (h *History) Load(c *resque.Cargo) {
	id, version, record := h.identity()
	if now := h.base.Clock.Now(); now.Sub(h.said) >= vitalsEvery || now.Before(h.said) {
		h.said = now
		h.vitals(c, record)
	}
	if h.recorder != nil {
		h.log(c, id, version)
		h.recorder.Load(c)
		h.keeper.Load(c)
	}
}

// identity is as whom the process is in the fleet, and its record there.
func (h *History) identity() (id, version string, record resque.Key) {
	if h.config.Process == nil {
		return h.config.Taker()
	}
	p := h.config.Process()
	return p.ID, p.Version, h.base.Store.ProcessKey(p.ID)
}

// log says which processes came and left, and which parts of this one have failed. A line may be lost with its process, and stand there twice where Redis lost a record.
func (h *History) log(c *resque.Cargo, id, version string) {
	if h.mute {
		return
	}
	if id != h.process {
		fields := []any{"version", version}
		if h.config.Process != nil {
			if app := h.config.Process().App; app != "" {
				fields = append(fields, "app", app)
			}
		}
		h.store.Log(c, h.heard, history.Online, id, fields...)
		h.process = id
	}
	for {
		select {
		case n := <-h.notes:
			if n.process == "" {
				n.process = id
			} else {
				n.fields = []any{"by", id}
			}
			h.store.Log(c, h.heard, n.kind, n.process, n.fields...)
			continue
		default:
		}
		break
	}
	if c.Last {
		h.store.Log(c, h.heard, history.Offline, id, "version", version)
	}
}

// heard says why Redis refuses lines of the log. No further one is sent then.
func (h *History) heard(err error) {
	if err != nil && !h.mute {
		h.mute = true
		h.base.Log.Warn("the log of the fleet lacks which processes came and left; the jobs run all the same", "error", err)
	}
}

// vitals says how the process is.
func (h *History) vitals(c *resque.Cargo, record resque.Key) {
	v := resque.Vitals{
		At: h.config.Now().UnixMilli(), RSS: usage.Resident(), Goroutines: runtime.NumGoroutine(), CPU: usage.Processor().Milliseconds(), RTT: h.RTT().Microseconds(), Workers: h.config.present(),
	}
	if h.config.Busy != nil {
		v.Busy = h.config.Busy()
	}
	if h.config.Exchanges != nil {
		if _, at := h.config.Exchanges(); !at.IsZero() {
			v.Exchange = at.UnixMilli()
		}
	}
	if h.config.Scale != nil {
		v.Autoscale = h.config.Scale()
	}
	if h.config.Down != nil {
		for _, name := range h.config.Down() {
			v.Down = append(v.Down, history.Name(name))
		}
	}
	var all []resque.StuckJob
	if h.config.Stuck != nil {
		for _, j := range h.config.Stuck() {
			all = append(all, resque.StuckJob{
				Queue: history.Name(j.Queue), Class: history.Name(j.Class), ID: history.Name(j.ID), Worker: j.Worker,
				Started: j.Started.UnixMilli(), Limit: j.Limit.Milliseconds(),
			})
		}
	}
	resque.WriteVitals(c, record, v, all)
}

// RTT returns how long the last renewal took; 0: none was answered. It is safe for concurrent use.
func (h *History) RTT() time.Duration { return time.Duration(h.rtt.Load()) }

// Answered hears that a renewal was answered.
func (h *History) Answered(leads bool, due resque.Due) {
	h.rtt.Store(int64(h.base.Clock.Now().Sub(due.Asked)))
	if h.keeper != nil {
		h.keeper.Answered()
	}
}
