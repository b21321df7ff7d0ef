package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// registry knows one class.
type registry struct{ class outcome.Class }

func (r *registry) Class(name string) *outcome.Class {
	if name == r.class.Name {
		return &r.class
	}
	return nil
}

func (*registry) Unknown(class string) error { return errors.New("unknown class " + class) }

func (*registry) Misfit(class string, e *args.Error) error {
	return fmt.Errorf("misfit %s: %v", class, e)
}

// bundle is a Set with the feature and one behind it that files failures.
type bundle struct {
	*outcome.Set
	t       *testing.T
	server  *redistest.Server // nil: no Redis
	running []*outcome.Job
	breaks  int // so many connections break before they answer

	mu       sync.Mutex
	arrivals []workflows.Arrival
	filed    []error
	decide   *outcome.Outcome // what the feature behind it decides about an error
}

// noted is the step's policy, which shows its arrivals to the test.
type noted struct {
	*step
	b *bundle
}

func (n noted) Settle(j *outcome.Job, o *outcome.Outcome) {
	if a, moves := n.arrival(j, o); moves {
		n.b.mu.Lock()
		defer n.b.mu.Unlock()
		n.b.arrivals = append(n.b.arrivals, a)
	}
}

// files is the policy of all jobs that files failures.
type files struct {
	outcome.None
	b *bundle
}

func (f files) Decide(_ context.Context, _ *outcome.Job, err error) (o outcome.Outcome, decided bool) {
	if f.b.decide == nil {
		return o, false
	}
	o = *f.b.decide
	o.Err = err
	return o, true
}

func (f files) Settle(_ *outcome.Job, o *outcome.Outcome) {
	if o.State == outcome.Failed {
		f.b.filed = append(f.b.filed, o.Err)
	}
}

func setup(t *testing.T, server *redistest.Server) *bundle {
	t.Helper()
	b := &bundle{t: t, server: server}
	d := outcome.Deps{
		Base: part.Base{Store: resque.New(""), Clock: clock.System}, Time: clock.System, Settings: outcome.Settings{MaxPayload: 1 << 10},
		Do: func(_ context.Context, f func(redis.Conn) error) error {
			if server == nil {
				return errors.New("no Redis")
			}
			c := server.Dial(t)
			if b.breaks > 0 {
				b.breaks--
				_ = c.Close()
			}
			return f(c)
		},
		Running: func(yield func(*outcome.Job) bool) { slices.Values(b.running)(yield) },
	}
	b.Set = outcome.New(d, &registry{outcome.Class{Name: "A"}}, func(d outcome.Deps) outcome.Feature {
		f := New(d)
		open := f.Open
		f.Open = func(j *outcome.Job) outcome.Policy {
			s, ok := open(j).(*step)
			if !ok {
				return nil
			}
			return noted{s, b}
		}
		return f
	}, func(outcome.Deps) outcome.Feature {
		return outcome.Feature{Name: "files", Bind: func(c *outcome.Class) outcome.Policy { return files{b: b} }}
	})
	return b
}

// job is a job of workflow w: the step of a number, at a place.
func job(number int, place string, more ...string) *outcome.Job {
	raw := fmt.Sprintf(`{"class":"A","args":[1]%s,"wf":%q,"id":"w.%d"}`, strings.Join(more, ""), place, number)
	return &outcome.Job{Reserved: resque.Reserved{Ticket: 7, Queue: "q", Payload: []byte(raw)}, Process: "p"}
}

const (
	member  = "0 - - 0 - 1 q" // of a group, its result is kept
	unasked = "0 - - 0 - 0 q" // nobody needs its result
	onError = "- - - - - 0 q" // a handler
)

// end is how a job ends in these tests.
type end struct {
	value   any
	several bool
	err     error
	decided *outcome.Outcome
}

func (b *bundle) run(j *outcome.Job, e end) (o outcome.Outcome, called bool) {
	b.arrivals, b.filed, b.decide = nil, nil, e.decided
	b.Run(context.Background(), j, func(context.Context, *outcome.Job) error {
		called = true
		j.Value, j.Several = e.value, e.several
		return e.err
	}, &o)
	return o, called
}

