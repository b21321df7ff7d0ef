package goworker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/isolate"
	"github.com/goworker/goworker/internal/setting"
)

// DefaultKillGrace is how long an isolated job has from the end of its context until
// its processes are killed.
const DefaultKillGrace = 4 * time.Second

// HardTimeoutMargin is how long after its Timeout an isolated job is killed where its
// class has no HardTimeout.
const HardTimeoutMargin = 10 * time.Second

// Isolated runs each job of the class in a child process of its own: this program is
// started again, its main runs as always, and where it calls Work or Run the child
// runs that one job instead. Whatever the job does to its process — a crash, an
// endless loop, os.Exit, memory that runs out — is that job's failure and nothing
// else.
//
// The child is the leader of a process group. When the job is over, and when it is
// killed, all processes of that group are, so nothing that the handler started stays
// behind. When the daemon's process dies, so does the group.
//
// What holds for the child:
//   - everything main does before Work happens in it too; see IsolatedChild;
//   - the handler and all middleware run in it, hooks in the daemon;
//   - of the parts only those with Part.Isolated run in it;
//   - standard input is empty, output goes where the daemon's goes;
//   - a result of up to 16 MiB reaches hooks as Delivery.Result in the form of a
//     json.RawMessage;
//   - an error reaches them with its text, its failure record and what errors.Is and
//     errors.As find in its exported fields.
//
// A child costs some milliseconds to start. It needs Linux, macOS or another Unix;
// elsewhere each job of the class fails.
func Isolated(opts ...IsolatedOption) Option {
	i := isolation{Limits: isolate.Limits{Grace: DefaultKillGrace, AtShutdown: cancelGrace / 2}}
	for _, opt := range opts {
		if opt == nil {
			i.Wrong("a nil IsolatedOption was given; leave it out")
		} else {
			opt(&i)
		}
	}
	return option(func(o *options) {
		o.Once("how jobs are isolated", "Isolated")
		o.Take("Isolated", i.First)
		own := i // one value of Isolated may serve several classes
		o.instead, o.check = &own, own.check
	})
}

// IsolatedOption is a setting of Isolated. Mistakes are reported by Register; see Option.
type IsolatedOption func(*isolation)

// isolation is how the jobs of a class are isolated.
type isolation struct {
	setting.Mistakes
	isolate.Limits
}

// HardTimeout ends the job's processes this long after they were started: its context
// is cancelled, all of them get SIGTERM, and after the KillGrace SIGKILL. The job is a
// failure with a *TimeLimitError. Without it an isolated job has its Timeout and
// HardTimeoutMargin more; with neither, all the time it takes.
//
// It must not be less than the class's Timeout, which ends the context only. 0 is as
// without it; it must not be negative.
func HardTimeout(d time.Duration) IsolatedOption {
	return func(i *isolation) {
		i.Hard = d
		i.number(d < 0, "when the job is ended", fmt.Sprintf("HardTimeout(%s)", d))
	}
}

// number adds the mistakes of an option that says a number, which must not be negative.
func (i *isolation) number(negative bool, what, option string) {
	i.Once(what, option)
	if negative {
		i.Wrong("%s: it cannot be negative; leave it out for the default", option)
	}
}

// KillGrace is how long the job has, once its context was cancelled, before its
// processes are killed. At a shutdown it is at most a second. The default
// is DefaultKillGrace; 0 kills at once. It must not be negative.
func KillGrace(d time.Duration) IsolatedOption {
	return func(i *isolation) {
		i.Grace = d
		i.number(d < 0, "when the job is killed", fmt.Sprintf("KillGrace(%s)", d))
	}
}

// MaxMemory kills the job's processes when together they hold more than so many bytes
// of memory, and makes the job a failure with a *MemoryLimitError. It is looked at ten
// times a second, so a fast allocation may go beyond it for a moment. Go's collector
// knows the limit. On Linux the memory is that of the child and its descendants;
// elsewhere it is what the Go runtime of the child counts, without C and without
// other processes. 0, the default, is no limit; it must not be negative.
func MaxMemory(bytes int64) IsolatedOption {
	return func(i *isolation) {
		i.Memory = bytes
		i.number(bytes < 0, "how much memory the job may hold", fmt.Sprintf("MaxMemory(%d)", bytes))
	}
}

// ChildEnv adds variables to the child's environment, each as "NAME=value". It has
// all of the daemon's besides. Given more than once, all of them count, but each name may
// be there once.
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

// IsolatedChild reports whether this process was started to run one job of a class that
// is Isolated. A main asks it to leave out what only the daemon needs, such as
// listening on a port; it must register the classes and call Work or Run in any case.
func IsolatedChild() bool { return isolate.Child() }

// check returns what is wrong with the limits of a class. Without a HardTimeout it sets that which
// follows from the Timeout.
func (i *isolation) check(o *options) error {
	switch {
	case i.Hard > 0 && o.timeout > i.Hard:
		return fmt.Errorf("its Timeout of %s is longer than its HardTimeout of %s, so its context would never end by it; give the Timeout less",
			o.timeout, i.Hard)
	case i.Hard == 0 && o.timeout > 0:
		i.Hard = o.timeout + HardTimeoutMargin
	}
	o.limit = i.Deadline()
	return nil
}

// Perform runs the job in a child process.
func (i *isolation) Perform(ctx context.Context, d *Delivery) error {
	r := isolate.Request{
		Queue: d.Queue, Payload: d.raw, ID: d.ID, Attempt: d.Attempt, Retries: d.RetriesLeft, Recovered: d.Recovered,
		Worker: d.Worker, ReservedAt: d.ReservedAt, UseNumber: d.useNumber, Daemon: d.daemon,
	}
	result, err := i.Run(ctx, d.Class, r)
	if result != nil {
		d.Result = result
	}
	return i.failure(d.Class, err)
}

// failure is the error of a job of a class that was isolated.
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

// StuckAfter is how long after the time limit of its class a job still runs until it
// counts as stuck.
const StuckAfter = 10 * time.Second

// StuckJob is a job that runs although the time limit of its class has passed. Its
// worker takes no other job until the handler returns: nothing ends a goroutine from
// outside.
type StuckJob struct {
	Queue  string
	Class  string
	ID     string // as Delivery.ID
	Worker string // as Delivery.Worker

	Started time.Time
	Limit   time.Duration // the Timeout of its class, or the HardTimeout of an isolated one
}
