package args

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/payload"
)

// taking is a function of one parameter.
func taking[T any]() *Function { return mustCompile(func(T) {}) }

func mustCompile(fn any) *Function {
	f, err := Compile(reflect.ValueOf(fn))
	if err != nil {
		panic(err)
	}
	return f
}

type (
	text  string
	level int
	grown struct {
		customer
		Since *time.Time `json:"since"`
	}
	narrow struct {
		Name string `json:"name"`
	}
	blob struct {
		Name string `json:"name"`
		Data []byte `json:"data"`
	}
	tree struct {
		Name string  `json:"name"`
		Kids []*tree `json:"kids"`
	}
	voice interface{ Speak() }
	mute  struct {
		Voice voice `json:"voice"`
	}
	embedding struct {
		*narrow
		Level level `json:"level,omitempty"`
	}
)

type dog struct{}

func (dog) Speak() {}

// secret writes itself and cannot be read.
type secret struct{ N int }

func (secret) MarshalJSON() ([]byte, error) { return []byte(`"secret"`), nil }

// Severity is read from its name, and written as number.
type severity int

func (s *severity) UnmarshalText(text []byte) error {
	if string(text) != "high" {
		return errors.New("no severity")
	}
	*s = 2
	return nil
}

func TestCheck(t *testing.T) {
	t.Parallel()
	endless := &tree{Name: "a"}
	endless.Kids = []*tree{endless, endless}
	five, nothing := 5, (*int)(nil)
	for _, tt := range []struct {
		f     *Function
		args  []any
		more  bool
		index int
		found string // "": they fit
	}{
		{f: mustCompile(func(string, int) {}), args: []any{"a", 1}},
		{f: mustCompile(func(string, int) {}), args: []any{"a"}, found: "1"},
		{f: mustCompile(func(string, int) {}), args: []any{"a"}, more: true},
		{f: mustCompile(func(string, int) {}), args: []any{1}, more: true, index: 1, found: "an int"},
		{f: mustCompile(func(string, int) {}), args: []any{"a", 1, 2}, found: "3"},
		{f: mustCompile(func(string, int) {}), args: []any{"a", 1, 2}, more: true, found: "3"},
		{f: mustCompile(func() {}), args: nil},
		{f: mustCompile(func(string, ...int) {}), args: []any{"a"}},
		{f: mustCompile(func(string, ...int) {}), args: []any{"a", 1, int8(2), 3.0}},
		{f: mustCompile(func(string, ...int) {}), args: []any{"a", 1, "2"}, index: 3, found: "a string"},
		{f: mustCompile(func(string, ...int) {}), args: []any{"a", []int{1}}, index: 2, found: "a []int"},
		{f: mustCompile(func(string, ...int) {}), args: nil, found: "0"},

		// Numbers: by their values.
		{f: taking[int8](), args: []any{127}},
		{f: taking[int8](), args: []any{128}, index: 1, found: "an int whose value an int8 cannot hold"},
		{f: taking[uint](), args: []any{-1}, index: 1, found: "an int whose value a uint cannot hold"},
		{f: taking[int](), args: []any{1.5}, index: 1, found: "a float64 whose value an int cannot hold"},
		{f: taking[int](), args: []any{3.0}},
		{f: taking[int](), args: []any{uint64(math.MaxUint64)}, index: 1, found: "a uint64 whose value an int cannot hold"},
		{f: taking[float64](), args: []any{int64(1) << 60}},
		{f: taking[float64](), args: []any{int64(1)<<53 + 1}, index: 1, found: "an int64 with digits that a float64 does not hold"},
		{f: taking[float32](), args: []any{0.1}},
		{f: taking[float32](), args: []any{1.0 / 3}, index: 1, found: "a float64 with digits that a float32 does not hold"},
		{f: taking[float32](), args: []any{1e300}, index: 1, found: "a float64 whose value a float32 cannot hold"},
		{f: taking[float64](), args: []any{math.NaN()}, index: 1, found: "a float64 with a number that JSON does not have"},
		{f: taking[any](), args: []any{math.Inf(1)}, index: 1, found: "a float64 with a number that JSON does not have"},
		{f: taking[[]float64](), args: []any{[]float64{1, math.NaN()}}, index: 1, found: "a []float64 with a number that JSON does not have"},
		{f: taking[float64](), args: []any{float32(0.1)}},
		{f: taking[level](), args: []any{3}},
		{f: taking[int](), args: []any{level(3)}},
		{f: taking[int](), args: []any{json.Number("3")}},
		{f: taking[int](), args: []any{json.Number("3.5")}, index: 1, found: "a json.Number whose value an int cannot hold"},
		{f: taking[json.Number](), args: []any{3}},
		{f: taking[time.Duration](), args: []any{time.Second}},
		{f: taking[bool](), args: []any{1}, index: 1, found: "an int"},

		// Text and bytes.
		{f: taking[text](), args: []any{"a"}},
		{f: taking[string](), args: []any{text("a")}},
		{f: taking[string](), args: []any{"\xff"}, index: 1, found: "a string with text that is not UTF-8"},
		{f: taking[[]string](), args: []any{[]string{"a", "\xff"}}, index: 1, found: "a []string with text that is not UTF-8"},
		{f: taking[map[string]int](), args: []any{map[string]int{"\xff": 1}}, index: 1, found: "a map[string]int with text that is not UTF-8"},
		{f: taking[any](), args: []any{map[string]any{"a": &customer{Tags: []string{"\xff"}}}}, index: 1, found: "a map[string]interface {} with text that is not UTF-8"},
		{f: taking[json.RawMessage](), args: []any{json.RawMessage("\"\xff\"")}, index: 1, found: "a json.RawMessage without a JSON form"},
		{f: taking[[]byte](), args: []any{[]byte("\xff")}},
		{f: taking[[]byte](), args: []any{"test"}, index: 1, found: "a string with text where bytes are expected"},
		{f: taking[string](), args: []any{[]byte("test")}, index: 1, found: "a []uint8, which is base64 in JSON"},
		{f: taking[[][]byte](), args: []any{[]any{"test"}}, index: 1, found: "a []interface {} with text where bytes are expected"},
		{f: taking[[][]byte](), args: []any{[]any{[]byte("test")}}},
		{f: taking[blob](), args: []any{map[string]any{"name": "a"}}},
		{f: taking[blob](), args: []any{map[string]any{"name": "a", "data": "test"}}, index: 1, found: "a map[string]interface {} with text where bytes are expected"},
		{f: taking[[]byte](), args: []any{json.RawMessage(`"dGVzdA=="`)}},
		{f: taking[[]byte](), args: []any{[2]byte{1, 2}}},
		{f: taking[any](), args: []any{[]byte("test")}},

		// Nil and pointers.
		{f: taking[*int](), args: []any{nil}},
		{f: taking[[]int](), args: []any{nil}},
		{f: taking[map[string]int](), args: []any{nil}},
		{f: taking[any](), args: []any{nil}},
		{f: taking[json.RawMessage](), args: []any{nil}},
		{f: taking[sql.Null[int]](), args: []any{nil}, index: 1, found: "nil"},
		{f: taking[big.Int](), args: []any{nil}, index: 1, found: "nil"},
		{f: taking[string](), args: []any{nil}, index: 1, found: "nil"},
		{f: taking[time.Time](), args: []any{nil}, index: 1, found: "nil"},
		{f: taking[int](), args: []any{&five}},
		{f: taking[*int](), args: []any{5}},
		{f: taking[**int](), args: []any{&five}},
		{f: taking[*int](), args: []any{nothing}},
		{f: taking[int](), args: []any{nothing}, index: 1, found: "a nil *int"},
		{f: taking[*mute](), args: []any{(*mute)(nil)}},
		{f: taking[mute](), args: []any{(*mute)(nil)}, index: 1, found: "a nil *args.mute"},
		{f: taking[int](), args: []any{json.RawMessage("null")}, index: 1, found: "a json.RawMessage"},
		{f: taking[*int](), args: []any{json.RawMessage("null")}},

		// Structs, maps, lists.
		{f: taking[customer](), args: []any{customer{Name: "a"}}},
		{f: taking[*customer](), args: []any{customer{Name: "a"}}},
		{f: taking[customer](), args: []any{&customer{Name: "a"}}},
		{f: taking[customer](), args: []any{map[string]any{"name": "a", "age": 5}}},
		{f: taking[customer](), args: []any{map[string]any{"NAME": "a"}}},
		{f: taking[customer](), args: []any{map[string]any{"age": 300}}, index: 1, found: "a map[string]interface {} with a number with a fraction or out of range in age"},
		{f: taking[customer](), args: []any{map[string]any{"age": "x"}}, index: 1, found: "a map[string]interface {} with a string in age"},
		{f: taking[customer](), args: []any{map[string]any{"age": nil}}, index: 1, found: "a map[string]interface {} with null where an int8 is expected"},
		{f: taking[customer](), args: []any{map[string]any{"size": 1}}, index: 1, found: `a map[string]interface {} with a member "size", for which args.customer has no field`},
		{f: taking[narrow](), args: []any{customer{Name: "a"}}, index: 1, found: `an args.customer with a member "age", for which args.narrow has no field`},
		{f: taking[customer](), args: []any{narrow{"a"}}},
		{f: taking[grown](), args: []any{customer{Name: "a", Tags: []string{"b"}}}},
		{f: taking[embedding](), args: []any{embedding{}}},
		{f: taking[embedding](), args: []any{embedding{narrow: &narrow{"a"}}}, index: 1, found: "an args.embedding"},
		{f: taking[map[string]any](), args: []any{customer{Name: "a"}}},
		{f: taking[map[string]any](), args: []any{map[string]any{"id": int64(1)<<60 + 1}}},
		{f: taking[[]customer](), args: []any{[]narrow{{"a"}}}},
		{f: taking[[]int](), args: []any{[]any{1, 2.0}}},
		{f: taking[[]int](), args: []any{[]any{1, "2"}}, index: 1, found: "a []interface {}"},
		{f: taking[[2]int](), args: []any{[]int{1, 2, 3}}, index: 1, found: "a []int with more than 2 elements"},
		{f: taking[[3]int](), args: []any{[]int{1, 2}}},
		{f: taking[[]float64](), args: []any{[]int64{1<<53 + 1}}, index: 1, found: "a []int64 with digits that a float64 does not hold"},
		{f: taking[map[string]float64](), args: []any{map[string]int64{"a": 1<<53 + 1}}, index: 1, found: "a map[string]int64 with digits that a float64 does not hold"},
		{f: taking[map[int]string](), args: []any{map[string]string{"7": "a"}}},
		{f: taking[map[int]string](), args: []any{map[string]string{"b": "a"}}, index: 1, found: "a map[string]string"},
		{f: taking[customer](), args: []any{[]int{}}}, // as PHP writes an empty map
		{f: taking[tree](), args: []any{tree{"a", []*tree{{"b", nil}}}}},
		{f: taking[tree](), args: []any{endless}, index: 1, found: "a *args.tree with values nested too deeply, or itself in it"},
		{f: taking[tree](), args: []any{map[string]any{"kids": []any{map[string]any{"name": 1}}}}, index: 1, found: "a map[string]interface {} with a number in kids.name"},

		// What writes and reads itself.
		{f: taking[time.Time](), args: []any{time.Unix(7, 0)}},
		{f: taking[time.Time](), args: []any{"2026-11-21T00:00:00Z"}},
		{f: taking[time.Time](), args: []any{"2026-11-21"}},
		{f: taking[time.Time](), args: []any{"tomorrow"}, index: 1, found: "a string"},
		{f: taking[string](), args: []any{time.Unix(7, 0)}},
		{f: taking[netip.Addr](), args: []any{netip.MustParseAddr("::1")}},
		{f: taking[severity](), args: []any{"high"}},
		{f: taking[severity](), args: []any{"low"}, index: 1, found: "a string"},
		{f: taking[severity](), args: []any{severity(2)}, index: 1, found: "an args.severity"},
		{f: taking[secret](), args: []any{secret{1}}, index: 1, found: "an args.secret"},
		{f: taking[mute](), args: []any{mute{}}},
		{f: taking[mute](), args: []any{mute{dog{}}}, index: 1, found: "an args.mute with an object in voice"},

		// JSON, and what has none.
		{f: taking[int](), args: []any{json.RawMessage("5")}},
		{f: taking[int](), args: []any{json.RawMessage(`"5"`)}, index: 1, found: "a json.RawMessage"},
		{f: taking[customer](), args: []any{json.RawMessage(`{"name":"a"}`)}},
		{f: taking[json.RawMessage](), args: []any{customer{}}},
		{f: taking[int](), args: []any{json.RawMessage("{")}, index: 1, found: "a json.RawMessage without a JSON form"},
		{f: taking[any](), args: []any{make(chan int)}, index: 1, found: "a chan int without a JSON form"},
		{f: taking[string](), args: []any{func() {}}, index: 1, found: "a func() without a JSON form"},
	} {
		e := tt.f.Check(tt.args, tt.more)
		if (e == nil) != (tt.found == "") || e != nil && (e.Index != tt.index || e.Found != tt.found) {
			t.Errorf("%s of %#v: %+v; want %d, %q", tt.f.Takes(), tt.args, e, tt.index, tt.found)
		}
		agrees(t, tt.f, tt.args, tt.more, e)
	}
	if got := mustCompile(func(string, *customer, ...int) {}).Takes(); got != "(string, *args.customer, ...int)" {
		t.Error(got)
	}
	if got := mustCompile(func() {}).Takes(); got != "()" {
		t.Error(got)
	}
}

