// Package probe is what every contender has inside: the same jobs, the same
// modes, and one pipe on which it tells the runner what happened, apart from
// whatever the contender's own library prints. ../node/probe.mjs is the same in
// JavaScript.
//
// The runner starts a contender with a Config as JSON in BENCH and the pipe as
// file descriptor 3. Each report is one line:
//
//	first <unix ns>     the first counted job started
//	last <unix ns>      counted job number Config.Jobs ended
//	ran <n>             counted jobs that had ended by then
//	sum <n>             the sum of their numbers, which tells one job run twice and
//	                    another not at all from all of them run once
//	extra <n>           a counted job ended after that
//	pushed <ns>         how long pushing Config.Jobs jobs took
//	cpu <µs>            processor time from the first to the last job, or of pushing
//	mallocs <n>         heap allocations in the same time, where it is known
//	rss <KiB>           the process's highest resident size until then
//	latency <ns>        a Stamp job started this long after it was sent, or was due;
//	                    or a wait for a result ended this long after the call, or the
//	                    handler's end
//	waiting <n>         so many waits for a result have begun
//	awaited <n>         so many waits have ended, and each was reported
//	began <unix ns>     the first call that starts a workflow begins
//	took <ns>           how long starting the workflows took, or all waits
//	started <n>         so many were started
//	warm <unix ns>      the callback of the workflow that comes first has run
//	called <unix ns>    the last callback has run; ran and sum are of the members
//	flows <n>           so many callbacks have run
//	wrong <n>           the callback of workflow n did not get the results of its members
//	hold <id>           the Hold job of this id started
package probe

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"
)

// The modes of a contender.
const (
	Work  = "work"  // run jobs until killed
	Push  = "push"  // push Jobs jobs as fast as it goes, and end
	Stamp = "stamp" // push Jobs Stamp jobs with random gaps, perhaps delayed, and end
	Call  = "call"  // push Jobs jobs, wait for the result of each, and end; one by one with random gaps, or from several Producers at once
	Await = "await" // wait for the results of Jobs Named jobs at the same time, and end
	Start = "start" // start Flows workflows, and end
)

// The orders in which several queues are asked.
const (
	Strict   = "strict"
	Weighted = "weighted"
	All      = "all" // every queue there is, by the pattern *
)

// Far is the class of jobs that wait and never run. They have one argument of 16
// bytes, each another.
const Far = "Far"

// Config is what a contender is asked to do.
type Config struct {
	Mode    string   `json:"mode"`
	Addr    string   `json:"addr"` // of Redis, host:port
	Queues  []string `json:"queues"`
	Beside  []string `json:"beside"` // queues that are worked too, and stay empty
	Order   string   `json:"order"`
	Shards  []string `json:"shards"`  // of several Redises, host:port; each has the queue of the same place
	Weights []int    `json:"weights"` // of the weighted order; nil are 1 to 5 by turns
	Workers int      `json:"workers"`
	Variant string   `json:"variant"` // of a contender that comes in several

	Jobs      int           `json:"jobs"`  // counted jobs: those queued, or those to push
	Class     string        `json:"class"` // of the jobs to push
	Size      int           `json:"size"`  // of their Resque payload in bytes
	Producers int           `json:"producers"`
	Bulk      int           `json:"bulk"`  // jobs in a call; 0 pushes one by one
	Named     bool          `json:"named"` // the pushed jobs have ids; see ID
	GapMin    time.Duration `json:"gap_min"`
	GapMax    time.Duration `json:"gap_max"`

	// Delayed: the counted jobs are, or were, pushed for later. At is when the first of
	// those to push is due, in Unix nanoseconds, and each other one is due Step after the
	// one before it.
	Delayed bool          `json:"delayed"`
	At      int64         `json:"at"`
	Step    time.Duration `json:"step"`
	// DelayMin and DelayMax are how long after its sending a Stamp job is due; Whole, at
	// the next whole second from then on.
	DelayMin time.Duration `json:"delay_min"`
	DelayMax time.Duration `json:"delay_max"`
	Whole    bool          `json:"whole"`

	// Workflows. With a Rate so many are started a second for the time of For, in steps of Every; worked, every so
	// many are reported. Warm starts one that is not counted.
	Shape   string        `json:"shape"`
	Flows   int           `json:"flows"`
	Members int           `json:"members"` // of each
	Keep    time.Duration `json:"keep"`    // each is kept so long after its end; 0 is the contender's default
	Rate    int           `json:"rate"`
	For     time.Duration `json:"for"`
	Every   int           `json:"every"`
	Warm    bool          `json:"warm"`
}

// Weight is the weight of queue number i in the weighted order.
func (c Config) Weight(i int) int {
	if c.Weights != nil {
		return c.Weights[i]
	}
	return 1 + i%5
}

// QueueList is the queues as Resque workers take them on their command line.
func (c Config) QueueList() string {
	if c.Order == All {
		return "*"
	}
	list := make([]string, len(c.Queues))
	for i, name := range c.Queues {
		list[i] = name
		if c.Order == Weighted {
			list[i] += "=" + strconv.Itoa(c.Weight(i))
		}
	}
	return strings.Join(append(list, c.Beside...), ",")
}

// Args are the arguments of counted job number i: filler, so that the job's
// Resque payload has size bytes, and the number.
func Args(class string, i, size int) (filler string, number int) {
	rest := size - len(`{"class":"","args":["",]}`) - len(class) - len(strconv.Itoa(i))
	return strings.Repeat("a", max(rest, 0)), i
}

// Handler is goworker's handler signature, which all contenders share.
type Handler = func(queue string, args ...interface{}) error

// Main is a contender's main function. Work runs jobs until the process is
// killed or something breaks; produce makes what pushes them, nil for a
// contender whose jobs the runner pushes as plain bytes.
func Main(work func(Config, map[string]Handler) error, produce func(Config) (Producer, error)) {
	var c Config
	err := json.Unmarshal([]byte(os.Getenv("BENCH")), &c)
	if err == nil {
		r := reporter{os.NewFile(3, "report")}
		switch c.Mode {
		case Work:
			handlers := newCounter(c, r).handlers()
			maps.Copy(handlers, newFlowCounter(c, r).handlers())
			err = work(c, handlers)
		case Push, Stamp, Call, Await, Start:
			var p Producer
			if p, err = produce(c); err == nil {
				err = run(c, p, r)
			}
		default:
			err = fmt.Errorf("no mode %q; the runner starts this program", c.Mode)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// reporter writes at once, in one write below PIPE_BUF, so that lines of several
// goroutines do not mix.
type reporter struct{ pipe *os.File }

func (r reporter) line(key string, value any) { fmt.Fprintf(r.pipe, "%s %v\n", key, value) }
