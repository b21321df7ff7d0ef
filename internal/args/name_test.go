package args

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/args/testdata/mail.v2"
)

func plain(string) error { return nil }

// inlined is nothing but a function that the compiler puts in its place.
func inlined(s string) error { return plain(s) }

// func1 has the name of a closure, and is none.
func func1() {}

func größe() {}

type order struct{ ID int }

func (order) Ship(string) error    { return nil }
func (*order) Cancel(string) error { return nil }
func generic[T any](T) error       { return nil }
func outer() func() error          { return func() error { return nil } }

var variable = func() error { return nil }

// What is declared in a package has a lasting name, whatever the compiler does with it. What the compiler names has none.
func TestNameOf(t *testing.T) {
	t.Parallel()
	const here = "github.com/goworker/goworker/internal/args"
	type local struct{ order }
	var ranged any
	for range func(yield func() bool) { ranged = yield; yield() } {
	}
	for _, tt := range []struct {
		fn          any
		path, short string // of a lasting name
		runtime     string // "": as path
		why         string // of the others
	}{
		{fn: plain, path: here + ".plain", short: "args.plain"},
		{fn: inlined, path: here + ".inlined", short: "args.inlined"},
		{fn: func1, path: here + ".func1", short: "args.func1"},
		{fn: größe, path: here + ".größe", short: "args.größe"},
		{fn: http.Get, path: "net/http.Get", short: "http.Get"},
		{fn: strings.ToUpper, path: "strings.ToUpper", short: "strings.ToUpper"},
		{fn: order.Ship, path: here + ".order.Ship", short: "args.order.Ship"},
		{fn: (*order).Cancel, path: here + ".(*order).Cancel", short: "args.(*order).Cancel"},
		{fn: (*order).Ship, path: here + ".(*order).Ship", short: "args.(*order).Ship"},
		{fn: context.Context.Err, path: "context.Context.Err", short: "context.Context.Err"},
		{fn: mail.Send, path: here + "/testdata/mail.v2.Send", short: "mail.v2.Send", runtime: here + "/testdata/mail%2ev2.Send"},

		{fn: nil, why: "there is no function"},
		{fn: 7, why: "an int is no function"},
		{fn: (func())(nil), why: "the func() is nil"},
		{fn: func() {}, why: "args.TestNameOf.func2 is a closure"},
		{fn: outer(), why: "is a closure"},
		{fn: variable, why: "args.init.func1 is a closure"},
		{fn: ranged, why: "is a closure"},
		{fn: order{}.Ship, why: "args.order.Ship is a method of one value"},
		{fn: (&order{}).Cancel, why: "args.(*order).Cancel is a method of one value"},
		{fn: reflect.ValueOf(order{}).Method(0).Interface(), why: "is a method of one value"},
		{fn: generic[int], why: "args.generic[...] is one of many instances"},
		{fn: generic[*order], why: "is one of many instances"},
		{fn: local.Ship, why: "is a closure, or a function that the compiler has named"},
		{fn: reflect.MakeFunc(reflect.TypeFor[func()](), nil).Interface(), why: "package reflect"},
	} {
		n, err := NameOf(tt.fn)
		if tt.why != "" {
			if err == nil || !strings.Contains(err.Error(), tt.why) {
				t.Errorf("%+v, %v; want %q", n, err, tt.why)
			}
			continue
		}
		if tt.runtime == "" {
			tt.runtime = tt.path
		}
		if want := (Name{Path: tt.path, Runtime: tt.runtime, Short: tt.short}); err != nil || n != want {
			t.Errorf("%+v, %v; want %+v", n, err, want)
		}
	}
}

// Names of functions in plugins and in main, and others that a test cannot make.
func TestNames(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]string{
		"main.Send": "",
		"github.com/acme/app/vendor/gopkg.in/mail%2ev2.Send": "",
		"gopkg.in/a%2eb%25c.T.M":                             "",
		"main.main.func1":                                    "is a closure",
		"main.glob..func1":                                   "is a closure",
		"main.T.M.gowrap1":                                   "is a closure",
		"main.f.deferwrap2":                                  "is a closure",
		"main.f.g.func2.func6":                               "is a closure",
		"main.f-range1":                                      "is a closure",
		"main.init.0":                                        "is a closure",
		"main.(*T).M-fm":                                     "is a method of one value",
		"go:struct { main.T }.M":                             "is a closure",
		"plugin/unnamed-6a1f0c1e.Send":                       "changes with each build",
	} {
		_, err := named(name)
		if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", name, err, why)
		}
	}
	n, err := named("github.com/acme/app/vendor/gopkg.in/mail%2ev2.Send")
	if err != nil || n.Path != "github.com/acme/app/vendor/gopkg.in/mail.v2.Send" || n.Short != "mail.v2.Send" {
		t.Errorf("%+v, %v", n, err)
	}
}
