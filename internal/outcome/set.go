package outcome

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// Set is the features of a daemon in their order. They admit, wrap, decide and settle in it. A Set
// is safe for concurrent use once it is made, except for Observe and Watch, which come before.
type Set struct {
	store    resque.Store
	schedule resque.Key // of the store
	time     Time
	settings Settings
	classes  Classes

	features  []Feature
	live      []func() uint64  // of those that have one
	fields    map[string][]int // by field: the features that it switches on
	open      []int            // the features that Open jobs without a field
	rest      []Policy         // Bind(nil), by feature
	others    []Policy         // those of them that are not nil
	observers []func(context.Context, *Job, *Outcome)
	watchers  []func(*Job, *Outcome)
	watched   []Watched

	enqueue      []func(*Push) error
	enqueueNamed []func(*Push) error // of jobs with nothing but an id
	enqueueAll   []func(*Push) error // of jobs without that
}

// Time is the fleet's clock: Redis's, as of the last renewal of the lease.
type Time interface {
	Now() time.Time
}

// Classes finds what was registered, and words what is wrong with a job.
type Classes interface {
	// Class returns the class of a name, or of an alias that a class has beside its name; nil if there is none.
	Class(name string) *Class

	// Unknown returns the error of a job whose class is not registered.
	Unknown(class string) error

	// Misfit returns the error of an ActiveJob whose wrapper makes no sense.
	Misfit(class string, e *args.Error) error
}

// New makes a Set of features. For one that only enqueues, nothing of the Deps but the Store and Time is
// needed, and no classes.
func New(d Deps, classes Classes, features ...func(Deps) Feature) *Set {
	if d.Running == nil {
		d.Running = func(func(*Job) bool) {}
	}
	s := &Set{store: d.Store, schedule: d.Store.ScheduleKey(), time: d.Time, settings: d.Settings, classes: classes, fields: make(map[string][]int)}
	for i, make := range features {
		f := make(d)
		s.features = append(s.features, f)
		s.watched = append(s.watched, f.Watch...)
		if f.Live != nil {
			s.live = append(s.live, f.Live)
		}
		if f.Enqueue != nil {
			s.enqueue = append(s.enqueue, f.Enqueue)
			if f.EnqueueAll {
				s.enqueueAll = append(s.enqueueAll, f.Enqueue)
			}
			if f.EnqueueAll || f.EnqueueNamed {
				s.enqueueNamed = append(s.enqueueNamed, f.Enqueue)
			}
		}
		switch {
		case f.Open == nil:
		case f.Field != "":
			for _, field := range append([]string{f.Field}, f.Also...) {
				s.fields[field] = append(s.fields[field], i)
			}
		default:
			s.open = append(s.open, i)
		}
		var rest Policy
		if f.Bind != nil {
			rest = f.Bind(nil)
		}
		s.rest = append(s.rest, rest)
	}
	s.others = s.complete(make([]Policy, len(s.features)), true)
	return s
}

// Observe has f called once for every end, after it was settled and before it is committed.
func (s *Set) Observe(f func(context.Context, *Job, *Outcome)) { s.observers = append(s.observers, f) }

// Watch has f called once for every job that a worker ended, when all of its outcome is known: how long
// it ran too. f is called for each job by the goroutine of its worker, so it waits for nothing.
func (s *Set) Watch(f func(*Job, *Outcome)) { s.watchers = append(s.watchers, f) }

// Marks returns texts of which a payload has one if its job switches a feature on that adds to the end of a done job.
func (s *Set) Marks() (texts []string) {
	for _, f := range s.features {
		if f.Open != nil && f.Field != "" && !f.Quiet {
			texts = append(texts, `"`+f.Field+`":`)
		}
	}
	return texts
}

// Watched returns the keys that the features watch.
func (s *Set) Watched() []Watched { return s.watched }

// Ended shows the outcome of a job, which its worker is about to hand in, to the watchers.
func (s *Set) Ended(j *Job, o *Outcome) {
	for _, watch := range s.watchers {
		watch(j, o)
	}
}

// Run takes a job from its bytes to its outcome: open, admit, perform, decide, settle. perform calls
// the job's handler; it returns the handler's error, and turns a panic into one. o is overwritten. A handler that ends
// its goroutine is for the caller, who then calls Fail.
func (s *Set) Run(ctx context.Context, j *Job, perform Handler, o *Outcome) {
	*o = Outcome{}
	s.read(j)
	j.policies = s.policies(j)
	if s.admit(ctx, j, o) {
		s.settle(ctx, j, o)
		return
	}
	err := j.Err
	if err == nil {
		err = s.perform(ctx, j, perform)
	}
	s.decide(ctx, j, err, o)
}