// agrees compares what Check says of arguments with what a worker makes of them. What passes, it decodes, and nothing is
// lost. What is refused, it does not decode, or something is lost, or text and bytes are mistaken for each other.
func agrees(t *testing.T, f *Function, given []any, more bool, e *Error) {
	t.Helper()
	if more || e != nil && e.Index == 0 {
		return
	}
	raws := make([]json.RawMessage, len(given))
	for i, arg := range given {
		raw, err := payload.EncodeValue(arg, payload.Plain)
		if err != nil {
			if e == nil {
				t.Errorf("%#v for %s passes, and has no JSON: %v", given, f.Takes(), err)
			}
			return
		}
		if raws[i] = raw; e == nil && bytes.ContainsRune(raw, utf8.RuneError) {
			t.Errorf("%#v for %s passes, and its text becomes %s", given, f.Takes(), raw)
		}
	}
	for i, raw := range raws {
		p := f.rest
		if i < len(f.fixed) {
			p = &f.fixed[i]
		}
		v := reflect.New(p.typ).Elem()
		if err := p.decode(raw, v, true); err != nil {
			if e == nil {
				t.Errorf("%#v for %s passes, and the worker cannot decode %s: %v", given, f.Takes(), raw, err)
			}
			return
		}
		if e == nil && given[i] != nil && bare(reflect.TypeOf(given[i])) == bare(p.typ) {
			continue // what a type of the program leaves out of its JSON is its own affair
		}
		whole := keeps(raw, v)
		switch {
		case e == nil && !whole && (p.typ == numberType || !decodesItself(bare(p.typ))):
			t.Errorf("%#v for %s passes, and of %s the worker has %#v", given, f.Takes(), raw, v)
		case e != nil && e.Index == i+1 && whole && !mistaken(e):
			t.Errorf("%#v for %s is refused as %q, and of %s the worker has %#v", given, f.Takes(), e.Found, raw, v)
		}
	}
}

