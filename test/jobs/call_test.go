package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

const thisPackage = "github.com/goworker/goworker/test/jobs."

// The functions that the tests call.

func add(_ context.Context, a, b int) (int, error) { return a + b, nil }

func join(sep string, parts ...string) (string, error) { return strings.Join(parts, sep), nil }

func describe(_ context.Context, who *person, at time.Time, raw json.RawMessage) (string, error) {
	if who == nil {
		return "nobody", nil
	}
	return fmt.Sprintf("%s, %d, %s, %s", who.Name, who.Age, at.UTC().Format(time.DateOnly), raw), nil
}

type person struct {
	Name string `json:"name"`
	Age  int    `json:"age"`
}

func (p person) Greet(greeting string) (string, error) { return greeting + ", " + p.Name, nil }

func classic(queue string, args ...interface{}) error {
	if queue != "work" || len(args) != 2 {
		return fmt.Errorf("queue %s, arguments %v", queue, args)
	}
	return nil
}

func whole(_ context.Context, d *goworker.Delivery) error {
	d.Result = d.Class
	return nil
}

func fails(n int) (int, error) { return n, errors.New("no luck") }

func untyped() string { return "no error" }

var calls = []goworker.Option{goworker.OnQueue("work"), goworker.WithResult(time.Hour)}

// A function is called by itself, with a result, under its path and under the name of As. The Client of the daemon knows it, and so
// does that of another program that was given it.
func TestCall(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.RegisterFunc(add, calls...)
	b.Daemon.RegisterFunc(join, append(calls, goworker.As("text.Join"))...)
	b.Daemon.RegisterFunc(describe, calls...)
	b.Daemon.RegisterFunc(person.Greet, calls...)
	b.Daemon.RegisterFunc(whole, calls...)
	b.Daemon.RegisterFunc(classic, calls...)
	b.Daemon.RegisterFunc(fails, calls...)
	b.Start()
	var functions []goworker.ClientOption
	for _, fn := range []any{add, describe, person.Greet, whole, classic, fails} {
		functions = append(functions, goworker.Function(fn, calls...))
	}
	other, err := goworker.NewClient(goworker.WorkerSettings{URI: b.Redis.URI()}, append(functions, goworker.Function(join, append(calls, goworker.As("text.Join"))...))...)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()

	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, client := range []*goworker.Client{b.Daemon.Client(), other} {
		for _, tt := range []struct {
			fn    any
			args  []any
			class string
			want  string
		}{
			{add, []any{40, 2}, thisPackage + "add", "42"},
			{add, []any{int8(40), 2.0}, thisPackage + "add", "42"},
			{join, []any{"-", "a", "b", "c"}, "text.Join", `"a-b-c"`},
			{join, []any{"-"}, "text.Join", `""`},
			{describe, []any{person{"Ann", 7}, at, json.RawMessage(`{"a":1}`)}, thisPackage + "describe", `"Ann, 7, 2026-11-21, {\"a\":1}"`},
			{describe, []any{nil, at, nil}, thisPackage + "describe", `"nobody"`},
			{person.Greet, []any{&person{Name: "Ann"}, "Hello"}, thisPackage + "person.Greet", `"Hello, Ann"`},
			{whole, []any{1, "two"}, thisPackage + "whole", `"` + thisPackage + `whole"`},
			{classic, []any{"a", nil}, thisPackage + "classic", ""},
		} {
			receipt, err := goworker.Call(t.Context(), client, tt.fn, tt.args...)
			if err != nil {
				t.Errorf("%s: %v", tt.class, err)
				continue
			}
			got, err := goworker.Await[json.RawMessage](t.Context(), client, receipt.ID)
			if err != nil || string(got) != tt.want {
				t.Errorf("%s%v: %s, %v; want %s", tt.class, tt.args, got, err, tt.want)
			}
			if doc := document(t, b.Redis, receipt.ID); doc["class"] != tt.class {
				t.Errorf("the class is %s, want %s", doc["class"], tt.class)
			}
		}
		receipt, err := goworker.Call(t.Context(), client, fails, 1)
		if err != nil {
			t.Fatal(err)
		}
		var failed *goworker.JobError
		if _, err := goworker.Await[int](t.Context(), client, receipt.ID); !errors.As(err, &failed) || failed.Message != "no luck" {
			t.Errorf("%v", err)
		}
	}
}