// arrived returns the one arrival, as a letter and a value; "": there was none.
func (b *bundle) arrived() string {
	b.t.Helper()
	switch len(b.arrivals) {
	case 0:
		return ""
	case 1:
		a := b.arrivals[0]
		return fmt.Sprintf("%s.%d %c %s", a.Workflow, a.Step, a.Letter, a.Value)
	}
	b.t.Fatalf("%d arrivals", len(b.arrivals))
	return ""
}

// Each end of a step moves its workflow once, or not at all.
func TestEnds(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	failed := `w.3 f {"step":3,"id":"w.3","class":"A","queue":"q","exception":"Error","error":"no","attempt":1,"state":"%s"}`
	no := errors.New("no")
	for name, test := range map[string]struct {
		job  *outcome.Job
		end  end
		want string
	}{
		"done":                        {job(3, member), end{value: 5}, "w.3 d 5"},
		"a text":                      {job(3, member), end{value: "x"}, `w.3 d "x"`},
		"several values":              {job(3, member), end{value: []any{1, "x"}, several: true}, `w.3 d +[1,"x"]`},
		"one list":                    {job(3, member), end{value: []any{1, "x"}}, `w.3 d [1,"x"]`},
		"several, no list any more":   {job(3, member), end{value: 1, several: true}, `w.3 d 1`},
		"no value":                    {job(3, member), end{}, "w.3 d "},
		"nobody needs it":             {job(3, unasked), end{value: 5}, "w.3 d "},
		"only what follows":           {job(3, "0 - - - - n q"), end{value: 5}, "w.3 d 5"},
		"no JSON, nobody needs it":    {job(3, unasked), end{value: func() {}}, "w.3 d "},
		"too large, nobody needs it":  {job(3, unasked), end{value: strings.Repeat("x", workflows.MaxResult)}, "w.3 d "},
		"failed":                      {job(3, member), end{err: no}, fmt.Sprintf(failed, "failed")},
		"discarded":                   {job(3, member), end{err: no, decided: &outcome.Outcome{State: outcome.Discarded}}, fmt.Sprintf(failed, "discarded")},
		"expired":                     {job(3, member), end{err: no, decided: &outcome.Outcome{State: outcome.Expired}}, fmt.Sprintf(failed, "expired")},
		"cancelled by its id":         {job(3, member), end{err: no, decided: &outcome.Outcome{State: outcome.Cancelled}}, fmt.Sprintf(failed, "cancelled")},
		"retried":                     {job(3, member), end{err: no, decided: &outcome.Outcome{State: outcome.Retried}}, ""},
		"snoozed":                     {job(3, member), end{err: no, decided: &outcome.Outcome{State: outcome.Snoozed}}, ""},
		"returned":                    {job(3, member), end{err: no, decided: &outcome.Outcome{State: outcome.Returned}}, ""},
		"passed":                      {job(3, member), end{err: no, decided: &outcome.Outcome{State: outcome.Passed}}, ""},
		"external, its job is done":   {job(3, member, `,"external":true`), end{value: 5}, ""},
		"external, its job failed":    {job(3, member, `,"external":true`), end{err: no}, fmt.Sprintf(failed, "failed")},
		"a handler":                   {job(3, onError), end{value: 5}, "w.3 d "},
		"a handler has failed":        {job(3, onError), end{err: no}, "w.3 f "},
		"no place":                    {job(3, "0 -"), end{err: no}, ""},
		"not the id of a step":        {job(-3, member), end{err: no}, ""},
		"another program's field":     {job(3, member, `,"wf":{}`), end{}, "w.3 d "}, // the last one counts
		"a name and a second attempt": {job(3, member, `,"step":"fetch","attempt":2`), end{err: no}, strings.Replace(strings.Replace(fmt.Sprintf(failed, "failed"), `"class"`, `"name":"fetch","class"`, 1), `"attempt":1`, `"attempt":2`, 1)},
	} {
		if b.run(test.job, test.end); b.arrived() != test.want {
			t.Errorf("%s: %s\nwant %s", name, b.arrived(), test.want)
		}
	}
}

