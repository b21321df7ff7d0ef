package delayedbridge

import (
	"context"
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/msgpack"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/payload"
)

type fuzzed struct {
	A     int
	B     string `json:"b,omitempty"`
	Next  *fuzzed
	Parts []fuzzed
	At    time.Time
	Bytes []byte
	ByKey map[string]fuzzed
	Any   any
	Gone  int `json:"-"`
}

type fuzzedMore struct {
	fuzzed
	*fuzzedParts
	Last bool
}

type fuzzedParts struct{ C, D float64 }

type octet byte

// signatures are those of functions that a task may be for.
func signatures() (all []args.Signature) {
	for _, f := range []any{
		func() {}, func(int) {}, func(string) {}, func([]byte) {}, func(any) {}, func(*fuzzed) {}, func(fuzzedMore) {}, func(...fuzzed) {},
		func(context.Context, fuzzed, ...[]fuzzed) {}, func(int, map[string]*fuzzed, ...int) {}, func(json.RawMessage, time.Time) {}, func([3]octet, netip.Prefix, map[uint8]fuzzed) {},
	} {
		compiled, err := args.Compile(reflect.ValueOf(f))
		if err != nil {
			panic(err)
		}
		all = append(all, compiled.Signature())
	}
	return append(all, args.Signature{})
}

// Any bytes become a job, or a failure with a sentence; both are JSON that every tool reads.
func FuzzTask(f *testing.F) {
	for _, seed := range []string{
		"", "\x90", "\x92\xa5pkg.F\xc4\x03\x92\x01\x02", "\xa5pkg.F", "\x91\xa5pkg.F", "\x92\xa5pkg.F\xc0",
		"\x92\xa5pkg.F\xc4\x07\x92\x01\xa4test", "\x93\xa3m:f\x91\x01\x81\xa1k\x02", "\x94\xa3m:f\x90\x80\x03", "\x92\xa5pkg.F\xc4\x01\xc0",
		"\x92\xa5pkg.F\xc4\x06\x81\xa1A\x92\x01\x02", "\x92\xa5pkg.F\xc4\x05\xdd\xff\xff\xff\xff", "\x92\xa5pkg.F\xc4\x06\xd6\xff\x00\x00\x00\x01",
		"\x92\xa5pkg.F\xc4\x09\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", "\x92\xa5pkg.F\xc4\x08\x93\x01\xa1b\x93\x02\xc0\x90\xc0",
	} {
		f.Add([]byte(seed), byte(0))
	}
	all := signatures()
	f.Fuzz(func(t *testing.T, task []byte, which byte) {
		s := all[int(which)%len(all)]
		b := &bridge{queue: Queue{Name: "q"}, Neighbor: neighbor.Neighbor{Signature: func(string) (args.Signature, bool) { return s, true }}}
		job, err := b.job(task)
		if !json.Valid(job) {
			t.Fatalf("%x became %q, %v", task, job, err)
		}
		if _, wrong := payload.Parse(job); wrong != nil && len(task) < 100 {
			t.Fatalf("%x became %q, which is no job: %v", task, job, wrong)
		}
		if err != nil && len(err.Error()) < 40 {
			t.Fatalf("%x: %v is no sentence", task, err)
		}
	})
}

