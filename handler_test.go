package goworker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/inflight"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
)

type customer struct {
	Name string   `json:"name"`
	Age  int8     `json:"age"`
	Tags []string `json:"tags"`
	Any  any      `json:"any"`
}

type namedString string

type namedFunc func(string, ...interface{}) error

type upper string

func (u *upper) UnmarshalJSON(b []byte) error {
	*u = upper(strings.ToUpper(string(b)))
	return nil
}

type performer struct{ got *[]any }

func (p performer) Perform(_ context.Context, d *Delivery) error {
	*p.got = append(*p.got, d.Class, d.Queue, len(d.Args))
	return nil
}

func TestHandlerForms(t *testing.T) {
	t.Parallel()
	var got []any
	see := func(v ...any) { got = append(got, v...) }
	ctxOK := func(ctx context.Context) bool { d := FromContext(ctx); return d != nil && d.Class == "C" }

	tests := []struct {
		name string
		fn   any
		args string
		want []any
	}{
		{"goworker", func(q string, a ...interface{}) error { see(q, a); return nil }, `["x",1,null,true,{"a":[1.5]}]`,
			[]any{"mail", []any{"x", 1.0, nil, true, map[string]any{"a": []any{1.5}}}}},
		{"goworker without arguments", func(q string, a ...interface{}) error { see(q, len(a)); return nil }, `[]`, []any{"mail", 0}},
		{"named function type", namedFunc(func(q string, a ...interface{}) error { see(q, a[0]); return nil }), `["a\n\u00e9"]`, []any{"mail", "a\né"}},
		{"nothing", func() { see("ran") }, `[]`, []any{"ran"}},
		{"nothing, args null", func() { see("ran") }, `null`, []any{"ran"}},
		{"nothing, php", func(ctx context.Context) error { see(ctxOK(ctx)); return nil }, `[null]`, []any{true}},
		{"context", func(ctx context.Context, s string) error { see(ctxOK(ctx), s); return nil }, `["x"]`, []any{true, "x"}},
		{"scalars", func(i int, u uint8, f float64, g float32, b bool, s namedString) { see(i, u, f, g, b, s) },
			`[-3,200,1e3,0.5,true,"é\u0041"]`, []any{-3, uint8(200), 1000.0, float32(0.5), true, namedString("éA")}},
		{"exact integers", func(i int64, u uint64) { see(i, u) }, `[9007199254740993,18446744073709551615]`, []any{int64(9007199254740993), uint64(18446744073709551615)}},
		{"nulls", func(i int, s string, b bool, f float64, m map[string]int, p *int, c customer, a any) {
			see(i, s, b, f, m, p, c.Name, a)
		},
			`[null,null,null,null,null,null,null,null]`, []any{0, "", false, 0.0, map[string]int(nil), (*int)(nil), "", nil}},
		{"struct", func(_ context.Context, c customer) error { see(c); return nil }, `[{"name":"A","age":3,"tags":["x"],"any":1}]`,
			[]any{customer{"A", 3, []string{"x"}, 1.0}}},
		{"pointer", func(c *customer) { see(*c) }, `[{"name":"A"}]`, []any{customer{Name: "A"}}},
		{"php object", func(m map[string]string) { see(m) }, `{"a":"b"}`, []any{map[string]string{"a": "b"}}},
		{"php empty object", func(m map[string]string, c customer) { see(m, c) }, `[[],[]]`, []any{map[string]string{}, customer{}}},
		{"slice and array", func(s []int, a [2]bool, b []byte) { see(s, a, b) }, `[[1,2],[true],"aGk="]`, []any{[]int{1, 2}, [2]bool{true}, []byte("hi")}},
		{"raw", func(r json.RawMessage, rs ...json.RawMessage) { see(string(r), len(rs), string(rs[0])) }, `[{"b":1,"a":1.0},null]`,
			[]any{`{"b":1,"a":1.0}`, 1, "null"}},
		{"variadic", func(_ context.Context, s string, n ...int) { see(s, n) }, `["x",1,2]`, []any{"x", []int{1, 2}}},
		{"variadic without", func(s string, n ...int) { see(s, len(n)) }, `["x"]`, []any{"x", 0}},
		{"interface", func(a, b interface{}) { see(a, b) }, `[12,{"x":null}]`, []any{12.0, map[string]any{"x": nil}}},
		{"number", func(n json.Number, f *big.Float) { see(n, f.String()) }, `[12345678901234567890,"0.5"]`, []any{json.Number("12345678901234567890"), "0.5"}},
		{"own unmarshaler", func(u upper) { see(u) }, `["x"]`, []any{upper(`"X"`)}},
		{"time", func(a, b time.Time) { see(a.UTC().String(), b.String()) }, `["2026-11-21T09:00:00.5+09:00","2026-11-21"]`,
			[]any{"2026-11-21 00:00:00.5 +0000 UTC", "2026-11-21 00:00:00 +0000 UTC"}},
		{"job", func(ctx context.Context, j *Job) error { see(ctxOK(ctx), *j); return nil }, `["x",1]`,
			[]any{true, Job{"mail", Payload{"C", []any{"x", 1.0}}}}},
		{"delivery", func(ctx context.Context, d *Delivery) error {
			see(FromContext(ctx) == d, string(d.Args[0]))
			return nil
		}, `[ 7 ]`, []any{true, "7"}},
		{"handler value", performer{&got}, `[1,2]`, []any{"C", "mail", 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { // in turn: they share got
			got = nil
			if _, err := runJob(t, tt.fn, tt.args); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %#v\nwant %#v", got, tt.want)
			}
		})
	}
}