// A step whose result cannot be passed on has failed, and is filed as such.
func TestResultThatIsNeeded(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for name, value := range map[string]any{"no JSON": func() {}, "too large": strings.Repeat("x", workflows.MaxResult)} {
		o, _ := b.run(job(3, member), end{value: value})
		if o.State != outcome.Failed || o.Counts != resque.CountsFailed || len(b.filed) != 1 || !strings.HasPrefix(b.arrived(), "w.3 f {") {
			t.Errorf("%s: %v, %v, filed %v, %s", name, o.State, o.Counts, b.filed, b.arrived())
		}
		if !strings.Contains(fmt.Sprint(o.Err), "the workflow needs the step's result") {
			t.Errorf("%s: %v", name, o.Err)
		}
	}
}

// What sends a failed step once more has its bytes without what belonged to its runs.
func TestAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	j := job(3, member, `,"attempt":3,"retry_id":"x","meta":{"a":"b"},"expires_at":99999999999999`)
	b.run(j, end{err: errors.New("no")})
	want := `{"class":"A","args":[1],"meta":{"a":"b"},"wf":"` + member + `","id":"w.3"}`
	if got := b.arrivals[0].Again; got != "s n - 0 0 0 0 1:q"+want {
		t.Error(got)
	}
	b.run(job(3, member, `,"external":true`), end{err: errors.New("no")})
	if got := b.arrivals[0].Again; !strings.HasPrefix(got, "y n - ") {
		t.Error(got)
	}
}

