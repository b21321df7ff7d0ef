package args

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
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

func TestCompile(t *testing.T) {
	t.Parallel()
	for want, fn := range map[string]any{
		"":                                     func(context.Context, customer, ...time.Time) (int, error) { return 0, nil },
		"is a context.Context, which can only": func(string, context.Context) {},
		"has to do with args.customer, which":  func(map[string]*customer) {},
		"holds a chan int, which no JSON":      func([]chan int) {},
		"is int, not error":                    func() int { return 0 },
		"has two errors as results":            func() (a, b error) { return nil, nil },
		"string, error, error) has two errors": func() (a int, b string, c, d error) { return 0, "", nil, nil },
	} {
		var reserved []reflect.Type
		if want != "" {
			reserved = []reflect.Type{reflect.TypeFor[customer]()}
		}
		_, err := Compile(reflect.ValueOf(fn), reserved...)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q", fn, err, want)
		}
	}
}

func TestFunction(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	f, err := Compile(reflect.ValueOf(func(_ context.Context, c customer, n ...int) (int, error) {
		if len(n) == 0 {
			return 0, boom
		}
		return int(c.Age) + n[0], nil
	}))
	if err != nil || !f.HasResult() {
		t.Fatal(err, f)
	}
	for _, tt := range []struct {
		args   string
		misfit Error // its Err is not compared
		result any
		err    error
	}{
		{args: `[{"age":3},4]`, result: 7},
		{args: `[{"age":3}]`, err: boom},
		{args: `[[],1]`, result: 1},
		{args: `[]`, misfit: Error{Want: "at least 1", Found: "0"}},
		{args: `[{},1.5]`, misfit: Error{Index: 2, Want: "int", Found: "a number with a fraction or out of range"}},
		{args: `[{"tags":[1]}]`, misfit: Error{Index: 1, Want: "string (in args.customer)", Found: "an object with a number in tags"}},
	} {
		var raws []json.RawMessage
		if err := json.Unmarshal([]byte(tt.args), &raws); err != nil {
			t.Fatal(err)
		}
		result, misfit, err := f.Call(t.Context(), raws, false)
		if misfit != nil {
			misfit.Err = nil
			if *misfit != tt.misfit {
				t.Errorf("%s: %+v, want %+v", tt.args, *misfit, tt.misfit)
			}
			continue
		}
		if tt.misfit != (Error{}) || result != tt.result || err != tt.err {
			t.Errorf("%s: %v, %v; want %v, %v", tt.args, result, err, tt.result, tt.err)
		}
	}
}

// Several results are a list, and an error hides them.
func TestFunctionWithResults(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	f, err := Compile(reflect.ValueOf(func(n int) (int, []string, *customer, any, error) {
		if n < 0 {
			return n, nil, nil, nil, boom
		}
		return n, []string{"a"}, nil, nil, nil
	}))
	if err != nil || !f.HasResult() {
		t.Fatal(err, f)
	}
	result, misfit, err := f.Call(t.Context(), []json.RawMessage{[]byte("7")}, false)
	if want := []any{7, []string{"a"}, (*customer)(nil), nil}; misfit != nil || err != nil || !reflect.DeepEqual(result, want) {
		t.Errorf("%#v, %v, %v; want %#v", result, misfit, err, want)
	}
	if result, misfit, err = f.Call(t.Context(), []json.RawMessage{[]byte("-1")}, false); result != nil || misfit != nil || err != boom {
		t.Errorf("%#v, %v, %v", result, misfit, err)
	}
}

// Any arguments against any of these functions: they fit or there is an *Error, never a
// panic.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{`[]`, `[1]`, `["a",1]`, `[{"name":"x"}]`, `[[1,2],null]`, `[1.5e3,true]`, `[null]`, `["2026-11-21"]`, `{"a":1}`} {
		f.Add(s)
	}
	var functions []*Function
	for _, fn := range []any{
		func(context.Context, string, int) error { return nil },
		func(customer) {},
		func(...time.Time) {},
		func(any, *float32, map[string]uint8) {},
		func([]netip.Addr) {},
	} {
		function, err := Compile(reflect.ValueOf(fn))
		if err != nil {
			f.Fatal(err)
		}
		functions = append(functions, function)
	}
	f.Fuzz(func(t *testing.T, list string) {
		var raws []json.RawMessage
		if json.Unmarshal([]byte(list), &raws) != nil {
			return
		}
		for _, useNumber := range []bool{false, true} {
			values, misfit := All(raws, useNumber)
			if misfit == nil && len(values) != len(raws) {
				t.Fatalf("%s: %d values", list, len(values))
			}
			for _, function := range functions {
				if _, misfit, err := function.Call(t.Context(), raws, useNumber); misfit == nil && err != nil {
					t.Fatalf("%s: %v", list, err)
				}
			}
		}
	})
}
