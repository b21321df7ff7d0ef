package metrics

import (
	"cmp"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/health"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/spread"
	"github.com/goworker/goworker/webhook"
)

// process collects what a process says of itself.
type process struct {
	daemon   Daemon // nil: it only enqueues
	measured func(func(neighbor.Measured))
	webhooks []hook
	names    names
}

type hook struct {
	name string
	of   interface{ Stats() webhook.Stats }
}

// Describe sends the rows of this scope.
func (p *process) Describe(to chan<- *prometheus.Desc) { describe(Process, to) }

func describe(scope Scope, to chan<- *prometheus.Desc) {
	for _, r := range table {
		if r.Scope == scope {
			to <- r.desc
		}
	}
}

// Collect reads the counters.
func (p *process) Collect(to chan<- prometheus.Metric) {
	var all []neighbor.Measured
	p.measured(func(m neighbor.Measured) { all = append(all, m) })
	if p.daemon != nil {
		p.ofJobs(all, to)
		p.ofDaemon(all, to)
	}
	p.ofMeters(all, to)
	for _, h := range p.webhooks {
		s, name := h.of.Stats(), p.names.label("webhook", h.name, MostOthers)
		to <- deliveries.is(float64(s.Delivered), name, "delivered")
		to <- deliveries.is(float64(s.Failed), name, "failed")
		to <- deliveries.is(float64(s.Dead), name, "dead")
	}
	to <- build.is(1, version(), runtime.Version())
}

// always are the outcomes that each class of a queue has, also while none was counted: rates need the zero.
var always = []outcome.State{outcome.Done, outcome.Failed, outcome.Retried}

// ofJobs sends what became of jobs.
func (p *process) ofJobs(all []neighbor.Measured, to chan<- prometheus.Metric) {
	since := p.daemon.Stats().Since
	byName := make(map[[2]string]*health.Pair)
	for _, m := range all {
		m.Tally.Pairs(func(one *health.Pair) {
			key := [2]string{one.Queue, one.Class}
			if sum := byName[key]; sum == nil {
				byName[key] = one
			} else {
				add(sum, one)
			}
		})
	}
	// Names get their labels once. At the first scrape those with most jobs come first.
	byLabel, waited := make(map[[2]string]*health.Pair), make(map[string]*spread.Durations)
	for _, key := range slices.SortedFunc(maps.Keys(byName), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(ends(byName[b]), ends(byName[a])), cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	}) {
		queue, class := key[0], key[1]
		switch {
		case queue == "" && class == "": // the tally has no room for its name
			queue, class = Other, Other
		case class == "":
			class = Unknown
		}
		labels, one := p.names.pair("ended", queue, class), byName[key]
		if w := waited[labels[0]]; w != nil {
			w.Add(&one.Waits)
		} else if one.Waits.Count() > 0 {
			sum := one.Waits
			waited[labels[0]] = &sum
		}
		if sum := byLabel[labels]; sum == nil {
			byLabel[labels] = one
		} else {
			add(sum, one)
		}
	}
	for l, one := range byLabel {
		for state, n := range one.Ends {
			if s := outcome.State(state); n > 0 || slices.Contains(always, s) {
				to <- jobs.is(float64(n), l[0], l[1], s.String())
			}
		}
		to <- durations.spreadOf(&one.Runs, since, l[0], l[1])
	}
	for queue, w := range waited {
		to <- waits.spreadOf(w, since, queue)
	}
}

func add(sum, one *health.Pair) {
	for n := range one.Ends {
		sum.Ends[n] += one.Ends[n]
	}
	sum.Runs.Add(&one.Runs)
	sum.Waits.Add(&one.Waits)
}

func ends(p *health.Pair) (n int64) {
	for _, one := range p.Ends {
		n += one
	}
	return n
}

