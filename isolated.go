package goworker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/feature/cursor"
	"github.com/goworker/goworker/internal/feature/results"
	"github.com/goworker/goworker/internal/isolate"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/setting"
)

// DefaultKillGrace is the time from the end of an isolated job's context until its
// processes are killed.
const DefaultKillGrace = 4 * time.Second

// HardTimeoutMargin is how long after its Timeout an isolated job is killed if its
// class has no HardTimeout.
const HardTimeoutMargin = 10 * time.Second

// Isolated runs each job of the class in a child process of its own. The daemon starts
// this program again. Its main runs as always, and in place of Work or Run the child
// runs that one job. A crash, an endless loop, an os.Exit or memory that runs out fails
// that job and nothing else.
//
// The child is the leader of a process group. When the job is over or is killed, all
// processes of that group are killed, so no process that the handler started stays
// behind. When the daemon's process dies, so does the group.
//
// Rules for the child:
//   - it does everything that main does before Work; see IsolatedChild;
//   - the handler and all middleware run in it, hooks in the daemon;
//   - of the parts only those with Part.Isolated run in it;
//   - standard input is empty, output goes to the daemon's output;
//   - a result of up to 16 MiB reaches hooks as Delivery.Result in the form of a
//     json.RawMessage;
//   - an error reaches them with its text, its failure record and its exported fields,
//     which errors.Is and errors.As find.
//
// A child costs some milliseconds to start. It needs Linux, macOS or another Unix;
// elsewhere each job of the class fails.
func Isolated(opts ...IsolatedOption) Option {
	i := isolation{Limits: isolate.Limits{Grace: DefaultKillGrace, AtShutdown: part.CancelGrace / 2}}
	for _, opt := range opts {
		if opt == nil {
			i.Wrong("a nil IsolatedOption was given; leave it out")
		} else {
			opt(&i)
		}
	}
	return option(func(o *options) {
		o.Once("how jobs are isolated", "Isolated")
		o.Take("Isolated", i.Mistakes)
		own := i // one value of Isolated may serve several classes
		o.instead, o.check = &own, own.check
	})
}

// IsolatedOption is a setting of Isolated:
//
//   - HardTimeout, KillGrace: when the job's processes are ended, and when they are killed
//   - MaxMemory: how much memory they may hold
//   - ChildEnv: a variable of their environment
//   - Reuse: how many jobs a child runs
//
// Mistakes are reported by Register; see Option.
type IsolatedOption func(*isolation)

// isolation is the options of one Isolated. It is the Handler that starts the children.
type isolation struct {
	setting.Mistakes
	isolate.Limits
	fixed bool           // the class was given the HardTimeout
	ruled *time.Duration // the Timeout by a rule of operators; nil: there is none
}

// HardTimeout ends the job's processes this long after their start: its context is
// cancelled, they get SIGTERM, and after the KillGrace SIGKILL. The job is a failure
// with a *TimeLimitError. The default is the class's Timeout and HardTimeoutMargin;
// without a Timeout there is no limit.
//
// It must not be less than the class's Timeout, which ends the context only. 0 is the
// default; it must not be negative.
func HardTimeout(d time.Duration) IsolatedOption {
	return func(i *isolation) {
		i.Hard = d
		i.number(d < 0, "when the job is ended", fmt.Sprintf("HardTimeout(%s)", d))
	}
}

// number adds the mistakes of an option whose number must not be negative.
func (i *isolation) number(negative bool, what, option string) {
	i.Once(what, option)
	if negative {
		i.Wrong("%s: it cannot be negative; leave it out for the default", option)
	}
}

// KillGrace is the time from the cancellation of the job's context until its processes
// are killed. At a shutdown it is at most a second. The default is DefaultKillGrace; 0
// kills at once. It must not be negative.
func KillGrace(d time.Duration) IsolatedOption {
	return func(i *isolation) {
		i.Grace = d
		i.number(d < 0, "when the job is killed", fmt.Sprintf("KillGrace(%s)", d))
	}
}

// MaxMemory kills the job's processes when together they hold more than so many bytes
// of memory, and makes the job a failure with a *MemoryLimitError. The daemon checks it
// ten times a second, so a fast allocation may exceed it for a moment. Go's collector
// knows the limit. On Linux it counts the memory of the child and its descendants.
// Elsewhere it counts the memory of the child's Go runtime, without C and without other
// processes. Without it, or with 0, there is no limit; it must not be negative.
func MaxMemory(bytes int64) IsolatedOption {
	return func(i *isolation) {
		i.Memory = bytes
		i.number(bytes < 0, "how much memory the job may hold", fmt.Sprintf("MaxMemory(%d)", bytes))
	}
}