func TestHandlerResults(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	tests := []struct {
		name   string
		fn     any
		result any
		err    error
	}{
		{"none", func() {}, nil, nil},
		{"nil error", func() error { return nil }, nil, nil},
		{"error", func() error { return boom }, nil, boom},
		{"result", func() (int, error) { return 7, nil }, 7, nil},
		{"result beside an error is not one", func() (int, error) { return 7, boom }, nil, boom},
		{"nil interface result", func() (any, error) { return nil, nil }, nil, nil},
		{"several", func() (int, string, error) { return 7, "x", nil }, []any{7, "x"}, nil},
		{"several beside an error", func() (int, string, error) { return 7, "x", boom }, nil, boom},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := runJob(t, tt.fn, `[]`)
			if err != tt.err || !reflect.DeepEqual(d.Result, tt.result) {
				t.Errorf("got %v, %v; want %v, %v", d.Result, err, tt.result, tt.err)
			}
		})
	}
}

func TestArgumentsThatDoNotFit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		fn   any
		args string
		want string // beginning of the text
	}{
		{"too few", func(a, b string) {}, `["x"]`, "wrong number of arguments for C (given 1, expected 2)"},
		{"too many", func(context.Context) {}, `["x"]`, "wrong number of arguments for C (given 1, expected 0)"},
		{"too few for variadic", func(a string, b ...int) {}, `[]`, "wrong number of arguments for C (given 0, expected at least 1)"},
		{"string for int", func(a string, b int) {}, `["x","secret"]`, "argument 2 of C is a string where int is expected"},
		{"fraction for int", func(a int) {}, `[1.5]`, "argument 1 of C is a number with a fraction or out of range where int is expected"},
		{"out of range", func(a int8) {}, `[4711]`, "argument 1 of C is a number with a fraction or out of range where int8 is expected"},
		{"negative for uint", func(a uint) {}, `[-4711]`, "argument 1 of C is a number with a fraction or out of range where uint is expected"},
		{"int for string", func(a string) {}, `[4711]`, "argument 1 of C is a number where string is expected"},
		{"array for bool", func(a bool) {}, `[[4711]]`, "argument 1 of C is an array where bool is expected"},
		{"object for float", func(a float64) {}, `[{}]`, "argument 1 of C is an object where float64 is expected"},
		{"array for struct", func(a customer) {}, `[[4711]]`, "argument 1 of C is an array where goworker.customer is expected"},
		{"field", func(a *customer) {}, `[{"tags":[4711]}]`, "argument 1 of C is an object with a number in tags where string (in *goworker.customer) is expected"},
		{"variadic", func(a ...bool) {}, `[true,"secret"]`, "argument 2 of C is a string where bool is expected"},
		{"time", func(a time.Time) {}, `["secret"]`, "argument 1 of C is a string that does not decode where time.Time is expected"},
		{"GlobalID", func(a GlobalID) {}, `["secret"]`, "argument 1 of C is a string that does not decode where goworker.GlobalID is expected"},
		{"huge number", func(a any) {}, `[4711e999]`, "argument 1 of C is a number with a fraction or out of range where"},
		{"huge number, goworker's form", func(q string, a ...interface{}) error { return nil }, `[4711e999]`, "argument 1 of C is a number with"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, opts := range [][]Option{nil, {UseNumber()}} {
				if opts != nil && strings.Contains(tt.args, "e999") {
					continue // a json.Number holds any number
				}
				_, err := runJob(t, tt.fn, tt.args, opts...)
				var ae *ArgumentError
				if !errors.As(err, &ae) || !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("got %v\nwant %s", err, tt.want)
				} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "4711") {
					t.Errorf("the text holds the value: %v", err)
				}
			}
		})
	}
}