// Jobs that no worker of this process ran end their steps too: a poison job, one that cannot be read, one of an unknown
// class. What goes back moves nothing.
func TestBury(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	dead := func(j *outcome.Job, poison int) resque.DeadJob {
		return resque.DeadJob{Reserved: j.Reserved, Process: "p", Worker: "p-0", Started: true, Poison: poison}
	}
	unknown := job(3, member)
	unknown.Payload = []byte(strings.Replace(string(unknown.Payload), `"A"`, `"B"`, 1))
	large := job(3, member)
	large.Payload = []byte(strings.Replace(string(large.Payload), `[1]`, `["`+strings.Repeat("x", 2<<10)+`"]`, 1))
	for name, test := range map[string]struct {
		job    *outcome.Job
		poison int
		want   string
	}{
		"poison":                {job(3, member), 3, "w.3 f"},
		"of an unknown class":   {unknown, 3, "w.3 f"},
		"too large":             {large, 3, "w.3 f"},
		"goes back":             {job(3, member), 0, ""},
		"of an external step":   {job(3, member, `,"external":true`), 3, "w.3 f"},
		"of a handler":          {job(3, onError), 3, "w.3 f"},
		"unknown and goes back": {unknown, 0, ""},
	} {
		b.arrivals = nil
		b.Bury(dead(test.job, test.poison))
		if got := b.arrived(); !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
	b.arrivals = nil
	if o := b.End(job(3, member), outcome.Returned, failure.ErrShutdown); b.arrived() != "" || o.Next.Place != outcome.Head {
		t.Errorf("given back at a stop: %q, %v", b.arrived(), o.Next.Place)
	}
	o, called := b.run(large, end{})
	if called || o.State != outcome.Failed || !strings.HasPrefix(b.arrived(), "w.3 f") {
		t.Errorf("too large for its worker: %v, %q", o.State, b.arrived())
	}
}

// A job without a place has no policy of the feature, and a step of ActiveJob is known by the id around it.
func TestOtherJobs(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	j := job(3, member)
	j.Payload = []byte(`{"class":"A","args":[1],"id":"w.3"}`)
	if o, _ := b.run(j, end{value: 1}); b.arrived() != "" || o.Result != nil {
		t.Errorf("%q, %s", b.arrived(), o.Result)
	}
	j = job(3, member)
	j.Payload = []byte(`{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"A","job_id":"aj","arguments":[1]}],"wf":"` + member + `","id":"w.3"}`)
	b.run(j, end{value: 1})
	if b.arrived() != "w.3 d 1" || j.ID != "aj" {
		t.Errorf("%q, %s", b.arrived(), j.ID)
	}
}

// The fields of a step come behind those of the other features.
func TestEnqueue(t *testing.T) {
	t.Parallel()
	f := NewMark(outcome.Deps{})
	p := &outcome.Push{Queue: "q", Name: "A", Options: new(outcome.Options), Fields: []payload.Field{payload.NumberField("result", 1)}}
	if err := f.Enqueue(p); err != nil || len(p.Fields) != 1 {
		t.Errorf("%v, %v", p.Fields, err)
	}
	outcome.Put(p.Options, Step{Place: member, Name: "fetch", External: true})
	if err := f.Enqueue(p); err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(p.Fields)
	want, _ := json.Marshal([]payload.Field{
		payload.NumberField("result", 1), payload.TextField("step", "fetch"), payload.TextField("wf", member), {Name: "external", Value: []byte("true")},
	})
	if string(got) != string(want) {
		t.Errorf("%s", got)
	}
}

// standing writes how workflow w stands.
func (b *bundle) standing(letters string, fields ...any) {
	b.t.Helper()
	b.server.Do(b.t, "SET", "resque:go:wf-steps:w", letters)
	b.server.Do(b.t, "DEL", "resque:go:wf:w")
	if len(fields) > 0 {
		b.server.Do(b.t, "HSET", append([]any{"resque:go:wf:w"}, fields...)...)
	}
}

// halted makes these the halted workflows.
func (b *bundle) halted(ids ...string) {
	b.t.Helper()
	b.server.Do(b.t, "DEL", "resque:go:halted")
	for n, id := range ids {
		b.server.Do(b.t, "ZADD", "resque:go:halted", n, id)
	}
	if err := b.read(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) read() error { return b.Watched()[0].Read(b.server.Dial(b.t)) }

// A step of a halted workflow is dropped before it runs, unless it is a failure that is retried, or a handler.
func TestHalted(t *testing.T) {
	t.Parallel()
	b := setup(t, redistest.Start(t))
	for name, test := range map[string]struct {
		letters string
		fields  []any
		job     *outcome.Job
		dropped bool
	}{
		"cancelled":                 {"ddds", []any{"state", "cancelled"}, job(3, member), true},
		"expired":                   {"ddds", []any{"state", "expired"}, job(3, member), true},
		"failed":                    {"ddds", []any{"state", "failed"}, job(3, member), true},
		"an external step":          {"dddy", []any{"state", "failed"}, job(3, member, `,"external":true`), true},
		"failed, and the rest runs": {"ddds", []any{"state", "failed", "rest", "1"}, job(3, member), false},
		"running by now":            {"ddds", []any{"state", "running"}, job(3, member), false},
		"retrying":                  {"ddds", []any{"state", "retrying"}, job(3, member), false},
		"a failure is retried":      {"dddf", []any{"state", "cancelled"}, job(3, member), false},
		"dropped, and retried":      {"dddx", []any{"state", "cancelled"}, job(3, member), false},
		"a handler":                 {"dddr", []any{"state", "cancelled"}, job(3, onError), false},
		"no such letter":            {"d", []any{"state", "cancelled"}, job(3, member), false},
		"gone":                      {"ddds", nil, job(3, member), false},
	} {
		b.standing(test.letters, test.fields...)
		b.halted("v", "w")
		o, called := b.run(test.job, end{})
		if called == test.dropped || (o.State == outcome.Cancelled) != test.dropped {
			t.Errorf("%s: %v, called %v", name, o.State, called)
		}
		if test.dropped && (b.arrivals[0].Letter != workflows.NotRun || len(b.filed) != 0 || !errors.Is(o.Err, failure.ErrCancelled) ||
			o.Counts != resque.CountsNothing || b.arrivals[0].Again == "") {
			t.Errorf("%s: %+v, %v, %v", name, b.arrivals, o.Err, o.Counts)
		}
	}
	b.standing("ddds", "state", "cancelled")
	b.halted("v")
	if _, called := b.run(job(3, member), end{}); !called {
		t.Error("it is not in the set, and was dropped")
	}
	b.halted()
	if _, called := b.run(job(3, member), end{}); !called {
		t.Error("the set is empty")
	}
}

// A step whose question went to a broken connection asks again. One whose question Redis refuses runs.
func TestHaltedAsksAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, redistest.Start(t))
	b.standing("ddds", "state", "cancelled")
	b.halted("w")
	b.breaks = 2
	if _, called := b.run(job(3, member), end{}); called || b.breaks > 0 {
		t.Errorf("called %v, %d connections were not tried", called, b.breaks)
	}
	b.server.Do(t, "SET", "resque:go:wf:w", "x")
	if _, called := b.run(job(3, member), end{}); !called {
		t.Error("Redis refused, and it was dropped")
	}
}