// What is packed for a worker of Go is decoded by the types of its function.
func FuzzGoTask(f *testing.F) {
	f.Add(1, "b", []byte("x"), true, 2.5)
	f.Fuzz(func(t *testing.T, n int, text string, bytes []byte, deep bool, x float64) {
		in := fuzzedMore{fuzzed{A: n, B: text, Bytes: bytes, At: time.Unix(int64(n)%1e9, 0).UTC()}, &fuzzedParts{x, -x}, deep}
		if deep {
			inner := in.fuzzed
			in.Next, in.Parts, in.ByKey, in.Any = &inner, []fuzzed{inner, {}}, map[string]fuzzed{text: inner}, text
		}
		task := GoTask("pkg.F", in.fuzzed, n)
		s := args.Signature{Known: true, Params: []reflect.Type{reflect.TypeFor[fuzzed](), reflect.TypeFor[int]()}}
		if task.err != nil {
			t.Fatal(task.err)
		}
		got, err := read(task.data)
		if err != nil {
			t.Fatal(err)
		}
		text1, err := goArguments(nil, got.args, s)
		if err != nil {
			if wrong := new(msgpack.Error); reflect.TypeOf(err) == reflect.TypeOf(wrong) {
				return // text that is not UTF-8
			}
			t.Skip(err)
		}
		var out []json.RawMessage
		var back fuzzed
		if err := json.Unmarshal(text1, &out); err != nil || len(out) != 2 {
			t.Fatalf("%s: %v", text1, err)
		}
		if err := json.Unmarshal(out[0], &back); err != nil {
			t.Fatalf("%s: %v", out[0], err)
		}
		want := in.fuzzed
		if want.Bytes == nil {
			want.Bytes = back.Bytes
		}
		if !reflect.DeepEqual(normal(t, back), normal(t, want)) {
			t.Fatalf("%+v became %+v", want, back)
		}
	})
}

// normal is a value as JSON has it.
func normal(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Skip(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPackedTasks(t *testing.T) {
	t.Parallel()
	type options struct {
		Format string `json:"format"`
		Pages  int    `json:"pages,omitempty"`
		Own    int    `json:"-"`
		fuzzedParts
	}
	type kwargs struct{ A, B, C any }
	for name, test := range map[string]struct {
		task Task
		want string
	}{
		"two numbers":                 {GoTask("pkg.F", 1, 2), "\x92\xa5pkg.F\xc4\x03\x92\x01\x02"},
		"one":                         {GoTask("pkg.F", -1), "\x92\xa5pkg.F\xc4\x01\xff"},
		"none":                        {GoTask("pkg.F"), "\x92\xa5pkg.F\xc4\x01\xc0"},
		"a struct":                    {GoTask("pkg.F", struct{ A, B any }{1, "x"}), "\x92\xa5pkg.F\xc4\x04\x92\x01\xa1x"},
		"Python, trimmed":             {PyTask("m:f", nil, nil), "\x91\xa3m:f"},
		"Python, no kwargs":           {PyTask("m:f", []any{1}, map[string]any{}), "\x92\xa3m:f\x91\x01"},
		"Python, only kwargs":         {PyTask("m:f", nil, map[string]int{"b": 2, "a": 1}), "\x93\xa3m:f\x90\x82\xa1a\x01\xa1b\x02"},
		"Python, a struct for kwargs": {PyTask("m:f", []any{nil}, kwargs{A: 1}), "\x93\xa3m:f\x91\xc0\x83\xa1A\x01\xa1B\xc0\xa1C\xc0"},
		"Python, a struct as a dict":  {PyTask("m:f", []any{options{Format: "pdf"}}, (*kwargs)(nil)), "\x92\xa3m:f\x91\x81\xa6format\xa3pdf"},
		"Python, bytes and JSON":      {PyTask("m:f", []any{[]byte{1}, json.RawMessage(`[1]`)}, nil), "\x92\xa3m:f\x92\xc4\x01\x01\x91\x01"},
	} {
		if test.task.err != nil || string(test.task.data) != test.want {
			t.Errorf("%s: %q, %v; want %q", name, test.task.data, test.task.err, test.want)
		}
	}
	deep := new(any)
	*deep = deep
	for name, task := range map[string]Task{
		"no module":              PyTask("f", nil, nil),
		"no function":            PyTask("m:", nil, nil),
		"kwargs of a list":       PyTask("m:f", nil, []int{1}),
		"keys that are no texts": PyTask("m:f", []any{map[int]int{1: 1}}, nil),
		"a channel":              GoTask("pkg.F", make(chan int)),
		"no path":                GoTask(""),
		"a path of Python":       GoTask("m:f"),
		"without end":            GoTask("pkg.F", deep),
		"a circle for Python":    PyTask("m:f", []any{deep}, nil),
	} {
		if task.err == nil || task.data != nil || len(task.err.Error()) < 30 {
			t.Errorf("%s: %q, %v", name, task.data, task.err)
		}
	}
}