// A wrong argument, a function without a name and one without a queue are refused at the call. Nothing is enqueued.
func TestCallRefuses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()}, goworker.Function(add, goworker.OnQueue("work")), goworker.Function(join, goworker.As("text.Join")))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, tt := range []struct {
		fn   any
		args []any
		want string
	}{
		{add, []any{1, "2"}, "goworker: Call: jobs.add takes (int, int); argument 2 is a string"},
		{add, []any{1}, "goworker: Call: jobs.add takes (int, int); the call gives 1 argument"},
		{add, []any{1, 2, 3}, "goworker: Call: jobs.add takes (int, int); the call gives 3 arguments"},
		{add, []any{t.Context(), 1, 2}, "goworker: Call: jobs.add takes (int, int); the call gives 3 arguments"},
		{add, []any{1, nil}, "goworker: Call: jobs.add takes (int, int); argument 2 is nil"},
		{add, []any{1, 2.5}, "goworker: Call: jobs.add takes (int, int); argument 2 is a float64 whose value an int cannot hold"},
		{join, []any{"-", "a", 1}, "goworker: Call: jobs.join takes (string, ...string); argument 3 is an int"},
		{describe, []any{map[string]any{"nam": "Ann"}, time.Now(), nil}, "goworker: Call: jobs.describe takes (*jobs.person, time.Time, json.RawMessage); " +
			`argument 1 is a map[string]interface {} with a member "nam", for which jobs.person has no field`},
		{join, []any{"-"}, "goworker: Call: no queue is known for text.Join; give OnQueue to RegisterFunc, or give Function with it to NewClient, or set the queue of a FuncJob"},
		{untyped, nil, "goworker: Call: jobs.untyped: the last result of func() string is string, not error"},
		{func() {}, nil, `jobs.TestCallRefuses.func1 is a closure, or a function that the compiler has named; such a name changes when the code around it does; ` +
			`name its class yourself: Register("SendEmail", function), and enqueue a Job of that class`},
		{person{}.Greet, []any{"a"}, "goworker: Call: jobs.person.Greet is a method of one value, and no name says which value"},
		{nil, nil, "goworker: Call: there is no function"},
		{"add", nil, "goworker: Call: a string is no function"},
	} {
		_, err := goworker.Call(t.Context(), client, tt.fn, tt.args...)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v\nwant %s", err, tt.want)
		}
	}
	var wrong *goworker.ArgumentError
	if _, err := client.FuncJob(add, 1, "2"); !errors.As(err, &wrong) || wrong.Class != thisPackage+"add" || wrong.Index != 2 || wrong.Want != "int" || wrong.Found != "a string" {
		t.Errorf("%+v", err)
	}
	if keys := server.Keys(t); len(keys) > 0 {
		t.Errorf("there are %q", keys)
	}
	client.Close()
	if _, err := goworker.Call(t.Context(), client, add, 1, 2); !errors.Is(err, goworker.ErrClosed) {
		t.Error(err)
	}
}