// ofDaemon sends how the daemon is.
func (p *process) ofDaemon(all []neighbor.Measured, to chan<- prometheus.Metric) {
	s, h := p.daemon.Stats(), p.daemon.Health()
	to <- running.is(float64(s.Busy))
	to <- workers.is(float64(s.Busy), "busy")
	to <- workers.is(float64(max(0, s.Workers-s.Busy)), "idle")
	to <- most.is(float64(s.Workers))
	to <- stuck.is(float64(len(p.daemon.StuckJobs())))
	to <- started.is(seconds(s.Since))
	to <- outages.is(float64(s.Outages))
	to <- outageSeconds.is(s.Away.Seconds())
	if !h.LastExchange.IsZero() {
		to <- lastExchange.is(seconds(h.LastExchange))
	}
	if h.LeaseAge > 0 {
		to <- renewed.is(seconds(clock.System.Now().Add(-h.LeaseAge)))
	}
	for scope, on := range map[string]bool{"program": h.PausedByProgram, "operator": h.PausedByOperator, "fleet": h.PausedByFleet, "gate": h.PausedByGate} {
		to <- paused.is(number(on), scope)
	}
	down, again := 0, make(map[string]int)
	for _, part := range p.daemon.PartStates() {
		if part.State == "failed" || part.State == "restarting" {
			down++
		}
		again[p.names.label("part", part.Name, MostOthers)] += part.Restarts
	}
	to <- partsDown.is(float64(down))
	for name, n := range again {
		to <- restarts.is(float64(n), name)
	}
	tracks := len(all) > 0
	for _, m := range all {
		tracks = tracks && m.Meter.Tracking()
	}
	to <- tracking.is(number(tracks))
}

// ofMeters sends what happened beside jobs.
func (p *process) ofMeters(all []neighbor.Measured, to chan<- prometheus.Metric) {
	count := func(e meter.Event) (n float64) {
		for _, m := range all {
			n += float64(m.Meter.Count(e))
		}
		return n
	}
	errors, calls := make(map[string]int64), make(map[meter.Enqueue]int64)
	var times spread.Durations
	var sizes meter.Sizes
	connections := 0.0
	for _, m := range all {
		for kind, n := range m.Meter.Errors() {
			errors[kind] += n
		}
		for of, n := range m.Meter.Enqueues() {
			calls[of] += n
		}
		took, moved := m.Meter.Exchanges()
		times.Add(took)
		sizes.Add(&moved)
		connections += float64(max(0, m.Meter.Count(meter.Connected)-1))
	}
	for kind, n := range errors {
		to <- redisErrors.is(float64(n), kind)
	}
	p.ofEnqueues(calls, to)
	if p.daemon == nil {
		return
	}
	to <- recovered.is(count(meter.Recovered))
	to <- poisoned.is(count(meter.Poisoned))
	to <- duplicates.is(count(meter.Duplicate))
	to <- leaseLost.is(count(meter.LeaseLost))
	to <- steps.is(count(meter.StepDone), "done")
	to <- steps.is(count(meter.StepFailed), "failed")
	to <- steps.is(count(meter.StepNotRun), "not_run")
	to <- eventsDropped.is(count(meter.EventsDropped))
	to <- historyDropped.is(count(meter.HistoryDropped))
	to <- reconnects.is(connections, "poller")
	to <- exchanges.spreadOf(&times, p.daemon.Stats().Since)
	to <- exchanged.sizesOf(sizes)
}

func (p *process) ofEnqueues(calls map[meter.Enqueue]int64, to chan<- prometheus.Metric) {
	sums := make(map[[3]string]float64)
	for _, of := range slices.SortedFunc(maps.Keys(calls), func(a, b meter.Enqueue) int {
		return cmp.Or(cmp.Compare(calls[b], calls[a]), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Result, b.Result))
	}) {
		l := p.names.pair("enqueued", of.Queue, of.Class)
		sums[[3]string{l[0], l[1], of.Result}] += float64(calls[of])
	}
	for l, n := range sums {
		to <- enqueued.is(n, l[0], l[1], l[2])
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func number(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// version is that of goworker in the program.
func version() string {
	const module = "github.com/goworker/goworker"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(slices.Clone(info.Deps), &info.Main) {
		if m.Path == module && m.Version != "" {
			return m.Version
		}
	}
	return "devel"
}
