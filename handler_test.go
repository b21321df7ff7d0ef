package goworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"
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
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := runJob(t, tt.fn, `[]`)
			if err != tt.err || d.Result != tt.result {
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
		{"three results", func() (a, b int, err error) { return 0, 0, nil }, "3 results"},
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
	wantPanic(t, "needs a class name", func() { newRegistry().register("", func() {}, nil) })
	wantPanic(t, "nil Option", func() { newRegistry().register("C", func() {}, []Option{nil}) })
	wantPanic(t, "nil Middleware", func() { newRegistry().register("C", func() {}, []Option{With(nil)}) })
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