// A FuncJob goes where any job goes: with options, with others, on another queue.
func TestFuncJob(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	defer b.Daemon.Close()
	b.Daemon.RegisterFunc(add, goworker.OnQueue("work"))
	client := b.Daemon.Client()
	job, err := client.FuncJob(add, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := client.FuncJob(join, "-", "a")
	if err != nil || elsewhere.Queue != "" {
		t.Fatal(elsewhere, err)
	}
	elsewhere.Queue = "text"
	if _, err := client.EnqueueMany(t.Context(), goworker.Item{Job: job, Options: []goworker.EnqueueOption{goworker.WithID("sum")}}, goworker.Item{Job: elsewhere}); err != nil {
		t.Fatal(err)
	}
	if q := b.Queue("work"); !slices.Equal(q, []string{`{"class":"` + thisPackage + `add","args":[1,2],"id":"sum"}`}) {
		t.Errorf("%q", q)
	}
	if q := b.Queue("text"); !slices.Equal(q, []string{`{"class":"` + thisPackage + `join","args":["-","a"]}`}) {
		t.Errorf("%q", q)
	}
}

// Steps call functions, also such as the Client learns of by the step alone. Mistakes in them are errors of Start.
func TestFuncStep(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.RegisterFunc(add, goworker.OnQueue("work"))
	b.Daemon.RegisterFunc(join, goworker.OnQueue("work"), goworker.As("text.Join"))
	b.Start()
	client := b.Daemon.Client()
	receipt, err := client.Start(t.Context(), goworker.Chain(
		goworker.Group(goworker.FuncStep(add, 1, 2), goworker.FuncStep(add, 3, 4).With(goworker.Named("sum"))),
		goworker.Step(goworker.NewJob("work", "Strings")),
	).OnSuccess(goworker.FuncStep(join, "-").With(goworker.Spread(), goworker.WithMeta(map[string]string{"a": "b"}))))
	if err == nil || !strings.Contains(err.Error(), "step 4 (text.Join) has Spread") {
		t.Errorf("%v", err)
	}
	receipt, err = client.Start(t.Context(), goworker.Chain(goworker.FuncStep(add, 1, 2), goworker.FuncStep(add, 3).With(goworker.Named("sum")), goworker.FuncStep(add, 30)))
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := goworker.Await[int](t.Context(), client, receipt.ID); sum != 36 || err != nil {
		t.Errorf("%d, %v", sum, err)
	}

	other, err := goworker.NewClient(goworker.WorkerSettings{URI: b.Redis.URI()}, goworker.Function(add, goworker.OnQueue("work")),
		goworker.Function(join, goworker.OnQueue("work"), goworker.As("text.Join")))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	chain := goworker.Chain(goworker.FuncStep(add, 1, 2), goworker.FuncStep(add, 3))
	if receipt, err = other.Start(t.Context(), chain, goworker.WithID("again")); err != nil {
		t.Fatal(err)
	}
	if receipt, err = other.Start(t.Context(), chain, goworker.WithID("again")); err != nil || !receipt.Existed {
		t.Errorf("%+v, %v", receipt, err)
	}
	if sum, err := goworker.Await[int](t.Context(), other, receipt.ID); sum != 6 || err != nil {
		t.Errorf("%d, %v", sum, err)
	}
	for want, n := range map[string]*goworker.Node{
		"step 1: jobs.add takes (int, int); argument 2 is a string":                                                      goworker.FuncStep(add, 1, "2"),
		"step 2: jobs.add takes (int, int); argument 1 is nil":                                                           goworker.Chain(goworker.FuncStep(add, 1, 2), goworker.FuncStep(add, nil)),
		"step 2 (" + thisPackage + "add) takes 2 arguments; step 1 (" + thisPackage + "add) adds an int to the 2 it has": goworker.Chain(goworker.FuncStep(add, 1, 2), goworker.FuncStep(add, 1, 2)),
		"takes int as argument 2; step 1 (text.Join) adds a string":                                                      goworker.Chain(goworker.FuncStep(join, "-"), goworker.FuncStep(add, 1)),
		"step 1: jobs.TestFuncStep.func1 is a closure":                                                                   goworker.FuncStep(func() {}),
		"With: the node is several":                                                                                      goworker.Group(goworker.FuncStep(add, 1, 2)).With(goworker.Named("a")),
		"step 1: no queue is known for " + thisPackage + "whole; give OnQueue to RegisterFunc":                           goworker.FuncStep(whole),
	} {
		if _, err := other.Start(t.Context(), n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// Over several Redises a call goes to that of its queue, and each runs the functions.
func TestCallOverShards(t *testing.T) {
	t.Parallel()
	var shards []goworker.Shard
	for _, queue := range []string{"sums", "texts"} {
		shards = append(shards, goworker.Shard{URI: redistest.Start(t).URI(), Queues: []string{queue}})
	}
	s := goworker.NewShards(goworker.WorkerSettings{Logger: daemontest.Quiet}, shards...)
	s.RegisterFunc(add, goworker.OnQueue("sums"), goworker.WithResult(time.Hour), goworker.Alias(oldName))
	s.RegisterFunc(join, goworker.OnQueue("texts"), goworker.WithResult(time.Hour))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	client := s.Client()
	sum, err := goworker.Call(ctx, client, add, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	text, err := goworker.Call(ctx, client, join, "-", "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	old, err := client.Enqueue(ctx, goworker.NewJob("sums", oldName, 3, 4))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := goworker.Await[int](ctx, client, sum.ID); got != 3 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	if got, err := goworker.Await[string](ctx, client, text.ID); got != "a-b" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := goworker.Await[int](ctx, client, old.ID); got != 7 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := client.Start(ctx, goworker.Chain(goworker.FuncStep(add, 1, 2), goworker.FuncStep(join, "-"))); err == nil || !strings.Contains(err.Error(), "all queues of a workflow must lie on one Redis") {
		t.Errorf("%v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.Close()
}