// Reuse has a child run up to n jobs, one after the other, and not one only: a start costs some milliseconds of processor
// time. A crash still costs only the job that the child has. Before the next job the child kills all processes that the
// last one has left, those too that left the group. After a job that left goroutines behind, was cancelled or reached its
// HardTimeout, and when the child holds more memory than half of MaxMemory, or than 64 MiB without, the next job gets a new
// child. What else a handler changes, such as a global variable, the next job finds. Parts run as long as the child, which
// ends after ten seconds without a job. n must be at least 1, which is the default. Linux only.
func Reuse(n int) IsolatedOption {
	return func(i *isolation) {
		i.Once("how many jobs a child runs", fmt.Sprintf("Reuse(%d)", n))
		if i.Reuse = n; n < 1 {
			i.Wrong("Reuse(%d): a child runs at least one job; leave it out for one", n)
		} else if n > 1 && isolate.CannotReuse != "" {
			i.Wrong("Reuse(%d): %s; leave it out for a child a job", n, isolate.CannotReuse)
		}
	}
}

// ChildEnv adds variables to the child's environment, each as "NAME=value". The child
// also has all of the daemon's. It may be given more than once, but only once for each
// name.
func ChildEnv(vars ...string) IsolatedOption {
	return func(i *isolation) {
		for _, v := range vars {
			name, _, ok := strings.Cut(v, "=")
			if !ok || name == "" {
				i.Wrong("%q is not NAME=value, which ChildEnv takes", v)
			}
			i.Once("the variable "+name, fmt.Sprintf("ChildEnv(%s)", name))
		}
		i.Env = append(i.Env, vars...)
	}
}

// IsolatedChild reports whether this process was started to run jobs of a class that
// is Isolated. A main calls it to skip steps that only the daemon needs, such as
// listening on a port. It must register the classes and call Work or Run in any case.
func IsolatedChild() bool { return isolate.Child() }

// check returns what is wrong with the limits of a class. Without a HardTimeout it sets the
// default, which follows from the Timeout.
func (i *isolation) check(o *options) error {
	switch {
	case i.Hard > 0 && o.timeout > i.Hard:
		return fmt.Errorf("its Timeout of %s is longer than its HardTimeout of %s, so its context would never end by it; give the Timeout less",
			o.timeout, i.Hard)
	case i.Hard > 0:
		i.fixed = true
	case o.timeout > 0:
		i.Hard = o.timeout + HardTimeoutMargin
	}
	return nil
}

// within returns the limits of a job that has a Timeout of its own, or by a rule of operators, which the child does not know.
func (i *isolation) within(timeout time.Duration, ruled bool) *isolation {
	own := *i
	if ruled {
		own.ruled = &timeout
	}
	if i.fixed {
		return &own
	}
	if own.Hard = 0; timeout > 0 {
		own.Hard = timeout + HardTimeoutMargin
	}
	return &own
}

// Perform runs the job in a child process.
func (i *isolation) Perform(ctx context.Context, d *Delivery) error {
	r := isolate.Request{
		Queue: d.Queue, Payload: d.raw, ID: d.ID, Attempt: d.Attempt, Retries: d.RetriesLeft, Recovered: d.Recovered,
		Worker: d.Worker, ReservedAt: d.ReservedAt, UseNumber: d.useNumber, Daemon: d.daemon,
		Timeout: i.ruled,
	}
	if d.file != nil {
		r.Config, _ = json.Marshal(d.file)
	}
	if j := outcome.JobOf(ctx); j != nil {
		r.Process, r.Ticket = j.Process, j.Ticket
	}
	run := results.Of(ctx)
	r.Said = func(said json.RawMessage) {
		if run != nil {
			run.Hear(said)
		}
		cursor.Hear(ctx, said)
	}
	result, err := i.Run(ctx, d.Class, r, d.children)
	if result != nil {
		d.Result = result
	}
	return i.failure(d.Class, err)
}

// failure returns the public error of an isolated job.
func (i *isolation) failure(class string, err error) error {
	switch e := err.(type) {
	case *isolate.Crash:
		return &CrashError{Class: class, ExitCode: e.ExitCode, Signal: e.Signal, Stderr: e.Stderr, how: e.How}
	case *isolate.OverTime:
		return &TimeLimitError{Class: class, Limit: i.Hard, Err: e.Err, trace: e.Trace}
	case *isolate.OverMemory:
		return &MemoryLimitError{Class: class, Limit: i.Memory, Used: e.Used}
	}
	return err
}

// StuckAfter is how long a job may run after the time limit of its class before it
// counts as stuck.
const StuckAfter = 10 * time.Second

// StuckJob is a job that runs although the time limit of its class has passed. Its
// worker takes no other job until the handler returns: no other goroutine can end it.
type StuckJob struct {
	Queue  string
	Class  string
	ID     string // as Delivery.ID
	Worker string // as Delivery.Worker

	Started time.Time
	Limit   time.Duration // the Timeout of its class, or the HardTimeout of an isolated one
}
