// Package probe is what every contender has inside: the same handlers, and one
// pipe on which they tell the runner what happened, apart from whatever the
// contender's own library prints.
//
// The runner starts a contender with the pipe as file descriptor 3 and the
// number of jobs it has queued in BENCH_JOBS. Each report is one line:
//
//	first <unix ns>     the first Noop job started
//	last <unix ns>      Noop job number BENCH_JOBS ended
//	ran <n>             Noop jobs run in all, when the contender stops
//	rss <KiB>           the process's highest resident size, when it stops
//	latency <ns>        a Stamp job started this long after it was sent
//	hold <id>           the Hold job of this id started
package probe

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Handler is goworker's handler signature, which all contenders share.
type Handler = func(queue string, args ...interface{}) error

// Probe holds the handlers of one process and what they counted. Its handlers
// may run in any number of goroutines.
type Probe struct {
	expect int64
	ran    atomic.Int64
	report *os.File
}

// New reads what the runner has put into the environment. Without a runner the
// handlers work and report nothing.
func New() *Probe {
	expect, _ := strconv.ParseInt(os.Getenv("BENCH_JOBS"), 10, 64)
	p := &Probe{expect: expect}
	if os.Getenv("BENCH_REPORT") == "3" {
		p.report = os.NewFile(3, "report")
	}
	return p
}

// Handlers are the benchmark's job classes.
func (p *Probe) Handlers() map[string]Handler {
	return map[string]Handler{"Noop": p.noop, "Stamp": p.stamp, "Hold": p.hold}
}

// noop costs one atomic addition, the same for every contender, and tells the
// clock only twice in a run.
func (p *Probe) noop(string, ...interface{}) error {
	n := p.ran.Add(1)
	if n == 1 {
		p.line("first", time.Now().UnixNano())
	}
	if n == p.expect {
		p.line("last", time.Now().UnixNano())
	}
	return nil
}

// stamp's argument is the sender's clock in nanoseconds, as a string so that no
// JSON decoder rounds it. Sender and receiver are on one machine.
func (p *Probe) stamp(_ string, args ...interface{}) error {
	now := time.Now().UnixNano()
	text, _ := args[0].(string)
	sent, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("stamp: %q is not a time in nanoseconds", text)
	}
	p.line("latency", now-sent)
	return nil
}

// hold never returns: the job is running until its process is killed.
func (p *Probe) hold(_ string, args ...interface{}) error {
	p.line("hold", args[0])
	select {}
}

// Close tells the runner what is known only at the end. Call it when the
// contender's loop has returned.
func (p *Probe) Close() {
	p.line("ran", p.ran.Load())
	if kib := peakRSS(); kib > 0 {
		p.line("rss", kib)
	}
}

// line writes at once, in one write below PIPE_BUF, so that lines of several
// goroutines do not mix.
func (p *Probe) line(key string, value any) {
	if p.report != nil {
		fmt.Fprintf(p.report, "%s %v\n", key, value)
	}
}

// peakRSS is this process's own high-water mark in KiB, 0 where the system does
// not tell. getrusage would not do: on Linux its ru_maxrss starts at the size of
// the process that forked us, which is the runner with its preloaded jobs.
func peakRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib
		}
	}
	return 0
}