// mistaken reports whether JSON says another thing than the value, so that its bytes tell nothing of the loss.
func mistaken(e *Error) bool {
	return strings.Contains(e.Found, "base64") || strings.Contains(e.Found, "text where bytes") || strings.Contains(e.Found, "text that is not UTF-8")
}

// keeps reports whether the JSON of what was decoded says all that the JSON said of which it was. It knows nothing of types: it is
// what Check is compared with.
func keeps(raw []byte, v reflect.Value) bool {
	again, err := payload.EncodeValue(v.Interface(), payload.Plain)
	if err != nil {
		return false
	}
	return kept(tree2(raw), tree2(again))
}

func tree2(raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	return v
}

func kept(was, is any) bool {
	switch was := was.(type) {
	case json.Number:
		is, number := is.(json.Number)
		return number && sameNumber(string(was), string(is))
	case string:
		s, _ := is.(string)
		at, errWas := time.Parse(time.DateOnly, was)
		other, errIs := time.Parse(time.RFC3339, s)
		return s == was || errWas == nil && errIs == nil && at.Equal(other)
	case []any:
		list, ok := is.([]any)
		if s, text := is.(string); text { // a list of bytes is written as base64
			decoded, err := base64.StdEncoding.DecodeString(s)
			for _, b := range decoded {
				list = append(list, json.Number(strconv.Itoa(int(b))))
			}
			ok = err == nil
		}
		if !ok {
			object, ok := is.(map[string]any)
			return ok && len(was) == 0 && object != nil
		}
		for i, w := range was {
			if i >= len(list) || !kept(w, list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		object, ok := is.(map[string]any)
		if !ok {
			return false
		}
	members:
		for name, w := range was {
			if of, has := object[name]; has {
				if !kept(w, of) {
					return false
				}
				continue
			}
			for other, of := range object {
				if strings.EqualFold(name, other) && kept(w, of) {
					continue members
				}
			}
			return false
		}
		return true
	}
	return was == is
}

func sameNumber(was, is string) bool {
	a, _ := new(big.Rat).SetString(was)
	b, _ := new(big.Rat).SetString(is)
	if a.Cmp(b) == 0 {
		return true
	}
	for _, bits := range []int{32, 64} { // a float's shortest text, of the same float
		f, err := strconv.ParseFloat(is, bits)
		if err == nil && a.Cmp(new(big.Rat).SetFloat64(f)) == 0 {
			return true
		}
	}
	return false
}

// world makes types and values by chance.
type world struct{ *rand.Rand }

var leaves = []reflect.Type{
	reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[uint16](),
	reflect.TypeFor[int64](), reflect.TypeFor[uint64](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[any](),
	reflect.TypeFor[[]byte](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[json.Number](), reflect.TypeFor[time.Time](), reflect.TypeFor[text](),
	reflect.TypeFor[netip.Addr](), reflect.TypeFor[customer](), reflect.TypeFor[tree](),
}

func (w world) typ(depth int) reflect.Type {
	switch n := w.IntN(12); {
	case depth == 0 || n < 6:
		return leaves[w.IntN(len(leaves))]
	case n < 7:
		return reflect.PointerTo(w.typ(depth - 1))
	case n < 8:
		return reflect.SliceOf(w.typ(depth - 1))
	case n < 9:
		return reflect.ArrayOf(w.IntN(3), w.typ(depth-1))
	case n < 10:
		return reflect.MapOf(reflect.TypeFor[string](), w.typ(depth-1))
	}
	var fields []reflect.StructField
	for i := range w.IntN(4) {
		name := string(rune('A' + i + w.IntN(2)))
		if len(fields) > 0 && fields[len(fields)-1].Name == name {
			continue
		}
		fields = append(fields, reflect.StructField{Name: name, Type: w.typ(depth - 1), Tag: reflect.StructTag([]string{"", `json:"` + strings.ToLower(name) + `"`}[w.IntN(2)])})
	}
	return reflect.StructOf(fields)
}

func (w world) value(t reflect.Type, depth int) reflect.Value {
	v := reflect.New(t).Elem()
	switch t {
	case rawType:
		raw, _ := payload.EncodeValue(w.value(w.typ(1), depth-1).Interface(), payload.Plain)
		v.SetBytes(bytes.ReplaceAll(raw, []byte("\uFFFD"), []byte("x"))) // of a text that is not UTF-8
		return v
	case numberType:
		v.SetString([]string{"1", "2.5", "1e3", "9007199254740993"}[w.IntN(4)])
		return v
	case timeType:
		v.Set(reflect.ValueOf(time.Unix(w.Int64N(1e9), w.Int64N(1e9)).UTC()))
		return v
	case reflect.TypeFor[netip.Addr]():
		v.Set(reflect.ValueOf(netip.AddrFrom4([4]byte{1, 2, 3, byte(w.IntN(256))})))
		return v
	}
	switch t.Kind() {
	case reflect.String:
		v.SetString([]string{"", "test", "a b", "1", "2026-11-21", "1.2.3.4", "é<", "dGVzdA==", "\xff"}[w.IntN(9)])
	case reflect.Bool:
		v.SetBool(w.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int64:
		v.SetInt([]int64{0, 1, -1, 127, 128, 1<<53 + 1, 1 << 60, math.MinInt64}[w.IntN(8)] % (1 << (t.Bits() - 1) >> 1 * 2))
	case reflect.Uint16, reflect.Uint64:
		v.SetUint([]uint64{0, 1, 65535, 1<<53 + 1}[w.IntN(4)] % (1 << (t.Bits() - 1)))
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{0, 1, -2.5, 0.1, 1.0 / 3, 1e21, 1 << 60, 3}[w.IntN(8)])
	case reflect.Interface:
		if depth > 0 && w.IntN(4) > 0 {
			v.Set(w.value(w.typ(1), depth-1))
		}
	case reflect.Pointer:
		if depth > 0 && w.IntN(4) > 0 {
			v.Set(reflect.New(t.Elem()))
			v.Elem().Set(w.value(t.Elem(), depth-1))
		}
	case reflect.Slice:
		if n := w.IntN(4); n > 0 && depth > 0 {
			v.Set(reflect.MakeSlice(t, n-1, n-1))
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).Set(w.value(t.Elem(), depth-1))
		}
	case reflect.Uint8:
		v.SetUint(uint64(w.IntN(256)))
	case reflect.Map:
		if w.IntN(4) > 0 && depth > 0 {
			v.Set(reflect.MakeMap(t))
			for _, key := range []string{"a", "B", "name"}[:w.IntN(4)] {
				v.SetMapIndex(reflect.ValueOf(key), w.value(t.Elem(), depth-1))
			}
		}
	case reflect.Struct:
		for i := range t.NumField() {
			v.Field(i).Set(w.value(t.Field(i).Type, depth-1))
		}
	}
	return v
}

// Random values for random parameters: Check lets through what a worker decodes without loss, and nothing else.
func TestCheckAgreesWithDecoding(t *testing.T) {
	t.Parallel()
	rounds := 5_000
	if testing.Short() {
		rounds = 1_000
	}
	passed := 0
	for seed := range uint64(rounds) {
		w := world{rand.New(rand.NewPCG(seed, 24))}
		to, from := w.typ(2), w.typ(2)
		if w.IntN(3) == 0 {
			from = to
		}
		f, err := Compile(reflect.MakeFunc(reflect.FuncOf([]reflect.Type{to}, nil, false), nil))
		if err != nil {
			t.Fatal(err)
		}
		given := []any{w.value(from, 3).Interface()}
		e := f.Check(given, false)
		if e == nil {
			passed++
		}
		agrees(t, f, given, false, e)
		if t.Failed() {
			t.Fatalf("seed %d: %s for %s", seed, from, to)
		}
	}
	t.Logf("%d of %d passed", passed, rounds)
	if passed < rounds/4 || passed > rounds*3/4 {
		t.Errorf("%d of %d passed: the types are too alike, or not enough", passed, rounds)
	}
}

// Any JSON as an argument, for any of these functions: Check and the worker agree.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{`1`, `"a"`, `{"name":"x","age":1}`, `[1,2]`, `null`, `1.5e3`, `true`, `"2026-11-21"`, `"AAE="`, `{"a":{"kids":[{}]}}`, `9007199254740993`} {
		f.Add(s)
	}
	functions := []*Function{
		taking[string](), taking[int8](), taking[uint64](), taking[float32](), taking[bool](), taking[customer](), taking[*customer](), taking[grown](), taking[tree](),
		taking[any](), taking[[]byte](), taking[[]any](), taking[[2]float64](), taking[map[string]float32](), taking[map[int8]string](), taking[json.Number](),
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if !json.Valid([]byte(raw)) || !utf8.ValidString(raw) {
			return
		}
		encoded, err := payload.EncodeValue(json.RawMessage(raw), payload.Plain)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range functions {
			e := to.Check([]any{json.RawMessage(raw)}, false)
			if _, misfit, _ := to.Call(t.Context(), []json.RawMessage{encoded}, true); e == nil && misfit != nil {
				t.Errorf("%s for %s passes, and the worker says %+v", raw, to.Takes(), misfit)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	for name, c := range map[string]struct {
		f    *Function
		args []any
	}{
		"scalars": {mustCompile(func(string, int) {}), []any{"ann@example.com", 3}},
		"struct":  {mustCompile(func(customer) {}), []any{customer{Name: "ann", Tags: []string{"a", "b"}}}},
		"convert": {mustCompile(func(int64, float64) {}), []any{3, 4}},
		"map":     {mustCompile(func(customer) {}), []any{map[string]any{"name": "ann", "age": 4}}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if e := c.f.Check(c.args, false); e != nil {
					b.Fatal(fmt.Sprint(e))
				}
			}
		})
	}
}
