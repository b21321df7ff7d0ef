package goworker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

type email struct {
	To    string `json:"to"`
	Tries int    `json:"tries"`
}

// A class typed at both ends: what is enqueued arrives, whatever the number of arguments, and its result
// reaches the middleware.
func TestDefine(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	ran := make(chan string, 8)
	one := goworker.Define[email, int]("One", goworker.OnQueue("work"))
	none := goworker.Define[goworker.None, goworker.None]("None", goworker.OnQueue("work"))
	two := goworker.Define[goworker.Args2[string, email], goworker.None]("Two", goworker.OnQueue("work"))
	three := goworker.Define[goworker.Args3[string, int, bool], string]("Three", goworker.OnQueue("work"))
	four := goworker.Define[goworker.Args4[int, int, int, []int], goworker.None]("Four", goworker.OnQueue("work"), goworker.Retry(3))
	b.Daemon.Use(func(next goworker.Handler) goworker.Handler {
		return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
			err := next.Perform(ctx, d)
			ran <- fmt.Sprintf("%s %s: %v", d.Class, d.Args, d.Result)
			return err
		})
	})
	one.Handle(b.Daemon, func(_ context.Context, e email) (int, error) { return len(e.To) + e.Tries, nil })
	none.Handle(b.Daemon, goworker.NoResult(func(context.Context, goworker.None) error { return nil }))
	two.Handle(b.Daemon, goworker.NoResult(func(_ context.Context, a goworker.Args2[string, email]) error {
		if a.A != "x" || a.B != (email{"eve", 1}) {
			t.Errorf("%+v", a)
		}
		return nil
	}))
	three.Handle(b.Daemon, func(_ context.Context, a goworker.Args3[string, int, bool]) (string, error) {
		return fmt.Sprint(a.A, a.B, a.C), nil
	})
	four.Handle(b.Daemon, goworker.NoResult(func(_ context.Context, a goworker.Args4[int, int, int, []int]) error {
		if a.D[1] != 5 {
			t.Errorf("%+v", a)
		}
		return nil
	}))
	client := b.Daemon.Client()
	ctx := t.Context()
	if r, err := one.Enqueue(ctx, client, email{"ada", 3}); err != nil || r.ID != "" {
		t.Errorf("%+v, %v: a class without options for enqueued jobs writes plain jobs", r, err)
	}
	_, err := client.EnqueueMany(ctx, none.Item(goworker.None{}), two.Item(goworker.Args2[string, email]{"x", email{"eve", 1}}),
		three.Item(goworker.Args3[string, int, bool]{"y", 2, true}), four.Item(goworker.Args4[int, int, int, []int]{1, 2, 3, []int{4, 5}}, goworker.WithID("four")))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"class":"One","args":[{"to":"ada","tries":3}]}`, `{"class":"None","args":[]}`, `{"class":"Two","args":["x",{"to":"eve","tries":1}]}`,
		`{"class":"Three","args":["y",2,true]}`, `{"class":"Four","args":[1,2,3,[4,5]],"id":"four"}`,
	}
	if diff := cmp.Diff(want, b.Redis.List(t, "LRANGE", "resque:queue:work", 0, -1)); diff != "" {
		t.Errorf("the queue (-want +got):\n%s", diff)
	}
	b.Start()
	var got []string
	for range want {
		got = append(got, <-ran)
	}
	b.Free()
	sorted := cmp.Transformer("sort", func(s []string) map[string]bool {
		m := make(map[string]bool)
		for _, text := range s {
			m[text] = true
		}
		return m
	})
	want = []string{
		`One [{"to":"ada","tries":3}]: 6`, `None []: <nil>`, `Two ["x" {"to":"eve","tries":1}]: <nil>`, `Three ["y" 2 true]: y2 true`, `Four [1 2 3 [4,5]]: <nil>`,
	}
	if diff := cmp.Diff(want, got, sorted); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

// Options of a typed class hold at enqueue, also for a client that does not know the class, and for plain
// Jobs of a client that was given it.
func TestDefineOptionsOfEnqueuedJobs(t *testing.T) {
	t.Parallel()
	once := goworker.Define[string, goworker.None]("Once", goworker.OnQueue("low"), goworker.Unique(), goworker.Retry(2))
	unknowing, _ := newClient(t)
	knowing, _ := newClient(t, goworker.Classes(once))
	for name, enqueue := range map[string]func() (goworker.Receipt, error){
		"typed": func() (goworker.Receipt, error) { return once.Enqueue(t.Context(), unknowing, "a") },
		"a Job of a known class": func() (goworker.Receipt, error) {
			return knowing.Enqueue(t.Context(), goworker.NewJob("", "Once", "a"))
		},
	} {
		first, err := enqueue()
		if err != nil || first.ID == "" {
			t.Errorf("%s: %+v, %v", name, first, err)
		}
		second, err := enqueue()
		if !errors.Is(err, goworker.ErrDuplicate) || second.Duplicate.Holder != first.ID || second.Duplicate.Queue != "low" {
			t.Errorf("%s: %+v, %v", name, second, err)
		}
	}
	if _, err := unknowing.Enqueue(t.Context(), goworker.NewJob("", "Once", "a")); err == nil || !strings.Contains(err.Error(), "needs a queue") {
		t.Errorf("a class without a queue here: %v", err)
	}
}

// Mistakes of a definition are panics that say what is wrong.
func TestDefineRefuses(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]func(){
		`Define(""): the class has no name`:   func() { goworker.Define[int, goworker.None]("") },
		`Define("C"): OnQueue(""): the queue`: func() { goworker.Define[int, goworker.None]("C", goworker.OnQueue("")) },
		`Define("C"): a nil Option`:           func() { goworker.Define[int, goworker.None]("C", nil) },
		`Define("C"): *goworker.Delivery is`:  func() { goworker.Define[*goworker.Delivery, goworker.None]("C") },
		"was given no function":               func() { goworker.Define[int, goworker.None]("C").Handle(goworker.New(goworker.WorkerSettings{}), nil) },
		"was given no function ": func() {
			goworker.Define[int, goworker.None]("C").Handle(goworker.New(goworker.WorkerSettings{}), goworker.NoResult[int](nil))
		},
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, strings.TrimSpace(want)) {
					t.Errorf("panic %s, want %s", text, want)
				}
			}()
			f()
		}()
	}
}

// Middleware around enqueueing sees all ways into a queue, may add options and leave jobs out.
func TestEnqueueMiddleware(t *testing.T) {
	t.Parallel()
	type tenantKey struct{}
	var trace []string
	note := func(name string) goworker.EnqueueMiddleware {
		return func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
			return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
				trace = append(trace, fmt.Sprint(name, len(items)))
				return next(ctx, items)
			}
		}
	}
	ids := func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
		return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
			tenant, _ := ctx.Value(tenantKey{}).(string)
			if tenant == "" {
				return nil, errors.New("whose job is this?")
			}
			for i := range items {
				items[i].Options = append(items[i].Options, goworker.WithID(fmt.Sprint(tenant, i)))
			}
			return next(ctx, items)
		}
	}
	client, server := newClient(t, goworker.WithEnqueueMiddleware(note("outer"), note("inner"), ids))
	job := goworker.NewJob("low", "C")
	if _, err := client.Enqueue(t.Context(), job); err == nil || err.Error() != "whose job is this?" {
		t.Error(err)
	}
	ctx := context.WithValue(t.Context(), tenantKey{}, "acme")
	shared := make([]goworker.EnqueueOption, 0, 4) // room that a middleware must not use for two jobs
	receipts, err := client.EnqueueMany(ctx, goworker.Item{Job: job, Options: shared}, goworker.Item{Job: job, Options: shared})
	if err != nil || receipts[0].ID != "acme0" || receipts[1].ID != "acme1" {
		t.Errorf("%+v, %v", receipts, err)
	}
	if diff := cmp.Diff([]string{"outer1", "inner1", "outer2", "inner2"}, trace); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`{"class":"C","args":[],"id":"acme0"}`, `{"class":"C","args":[],"id":"acme1"}`}, server.List(t, "LRANGE", "resque:queue:low", 0, -1)); diff != "" {
		t.Error(diff)
	}
}

// Several results are read back in the types of Args2 to Args4. The object that these were in JSON before is read too.
func TestArgsAsJSON(t *testing.T) {
	t.Parallel()
	type two = goworker.Args2[int, string]
	type three = goworker.Args3[two, *int, []string]
	type four = goworker.Args4[int64, any, json.RawMessage, time.Time]
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		value any
		text  string
	}{
		{two{7, "x"}, `[7,"x"]`},
		{three{two{1, "y"}, nil, []string{"a"}}, `[[1,"y"],null,["a"]]`},
		{four{1 << 62, "b", json.RawMessage(`{"c":1}`), at}, `[4611686018427387904,"b",{"c":1},"2026-11-21T08:00:00Z"]`},
	} {
		text, err := json.Marshal(tt.value)
		if err != nil || string(text) != tt.text {
			t.Errorf("%#v is %s, %v; want %s", tt.value, text, err, tt.text)
		}
		back := reflect.New(reflect.TypeOf(tt.value))
		if err := json.Unmarshal([]byte(tt.text), back.Interface()); err != nil || !reflect.DeepEqual(back.Elem().Interface(), tt.value) {
			t.Errorf("%s is %#v, %v; want %#v", tt.text, back.Elem(), err, tt.value)
		}
	}
	for text, want := range map[string]string{
		`{"A":7,"B":"x"}`: "", ` [ 7 , "x" ] `: "", `null`: "",
		`[7]`: "a list of 1 values is read as one of 2", `[7,"x",1]`: "a list of 3 values", `[7,8]`: "value 2 of 2", `"x"`: "cannot unmarshal string",
	} {
		v := two{7, "x"}
		if err := json.Unmarshal([]byte(text), &v); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && v != (two{7, "x"}) {
			t.Errorf("%s: %v, %v; want %q", text, v, err, want)
		}
	}
}