func TestFunctionsThatAreRefused(t *testing.T) {
	t.Parallel()
	type list []list
	tests := []struct {
		name string
		fn   any
		want string // "" is allowed
	}{
		{"nil", nil, "is nil"},
		{"nil function", (func())(nil), "nil func()"},
		{"nil HandlerFunc", HandlerFunc(nil), "nil goworker.HandlerFunc"},
		{"not a function", 5, "is a int, not a function"},
		{"result without error", func() int { return 0 }, "is int, not error"},
		{"concrete error", func() *PanicError { return nil }, "not error"},
		{"two errors", func() (a, b error) { return nil, nil }, "two errors"},
		{"three results", func() (a, b int, err error) { return 0, 0, nil }, ""},
		{"an error among the results", func() (a int, b, err error) { return 0, nil, nil }, "two errors"},
		{"channel", func(context.Context, chan int) {}, "parameter 2 of func(context.Context, chan int) holds a chan int"},
		{"function", func(func()) {}, "holds a func()"},
		{"list of channels", func(...[]chan int) {}, "holds a chan int"},
		{"interface", func(io.Reader) {}, "holds the interface io.Reader"},
		{"map key", func(map[float64]int) {}, "float64 for a map key"},
		{"context later", func(string, context.Context) {}, "can only be the first"},
		{"job without context", func(*Job) error { return nil }, "handed over only by itself"},
		{"delivery among others", func(context.Context, *Delivery, int) {}, "handed over only by itself"},
		{"maps", func(map[string][]int, map[int]*string, map[time.Time]any) {}, ""},
		{"recursive", func(list, map[string]list) {}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantPanic(t, tt.want, func() { newRegistry().register("C", tt.fn, nil) })
		})
	}
	wantPanic(t, "the class has no name", func() { newRegistry().register("", func() {}, nil) })
	wantPanic(t, "nil Option", func() { newRegistry().register("C", func() {}, []Option{nil}) })
	wantPanic(t, "nil Middleware", func() { newRegistry().register("C", func() {}, []Option{WithMiddleware(nil)}) })
	wantPanic(t, "nil Middleware", func() { newRegistry().use(nil) })
}

// wantPanic expects a panic whose text holds want, or none if want is empty.
func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		v := recover()
		if want == "" && v != nil || want != "" && !strings.Contains(fmt.Sprint(v), want) {
			t.Errorf("panic %v, want %q", v, want)
		}
	}()
	f()
}

func TestUseNumber(t *testing.T) {
	t.Parallel()
	type box struct{ V any }
	const args = `[12345678901234567890,{"v":1.0},[3]]`
	want := []any{json.Number("12345678901234567890"), box{json.Number("1.0")}, []any{json.Number("3")}}

	var got []any
	fn := func(a any, b box, c []any) { got = []any{a, b, c} }
	if _, err := runJob(t, fn, args, UseNumber()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("option: %v, %v", got, err)
	}

	r := newRegistry()
	r.register("C", fn, nil)
	r.useNumber.Store(true)
	d, _ := prepared(t, r, `{"class":"C","args":`+args+`}`)
	if err := d.perform(context.Background()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("setting: %v, %v", got, err)
	}
}

