package jobs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// oldName is where add was before it was moved.
const oldName = "github.com/acme/app/sums.Add"

// Jobs that were enqueued before a function was renamed run under its alias: those in the queue, delayed ones, retries, those that Rails
// has wrapped, and steps. They are jobs of the class in all that the program sees.
func TestCallOfARenamedFunction(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	before := goworker.New(b.Settings) // the release before: it has the function under its old name
	before.RegisterFunc(add, append(calls, goworker.As(oldName))...)
	client := before.Client()
	queued, err := goworker.Call(t.Context(), client, add, 40, 2)
	if err != nil {
		t.Fatal(err)
	}
	job, err := client.FuncJob(add, 40, 3)
	if err != nil {
		t.Fatal(err)
	}
	delayed, err := client.Enqueue(t.Context(), job, goworker.ProcessIn(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	chain, err := client.Start(t.Context(), goworker.Chain(goworker.FuncStep(add, 1, 2), goworker.FuncStep(add, 41)))
	if err != nil {
		t.Fatal(err)
	}
	b.Push(`{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"`+oldName+`","job_id":"a","arguments":[1,2]}]}`,
		`{"class":"`+oldName+`","args":[1,2]}`)
	before.Close()

	var classes atomic.Pointer[[]string]
	classes.Store(new([]string))
	b.Daemon.AddHooks(goworker.Hooks{Start: func(_ context.Context, d *goworker.Delivery) {
		all := append(slices.Clone(*classes.Load()), d.Class)
		classes.Store(&all)
		if !strings.Contains(string(d.Raw()), oldName) {
			t.Errorf("the payload is %s", d.Raw())
		}
	}})
	b.Settings.Concurrency = 1
	b.Daemon.SetSettings(b.Settings)
	b.Daemon.RegisterFunc(add, append(calls, goworker.Alias(oldName))...)
	b.Start()
	for id, want := range map[string]int{queued.ID: 42, delayed.ID: 43, chain.ID: 44} {
		if got, err := goworker.Await[int](t.Context(), b.Daemon.Client(), id); got != want || err != nil {
			t.Errorf("%d, %v; want %d", got, err, want)
		}
	}
	b.Eventually("all six have run", func() bool { return b.Stat("processed") == 6 })
	for _, class := range *classes.Load() {
		if class != thisPackage+"add" {
			t.Errorf("a job of class %s", class)
		}
	}
	if f := b.Failures(); len(f) > 0 {
		t.Errorf("%+v", f)
	}
	if stats := b.Daemon.Stats().Classes; stats[thisPackage+"add"].Done != 6 || stats[oldName] != (goworker.JobStats{}) {
		t.Errorf("%+v", stats)
	}
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
}

// Limits count the jobs of all names of a class together.
func TestAliasesShareLimits(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	g := daemontest.NewGauge()
	b.Daemon.Register("New", func(tenant string, n int) { g.Run("", n, time.Millisecond) }, goworker.MaxRunning(1), goworker.Alias("Old", "Older"))
	b.Start()
	for n := range 20 {
		b.Push(daemontest.TenantJob("New", "a", n), daemontest.TenantJob("Old", "a", n), daemontest.TenantJob("Older", "a", n))
	}
	b.Eventually("all run", func() bool { return b.Stat("processed") == 60 })
	if most := g.Mosts()[""]; most != 1 {
		t.Errorf("%d ran at a time, want 1", most)
	}
	b.NothingWaits()
}

// A job of one name excludes one of the other. The daemon enqueues them, or a Client that knows the class by Function or Classes.
func TestAliasesShareLocks(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	defer b.Daemon.Close()
	b.Daemon.RegisterFunc(add, goworker.OnQueue("work"), goworker.Alias(oldName), goworker.Unique())
	defined := goworker.Define[int, goworker.None]("New", goworker.OnQueue("work"), goworker.Alias("Old"), goworker.Unique())
	other, err := goworker.NewClient(goworker.WorkerSettings{URI: b.Redis.URI(), RailsJSON: true}, goworker.Classes(defined),
		goworker.Function(add, goworker.OnQueue("work"), goworker.Alias(oldName), goworker.Unique()))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := goworker.Call(t.Context(), b.Daemon.Client(), add, 1, 2); err != nil {
		t.Fatal(err)
	}
	for name, enqueue := range map[string]func() error{
		"by the function": func() error { _, err := goworker.Call(t.Context(), other, add, 1, 2); return err },
		"by the alias": func() error {
			_, err := other.Enqueue(t.Context(), goworker.NewJob("", oldName, 1, 2))
			return err
		},
		"by the alias in the daemon": func() error {
			_, err := b.Daemon.Client().Enqueue(t.Context(), goworker.NewJob("work", oldName, 1, 2))
			return err
		},
	} {
		if err := enqueue(); !errors.Is(err, goworker.ErrDuplicate) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := other.Enqueue(t.Context(), goworker.NewJob("", "Old", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := defined.Enqueue(t.Context(), other, 1); !errors.Is(err, goworker.ErrDuplicate) {
		t.Errorf("%v", err)
	}
	if q := b.Queue("work"); len(q) != 2 || !strings.HasPrefix(q[1], `{"class":"Old","args":[1],"unique":"done:`) {
		t.Errorf("%q", q)
	}
}

// A job that is retried keeps the name that its payload has, and so the count that resque-retry has of it.
func TestAliasIsKeptInRetries(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	var attempts atomic.Int64
	failing := func(string) error { attempts.Add(1); return errors.New("no luck") }
	b.Daemon.Register("New", failing, goworker.Retry(1, goworker.Delays{time.Hour}), goworker.Alias("Old"))
	b.Daemon.Register("NewRuby", failing, goworker.Retry(1, goworker.Delays{time.Hour}, goworker.ResqueRetry{}), goworker.Alias("OldRuby"))
	b.Start()
	b.Push(`{"class":"Old","args":["a"]}`, `{"class":"OldRuby","args":["a"]}`)
	b.Eventually("one waits for its retry", func() bool { return len(b.Scheduled()) == 1 })
	if all := b.Scheduled(); !strings.HasPrefix(all[0], `{"class":"Old","args":["a"],`) || !strings.Contains(all[0], "attempt") {
		t.Errorf("%q", all)
	}
	var ruby []string
	b.Eventually("the other waits in Ruby's schedule", func() bool { ruby = b.Delayed(); return len(ruby) == 1 })
	if !strings.Contains(ruby[0], `"class":"OldRuby"`) {
		t.Errorf("%q", ruby)
	}
	counts := 0
	for _, key := range b.Redis.Keys(t) {
		if strings.Contains(key, "resque-retry:") {
			if counts++; !strings.Contains(key, "resque-retry:OldRuby:") {
				t.Errorf("the count is %s", key)
			}
		}
	}
	if counts == 0 {
		t.Error("there is no count of resque-retry")
	}
}

// What names a class twice is a mistake of the program. What replaces a class takes its aliases away.
func TestNamesOfClasses(t *testing.T) {
	t.Parallel()
	nothing := func() {}
	for want, do := range map[string]func(d *goworker.Daemon){
		`goworker: RegisterFunc: jobs.TestNamesOfClasses.func1 is a closure`:                             func(d *goworker.Daemon) { d.RegisterFunc(nothing) },
		`goworker: RegisterFunc: jobs.person.Greet is a method of one value`:                             func(d *goworker.Daemon) { d.RegisterFunc(person{}.Greet, goworker.As("Greet")) },
		`goworker: RegisterFunc: there is no function`:                                                   func(d *goworker.Daemon) { d.RegisterFunc(nil) },
		`goworker: RegisterFunc: jobs.untyped: the last result of func() string is string`:               func(d *goworker.Daemon) { d.RegisterFunc(untyped) },
		`goworker: RegisterFunc: As(""): the name is empty`:                                              func(d *goworker.Daemon) { d.RegisterFunc(add, goworker.As("")) },
		`goworker: RegisterFunc: As("a") and As("b") both name the class`:                                func(d *goworker.Daemon) { d.RegisterFunc(add, goworker.As("a"), goworker.As("b")) },
		`goworker: RegisterFunc(jobs.add): OnQueue(""): the queue has no name`:                           func(d *goworker.Daemon) { d.RegisterFunc(add, goworker.OnQueue("")) },
		`goworker: RegisterFunc(jobs.add): Alias("` + thisPackage + `add"): the class has this name`:     func(d *goworker.Daemon) { d.RegisterFunc(add, goworker.Alias(thisPackage+"add")) },
		`goworker: Register("A"): As("b"): the class has the name that the call gives it`:                func(d *goworker.Daemon) { d.Register("A", nothing, goworker.As("b")) },
		`goworker: Register("A"): Alias(""): the name is empty`:                                          func(d *goworker.Daemon) { d.Register("A", nothing, goworker.Alias("")) },
		`goworker: Register("A"): Alias("b") is given twice; give it once`:                               func(d *goworker.Daemon) { d.Register("A", nothing, goworker.Alias("b"), goworker.Alias("c", "b")) },
		`goworker: Register("b"): the name b is an Alias of class A; leave it out there`:                 func(d *goworker.Daemon) { d.Register("A", nothing, goworker.Alias("b")); d.Register("b", nothing) },
		`goworker: Register("A"): Alias("b"): the name is a class of its own; leave it out in one place`: func(d *goworker.Daemon) { d.Register("b", nothing); d.Register("A", nothing, goworker.Alias("b")) },
		`goworker: Register("C"): Alias("b"): the name is an Alias of class A`: func(d *goworker.Daemon) {
			d.Register("A", nothing, goworker.Alias("b"))
			d.Register("C", nothing, goworker.Alias("b"))
		},
		`goworker: RegisterFunc(jobs.add): the function has the class a already; for one more class, Register("b", function)`: func(d *goworker.Daemon) {
			d.RegisterFunc(add, goworker.As("a"))
			d.RegisterFunc(add, goworker.As("b"))
		},
	} {
		daemontest.WantPanic(t, want, func() { do(goworker.New(goworker.WorkerSettings{})) })
	}
	for want, options := range map[string][]goworker.ClientOption{
		`goworker: Function: jobs.TestNamesOfClasses.func1 is a closure`:                             {goworker.Function(nothing)},
		`goworker: Function(jobs.add): OnQueue(""): the queue has no name`:                           {goworker.Function(add, goworker.OnQueue(""))},
		`goworker: Function(jobs.join): the name a is an Alias of class ` + thisPackage + `add`:      {goworker.Function(add, goworker.Alias("a")), goworker.Function(join, goworker.As("a"))},
		`goworker: Function(jobs.add): the function has the class a already`:                         {goworker.Function(add, goworker.As("a")), goworker.Function(add)},
		`goworker: Classes: the name A is an Alias of class ` + thisPackage + `add; leave it out th`: {goworker.Function(add, goworker.Alias("A")), goworker.Classes(goworker.Define[int, int]("A"))},
	} {
		if _, err := goworker.NewClient(goworker.WorkerSettings{}, options...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}

	b := daemontest.Setup(t)
	b.Daemon.RegisterFunc(add, goworker.Alias("Old", "Older"))
	b.Daemon.Use(func(next goworker.Handler) goworker.Handler { return next })
	b.Daemon.RegisterFunc(add, goworker.Alias("Old"))
	b.Daemon.Register("Older", func(a, b int) {})
	var names []string
	for _, class := range b.Daemon.Classes() {
		names = append(names, class.Name)
		if class.Name == thisPackage+"add" && !slices.Contains(class.Options, `another name of the class: Alias("Old")`) {
			t.Errorf("%+v", class)
		}
	}
	if want := []string{"Deaf", "Fail", "Hold", "Mark", "Nap", "Older", thisPackage + "add"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	b.Start()
	b.Push(`{"class":"Old","args":[1,2]}`, `{"class":"Older","args":[1,2]}`)
	b.Eventually("both run", func() bool { return b.Stat("processed") == 2 })
	if f := b.Failures(); len(f) > 0 {
		t.Errorf("%+v", f)
	}
}
