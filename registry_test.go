package goworker

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/goworker/goworker/internal/failure"
)

func TestRegisterReplaces(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	var got string
	r.register("C", func() { got = "first" }, nil)
	r.register("C", func() { got = "second" }, nil)
	d, err := prepared(t, r, `{"class":"C","args":[]}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.perform(context.Background()); err != nil || got != "second" {
		t.Errorf("ran %q, %v", got, err)
	}
}

func TestUnknownClass(t *testing.T) {
	t.Parallel()
	d, err := prepared(t, newRegistry(), `{"class":"No<b>pe","args":[1],"id":"7"}`)
	var unknown *UnknownClassError
	if !errors.As(err, &unknown) || unknown.Class != "No<b>pe" || !strings.HasPrefix(err.Error(), "uninitialized constant No<b>pe: no handler is registered") {
		t.Errorf("got %v", err)
	}
	if d == nil || d.Class != "No<b>pe" || d.Queue != "mail" || d.ID != "7" {
		t.Errorf("got %+v", d)
	}
	if got := failure.Exception(err, exceptionOf); got != "NameError" {
		t.Errorf("exception %q", got)
	}
}

func TestMiddlewareOrder(t *testing.T) {
	t.Parallel()
	var trace []string
	note := func(name string) Middleware {
		return func(next Handler) Handler {
			return HandlerFunc(func(ctx context.Context, d *Delivery) error {
				trace = append(trace, name)
				defer func() { trace = append(trace, "/"+name) }()
				return next.Perform(ctx, d)
			})
		}
	}
	r := newRegistry()
	r.use(note("a"))
	r.register("C", func() { trace = append(trace, "job") }, []Option{With(note("c"), note("d")), With(note("e"))})
	r.use(note("b"))
	d, err := prepared(t, r, `{"class":"C","args":[]}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.perform(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := strings.Fields("a b c d e job /e /d /c /b /a")
	if !reflect.DeepEqual(trace, want) {
		t.Errorf("got %v, want %v", trace, want)
	}
}

func TestMiddlewareReadsResult(t *testing.T) {
	t.Parallel()
	var saw any
	watch := func(next Handler) Handler {
		return HandlerFunc(func(ctx context.Context, d *Delivery) error {
			err := next.Perform(ctx, d)
			saw = d.Result
			return err
		})
	}
	if _, err := runJob(t, func() (string, error) { return "done", nil }, `[]`, With(watch)); err != nil || saw != "done" {
		t.Errorf("saw %v, %v", saw, err)
	}
}

func TestRegistryIsConcurrent(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	var wg sync.WaitGroup
	for _, class := range []string{"A", "B", "C", "D"} {
		wg.Go(func() {
			for range 50 {
				r.register(class, func() {}, nil)
				r.use(func(h Handler) Handler { return h })
				if r.lookup(class) == nil {
					t.Errorf("%s is gone", class)
				}
			}
		})
	}
	wg.Wait()
}