// Fail decides about a job whose handler ended its goroutine with an error instead of returning.
func (s *Set) Fail(ctx context.Context, j *Job, err error, o *Outcome) {
	*o = Outcome{}
	j.running.Store(nil)
	s.decide(ctx, j, err, o)
}

// End decides about a job that no worker ends: a job of a dead process (Job.Dead), one that goes back
// because the process stops, or one that was leased. Job.Started says whether its handler was called.
// One that was not, and that goes back, is not read.
func (s *Set) End(j *Job, state State, err error) (o Outcome) {
	o.State, o.Err = state, err
	s.Complete(j, &o)
	return o
}

// Complete is End of a job about whose outcome more is known than its state: when it runs again, or how it counts. Job.Value is
// its result, if it is done and has one.
func (s *Set) Complete(j *Job, o *Outcome) {
	if j.Started || o.State != Returned {
		s.read(j)
	}
	if j.policies = s.policies(j); j.policies == nil && o.State != Done && o.State != Returned {
		j.policies = s.others
	}
	s.settle(context.Background(), j, o)
}

// Bury returns the effects with which a job of a dead process ends. A poison job has failed; any other
// goes back.
func (s *Set) Bury(d resque.DeadJob) []resque.Effect {
	j := &Job{Reserved: d.Reserved, Process: d.Process, Worker: d.Worker, Started: d.Started, Dead: true}
	if d.Poison > 0 {
		return s.End(j, Failed, &Poison{Found: d.Poison, Last: d.Process}).Effects
	}
	return s.End(j, Returned, nil).Effects
}

// Running is called when the job has run for 100 ms, by another goroutine than the job's.
func (s *Set) Running(j *Job) {
	if ps := j.running.Load(); ps != nil {
		for _, p := range *ps {
			p.Running(j)
		}
	}
}

// Close closes the features. No job runs any more.
func (s *Set) Close() {
	for _, f := range s.features {
		if f.Close != nil {
			f.Close()
		}
	}
}

// Now returns the time by Redis's clock.
func (s *Set) Now() time.Time { return s.time.Now() }

// Open reads the job's bytes, as Run, End and Complete do.
func (s *Set) Open(j *Job) { s.read(j) }

func (s *Set) read(j *Job) { Read(j, s.classes, s.settings.MaxPayload) }

// Read reads the job's bytes, unless it was done, and finds its class. What is wrong with them, or with
// their length, which may be most bytes, goes to Job.Err.
func Read(j *Job, classes Classes, most int) {
	if j.opened.Load() {
		return
	}
	defer j.opened.Store(true) // what was read is for other goroutines from then on
	if j.Err = payload.CheckSize(j.Payload, most); j.Err != nil {
		j.Parsed = payload.Tail(j.Payload) // what it holds is given up with its end
		j.ID = j.Parsed.ID
		return
	}
	if j.Parsed, j.Err = payload.Parse(j.Payload); j.Err != nil {
		return
	}
	if j.Err = payload.CheckSize(j.Parsed.Text, most); j.Err != nil { // the JSON of a MessagePack item, which Enqueue compares too
		j.ID = j.Parsed.ID
		return
	}
	if j.Parsed.Text != nil && !queues.IsOwn(j.Queue) {
		j.ID, j.Err = j.Parsed.ID, &payload.PackedError{Queue: j.Queue}
		return
	}
	j.Name, j.ID, j.Attempt, j.Args = j.Parsed.Class, j.Parsed.ID, j.Parsed.Attempt, j.Parsed.Args
	j.Class = classes.Class(j.Name)
	if j.Class == nil && j.Name == args.ActiveJobWrapper {
		if j.Err = unwrap(j, classes); j.Err != nil {
			return
		}
		j.Class = classes.Class(j.Name)
	}
	if j.Class == nil {
		j.Err, j.UnknownClass = classes.Unknown(j.Name), true
		return
	}
	j.Handler = j.Class.Handler
	if j.Class.Name != j.Name {
		j.Name, j.Alias = j.Class.Name, j.Name
	}
}