// A handler must not see what an earlier run left in its parameters.
func TestParametersAreFresh(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	var seen []customer
	r.register("C", func(c customer, m map[string]int, raw json.RawMessage) {
		seen = append(seen, c)
		m["dirt"]++
		clear(raw)
		if len(m) != 1 {
			t.Errorf("map of another run: %v", m)
		}
	}, nil)
	for _, payload := range []string{`{"class":"C","args":[{"name":"A","tags":["x"]},{},1]}`, `{"class":"C","args":[{"age":1},{},1]}`} {
		d, err := prepared(t, r, payload)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.perform(context.Background()); err != nil {
			t.Fatal(err)
		}
		if string(d.Raw()) != payload {
			t.Errorf("the handler changed the payload: %q", d.Raw())
		}
	}
	if seen[1].Name != "" || seen[1].Tags != nil {
		t.Errorf("second run saw %+v", seen[1])
	}
}

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
	r.register("C", func() { trace = append(trace, "job") }, []Option{WithMiddleware(note("c"), note("d")), WithMiddleware(note("e"))})
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
	if _, err := runJob(t, func() (string, error) { return "done", nil }, `[]`, WithMiddleware(watch)); err != nil || saw != "done" {
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

func TestFromContextOutsideAJob(t *testing.T) {
	t.Parallel()
	if d := FromContext(context.Background()); d != nil {
		t.Errorf("got %v", d)
	}
	d := &Delivery{Class: "C"}
	ctx, cancel := context.WithCancel(NewContext(context.Background(), d))
	defer cancel()
	if FromContext(ctx) != d {
		t.Error("NewContext's Delivery was not found")
	}
}

// php-resque's payload: its one argument an object, an id of its own.
func TestDeliveryOfPHPPayload(t *testing.T) {
	t.Parallel()
	const payload = `{"class":"My_Job","args":[{"name":"x"}],"id":"0f0f","queue_time":1.5}`
	type input struct{ Name string }
	r := newRegistry()
	var got input
	var d *Delivery
	r.register("My_Job", func(ctx context.Context, in input) error {
		got, d = in, FromContext(ctx)
		return nil
	}, nil)
	ready, err := prepared(t, r, payload)
	if err != nil {
		t.Fatal(err)
	}
	if err := ready.perform(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got.Name != "x" || d.ID != "0f0f" || d.Attempt != 1 || d.Queue != "mail" || string(d.Raw()) != payload {
		t.Errorf("got %+v, %+v", got, d)
	}
	d.Raw()[0] = '!'
	if string(d.Raw()) != payload {
		t.Error("Raw is not a copy")
	}
}

func TestDeliveryJob(t *testing.T) {
	t.Parallel()
	d := &Delivery{Queue: "q", Class: "C", Args: []json.RawMessage{[]byte(`1`), []byte(`"a"`), []byte(`1e999`)}}
	want := Job{"q", Payload{"C", []interface{}{1.0, "a", json.Number("1e999")}}}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := d.Job(); !reflect.DeepEqual(*got, want) {
				t.Errorf("got %+v, want %+v", *got, want)
			}
		})
	}
	wg.Wait()
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name     string
		option   time.Duration
		outer    time.Duration
		after    time.Duration
		explains bool
	}{
		{"of the class", time.Second, time.Minute, time.Second, true},
		{"of the caller", time.Minute, time.Second, time.Second, false},
		{"none", 0, time.Hour, time.Hour, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRegistry()
				r.register("C", wait, []Option{Timeout(tt.option)})
				d, err := prepared(t, r, `{"class":"C","args":[]}`)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), tt.outer)
				defer cancel()
				start := time.Now()
				err = d.perform(ctx)
				if time.Since(start) != tt.after {
					t.Errorf("ran %s, want %s", time.Since(start), tt.after)
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				if got := strings.Contains(err.Error(), "C ran longer than its timeout of 1s"); got != tt.explains {
					t.Errorf("text %q", err)
				}
			})
		})
	}
}

// railsPayload is what Rails enqueues for a job with these arguments.
func railsPayload(arguments string) string {
	return `{"class":"` + args.ActiveJobWrapper + `","args":[{"job_class":"ReportJob","job_id":"b1946ac9-2492-4cd5-a3ee-bd6f1a1f0c1e",` +
		`"provider_job_id":null,"queue_name":"mail","priority":null,"arguments":` + arguments + `,"executions":0,` +
		`"exception_executions":{},"locale":"en","timezone":"UTC","enqueued_at":"2026-11-21T02:41:24.123456789Z","scheduled_at":null}]}`
}