// The context of a running step ends if its workflow was cancelled or has expired, or if it failed and cancels what runs.
func TestStopsWhatRuns(t *testing.T) {
	t.Parallel()
	b := setup(t, redistest.Start(t))
	for name, test := range map[string]struct {
		fields []any
		stops  bool
	}{
		"cancelled":                     {[]any{"state", "cancelled"}, true},
		"expired":                       {[]any{"state", "expired"}, true},
		"failed":                        {[]any{"state", "failed"}, false},
		"failed, cancels what runs":     {[]any{"state", "failed", "cancels", "1"}, true},
		"failed, and all the rest runs": {[]any{"state", "failed", "cancels", "1", "rest", "1"}, false},
	} {
		b.standing("ddds", test.fields...)
		for _, result := range []error{errors.New("anything"), nil} {
			b.halted()
			b.arrivals, b.filed, b.decide = nil, nil, nil
			j := job(3, member)
			b.running = []*outcome.Job{job(4, member), j} // the first one was not read yet
			var o outcome.Outcome
			b.Run(context.Background(), j, func(ctx context.Context, _ *outcome.Job) error {
				b.halted("w")
				if ended := ctx.Err() != nil; ended != test.stops || ended && !errors.Is(context.Cause(ctx), failure.ErrCancelled) {
					t.Errorf("%s: %v", name, context.Cause(ctx))
				}
				return result
			}, &o)
			want := "fd"
			if test.stops {
				want = "xd"
			}
			if result == nil {
				want = want[1:]
			}
			if got := string(b.arrivals[0].Letter); got != want[:1] {
				t.Errorf("%s, %v: %s", name, result, got)
			}
		}
	}
}

// With more halted workflows than a process keeps, Redis is asked about each step. Where it does not answer, steps run.
func TestMoreThanMost(t *testing.T) {
	t.Parallel()
	b := setup(t, redistest.Start(t))
	b.standing("ddds", "state", "cancelled")
	b.server.Do(t, "EVAL", `for n = 0, ARGV[1] do redis.call('ZADD', KEYS[1], n, 'v' .. n) end redis.call('ZADD', KEYS[1], -1, 'w')`, 1, "resque:go:halted", Most)
	if err := b.read(); err != nil {
		t.Fatal(err)
	}
	if _, called := b.run(job(3, member), end{}); called {
		t.Error("it ran")
	}
	b.server.Do(t, "SET", "resque:go:wf:w", "x")
	if _, called := b.run(job(3, member), end{}); !called {
		t.Error("it did not run")
	}
	b.server.Do(t, "SET", "resque:go:halted", "x")
	if named := new(resque.KeyTypeError); !errors.As(b.read(), &named) {
		t.Error(b.read())
	}
}

// A handler finds its workflow, and reads results.
func TestOf(t *testing.T) {
	t.Parallel()
	b := setup(t, redistest.Start(t))
	b.standing("ddds", "state", "running", "n:fetch", 1, "r1", `"page"`, "n:none", 2, "n:me", 3)
	var o outcome.Outcome
	b.Run(context.Background(), job(3, member, `,"step":"me"`), func(ctx context.Context, _ *outcome.Job) error {
		r := Of(ctx)
		if r == nil || r.Workflow != "w" || r.Step != 3 || r.Name != "me" || r.Place.Joins != "0" {
			t.Errorf("%+v", r)
		}
		for name, want := range map[string]string{"fetch": `"page"`, "none": "", "me": "it is not done", "other": "no step named"} {
			got, err := r.Result(ctx, name)
			if text := string(got) + fmt.Sprint(err); !strings.Contains(text, want) || want == "" && got != nil {
				t.Errorf("%s: %s, %v", name, got, err)
			}
		}
		return nil
	}, &o)
	if Of(context.Background()) != nil {
		t.Error("a run without a job")
	}
	if o.State != outcome.Done {
		t.Error(o.Err)
	}
}