// unwrap makes of Rails' wrapper the job inside. On an error the name is the inner one if it was found.
func unwrap(j *Job, classes Classes) error {
	inner, misfit := args.OpenActiveJob(j.Args)
	if inner.Class != "" {
		j.Name, j.Args = inner.Class, inner.Args
		if inner.ID != "" {
			j.ID = inner.ID
		}
		if inner.Executions > 0 && inner.Executions <= payload.MaxRuns {
			j.Attempt += inner.Executions
		}
	}
	if misfit != nil {
		return classes.Misfit(j.Name, misfit)
	}
	return nil
}

// admit asks the policies whether the job is to run here and now. It returns true if one of them has
// decided otherwise.
func (s *Set) admit(ctx context.Context, j *Job, o *Outcome) bool {
	for _, p := range j.policies {
		if decision, decided := p.Admit(ctx, j); decided {
			*o = decision
			return true
		}
	}
	return false
}

// perform calls the handler inside what the policies wrap around it, unless the job was cancelled. The
// handler's context ends with it, also where it panics or ends its goroutine.
func (s *Set) perform(parent context.Context, j *Job, handler Handler) error {
	ctx := &j.context
	j.set = s
	if err := ctx.begin(parent, j); err != nil {
		return err
	}
	defer ctx.end()
	if len(j.policies) > 0 {
		for _, p := range slices.Backward(j.policies) {
			handler = p.Wrap(handler)
		}
		j.running.Store(&j.policies)
		defer j.running.Store(nil)
	}
	j.Started = true
	err := handler(ctx, j)
	if err != nil && ctx.Err() != nil {
		err = &failure.Cancelled{Cause: context.Cause(ctx), Err: err}
	}
	return err
}

// decide asks the policies what becomes of a job after an error, and settles it.
func (s *Set) decide(ctx context.Context, j *Job, err error, o *Outcome) {
	if err == nil {
		if j.context.ended && j.policies == nil { // done although a feature cancelled it, which may have to know
			j.policies = s.others
		}
		s.settle(ctx, j, o)
		return
	}
	if j.policies == nil {
		j.policies = s.others
	}
	s.ask(ctx, j, err, o)
	s.settle(ctx, j, o)
}

func (s *Set) ask(ctx context.Context, j *Job, err error, o *Outcome) {
	if failure.Interrupted(err) {
		o.State, o.Err = Returned, err
		return
	}
	for _, p := range j.policies {
		if decision, decided := p.Decide(ctx, j, err); decided {
			*o = decision
			return
		}
	}
	o.State, o.Err = Failed, err
}

// Abort files a job as failed whose handler, or a function of the program that was asked what becomes
// of it, ended the goroutine. No policy decides, and no observer is called. o is overwritten.
func (s *Set) Abort(j *Job, err error, o *Outcome) {
	*o = Outcome{State: Failed, Err: err}
	if j.policies == nil {
		j.policies = s.others
	}
	s.complement(j, o)
}

// settle completes an outcome and shows it to the observers.
func (s *Set) settle(ctx context.Context, j *Job, o *Outcome) {
	s.complement(j, o)
	for _, observe := range s.observers {
		observe(ctx, j, o)
	}
}

// complement completes an outcome: its result, where the job goes, what its end gives back, how it counts.
func (s *Set) complement(j *Job, o *Outcome) {
	o.Started = j.Started
	if o.State == Retried && j.Reroute != nil {
		j.Reroute(j, o)
	}
	if !o.Counted {
		o.Counts = o.State.counts()
	}
	if j.Dead { // as when Ruby prunes a worker: the record is all
		o.Counts = resque.CountsNothing
	}
	if j.Found > 0 && !j.Dead && o.State != Returned && o.State != Passed {
		o.Effects = append(o.Effects, s.store.ResetDeaths(j.Reserved))
	}
	if o.State == Retried || o.State == Snoozed {
		for _, own := range j.joined {
			if c, adds := own.Policy.(Continuer); adds {
				c.Continue(j)
			}
		}
	}
	if o.State != Done {
		s.next(j, o)
	} else if j.Keep {
		if o.Result, o.ResultErr = encode(j.Value); o.ResultErr != nil {
			o.Log.Attrs = append(o.Log.Attrs, slog.String("result", "cannot be encoded: "+o.ResultErr.Error()))
		}
	}
	for _, p := range j.policies {
		p.Settle(j, o)
	}
	for _, own := range j.joined {
		own.Settle(j, o)
	}
	if o.Next.Place != Nowhere {
		s.place(j, o)
	}
}

// encode encodes what a handler returned. The program's encoder may panic.
func encode(value any) (result json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, err = nil, fmt.Errorf("panic: %v", v)
		}
	}()
	return json.Marshal(value)
}