const (
	symbolAB = `{"_aj_serialized":"ActiveJob::Serializers::SymbolSerializer","value":"ab"}`
	user1    = `{"_aj_globalid":"gid://shop/User/1"}`
	dayOne   = `{"_aj_serialized":"ActiveJob::Serializers::DateSerializer","value":"2026-11-21"}`
)

func serialized(name, rest string) string {
	return `{"_aj_serialized":"ActiveJob::Serializers::` + name + `",` + rest + `}`
}

func TestActiveJobIntoParameters(t *testing.T) {
	t.Parallel()
	type options struct {
		Since time.Time
		Pages struct {
			Begin, End int
			Exclude    bool `json:"exclude_end"`
		}
	}
	r := newRegistry()
	var got []any
	r.register("ReportJob", func(_ context.Context, u GlobalID, s string, d time.Time, wait float64, o options) error {
		got = []any{u, s, d.Format(time.DateOnly), wait, o.Since.Format(time.RFC3339Nano), o.Pages.Begin, o.Pages.End, o.Pages.Exclude}
		return nil
	}, nil)
	d, err := prepared(t, r, strings.Replace(railsPayload(`[`+user1+`,`+symbolAB+`,`+dayOne+`,`+serialized("DurationSerializer", `"value":1.5,"parts":[]`)+
		`,{"since":`+serialized("TimeWithZoneSerializer", `"value":"2026-11-21T02:41:24.5Z","time_zone":"UTC"`)+
		`,"pages":`+serialized("RangeSerializer", `"begin":1,"end":9,"exclude_end":true`)+`,"_aj_ruby2_keywords":["since","pages"]}]`), `"executions":0`, `"executions":2`, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.perform(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := []any{GlobalID{"shop", "User", "1"}, "ab", "2026-11-21", 1.5, "2026-11-21T02:41:24.5Z", 1, 9, true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if d.Attempt != 3 {
		t.Errorf("attempt %d, want 3", d.Attempt)
	}
}

func TestActiveJobMalformed(t *testing.T) {
	t.Parallel()
	wrap := func(list string) string { return `{"class":"` + args.ActiveJobWrapper + `","args":` + list + `}` }
	tests := []struct {
		name, payload, want string
	}{
		{"no arguments", wrap(`[]`), "wrong number of arguments for " + args.ActiveJobWrapper + " (given 0, expected 1)"},
		{"two", wrap(`[{},{}]`), "wrong number of arguments"},
		{"not an object", wrap(`["secret"]`), "is a string where an ActiveJob object is expected"},
		{"no class", wrap(`[{"job_id":"secret"}]`), "an ActiveJob object with a job_class"},
		{"class of another type", wrap(`[{"job_class":5}]`), "an ActiveJob object with a job_class"},
		{"arguments of another type", railsPayload(`{"secret":1}`), "argument 1 of ReportJob is an object with an object where an ActiveJob object with an array of arguments"},
		{"GlobalID number", railsPayload(`[1,{"_aj_globalid":4711}]`), "argument 2 of ReportJob is an object with something else where a GlobalID"},
		{"GlobalID and more", railsPayload(`[{"_aj_globalid":"secret","a":1}]`), "where a GlobalID"},
		{"serializer number", railsPayload(`[[{"_aj_serialized":4711}]]`), "is an object with a number where the name of a serializer"},
		{"symbol without value", railsPayload(`[` + serialized("SymbolSerializer", `"x":1`) + `]`), "is an object with nothing where a string as value of a SymbolSerializer is expected"},
		{"time number", railsPayload(`[` + serialized("TimeSerializer", `"value":4711`) + `]`), "a string as value of a TimeSerializer"},
		{"duration string", railsPayload(`[` + serialized("DurationSerializer", `"value":"secret"`) + `]`), "a number as value of a DurationSerializer"},
		{"range", railsPayload(`[` + serialized("RangeSerializer", `"exclude_end":4711`) + `]`), "a bool as exclude_end of a RangeSerializer"},
		{"inside a range", railsPayload(`[` + serialized("RangeSerializer", `"begin":{"_aj_globalid":1}`) + `]`), "where a GlobalID"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry()
			r.register("ReportJob", func(...any) {}, nil)
			d, err := prepared(t, r, tt.payload)
			var ae *ArgumentError
			if d == nil || !errors.As(err, &ae) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v\nwant %s", err, tt.want)
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "4711") {
				t.Errorf("the text holds a value: %v", err)
			}
		})
	}
}

func TestActiveJobClasses(t *testing.T) {
	t.Parallel()
	_, err := prepared(t, newRegistry(), railsPayload(`[]`))
	var unknown *UnknownClassError
	if !errors.As(err, &unknown) || unknown.Class != "ReportJob" {
		t.Errorf("the unknown class is the inner one: %v", err)
	}

	r := newRegistry()
	r.register(args.ActiveJobWrapper, func(map[string]any) {}, nil)
	d, err := prepared(t, r, railsPayload(`[]`))
	if err != nil || d.Class != args.ActiveJobWrapper || len(d.Args) != 1 {
		t.Errorf("a handler of the wrapper gets the wrapper: %+v, %v", d, err)
	}
}

func TestGlobalID(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want GlobalID // zero: refused
	}{
		{"gid://shop/User/1", GlobalID{"shop", "User", "1"}},
		{"gid://shop-app/Admin::User/a+b%2Fc", GlobalID{"shop-app", "Admin::User", "a b/c"}},
		{"gid://shop/Order/7/8", GlobalID{"shop", "Order", "7/8"}},
		{"gid://shop/User/1?tenant=5", GlobalID{"shop", "User", "1"}},
		{"gid://shop/User", GlobalID{}},
		{"gid://shop/User/", GlobalID{}},
		{"gid:///User/1", GlobalID{}},
		{"gid://shop/User/%zz", GlobalID{}},
		{"http://shop/User/1", GlobalID{}},
		{"", GlobalID{}},
	}
	for _, tt := range tests {
		var got GlobalID
		text, _ := json.Marshal(tt.text)
		err := json.Unmarshal(text, &got)
		if got != tt.want || (err == nil) != (tt.want != GlobalID{}) {
			t.Errorf("%s: got %+v, %v", tt.text, got, err)
		}
	}
	if b, err := json.Marshal(GlobalID{"shop", "Admin::User", "a b"}); err != nil || string(b) != `"gid://shop/Admin::User/a+b"` {
		t.Errorf("got %s, %v", b, err)
	}
}

// deaf is a handler of lines that does nothing with them. Those of slog take room from pools, which forget some of it under the race detector.
type deaf struct{ slog.Handler }

func (deaf) Enabled(context.Context, slog.Level) bool  { return true }
func (deaf) Handle(context.Context, slog.Record) error { return nil }

// A worker's lines have room in common and nothing else, and a Logger that shows where lines come from learns that of each.
func TestLinesOfJobs(t *testing.T) {
	var out bytes.Buffer
	w := &workers{Base: part.Base{Log: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{AddSource: true}))}}
	h, task := new(hand), new(inflight.Task)
	task.Queue, task.Name, task.ID, task.Worker = "mail", "C", "j1", "w"
	failed := &outcome.Outcome{State: outcome.Retried, Err: errNoLuck, Ran: time.Second, Log: outcome.Log{Attrs: []slog.Attr{slog.Int("attempt", 3)}}}
	w.log(h, task, failed)
	w.log(h, new(inflight.Task), &outcome.Outcome{State: outcome.Cancelled})
	w.log(h, task, failed)
	type line struct {
		Source                                          slog.Source
		Msg, Queue, Class, Worker, ID, Error, Exception string
		Duration                                        time.Duration
		Attempt                                         int
	}
	var lines [3]line
	for i, d := 0, json.NewDecoder(&out); i < len(lines); i++ {
		if err := d.Decode(&lines[i]); err != nil {
			t.Fatal(err)
		}
		if f := lines[i].Source.Function; f != "github.com/goworker/goworker.(*workers).log" {
			t.Errorf("line %d comes from %q", i, f)
		}
		lines[i].Source = slog.Source{}
	}
	want := line{Msg: "job failed; it is retried", Queue: "mail", Class: "C", Worker: "w", ID: "j1", Error: errNoLuck.Error(), Exception: "Error", Duration: time.Second, Attempt: 3}
	if lines[0] != want || lines[2] != want || lines[1] != (line{Msg: "job cancelled"}) {
		t.Errorf("logged %+v", lines)
	}

	w.Log = slog.New(deaf{})
	done := &outcome.Outcome{State: outcome.Cancelled}
	if n := testing.AllocsPerRun(100, func() { w.log(h, task, done) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
