package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// ordered keeps the order of its keys, as an ordered map's MarshalJSON does;
// json.Marshal inside it escapes <, > and &.
type ordered []struct {
	key string
	val any
}

func (o ordered) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, kv := range o {
		if i > 0 {
			b = append(b, ',')
		}
		k, _ := json.Marshal(kv.key)
		v, err := json.Marshal(kv.val)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, k...), ':'), v...)
	}
	return append(b, '}'), nil
}

// onPointer has its MarshalJSON on the pointer.
type onPointer struct{}

func (*onPointer) MarshalJSON() ([]byte, error) { return []byte(`"by pointer <"`), nil }

type named string

type badUTF8 struct{}

func (badUTF8) MarshalJSON() ([]byte, error) { return []byte("\"\xff\""), nil }

type failing struct{}

var errFailing = errors.New("no form today")

func (failing) MarshalJSON() ([]byte, error) { return nil, errFailing }

func TestEncode(t *testing.T) {
	t.Parallel()
	type inner struct {
		A string          `json:"a"`
		R json.RawMessage `json:"r,omitempty"`
	}
	number := json.Number("1.0")
	raw := json.RawMessage(`"\u003c"`)
	var nilMap map[string]any
	var nilList []int
	var nilPointer *inner
	for _, c := range []struct {
		name         string
		value        any
		plain, rails string // rails is "" where it is the same
	}{
		// What Ruby, Node and PHP write differently, or alike.
		{"markup", "<b>&", `"<b>&"`, `"\u003cb\u003e\u0026"`},
		{"line separators", "a\u2028\u2029b", "\"a\u2028\u2029b\"", `"a\u2028\u2029b"`},
		{"slash", "a/b", `"a/b"`, ""},
		{"not ASCII", "é日😀", `"é日😀"`, ""},
		{"0x7f", "\x7f", "\"\x7f\"", ""},
		{"short escapes", "\b\f\n\r\t\"\\", `"\b\f\n\r\t\"\\"`, ""},
		{"control", "\x00\x0b\x1f", `"\u0000\u000b\u001f"`, ""},
		{"1.0 as a literal", number, `1.0`, ""},
		{"1.0 as float64", 1.0, `1`, ""},
		{"literals Ruby prints", []any{json.Number("1.0e+15"), json.Number("1.0e-05"), json.Number("-0.0")}, `[1.0e+15,1.0e-05,-0.0]`, ""},
		{"floats", []float64{0.1, 123456789.125, 1e21, 1e-7}, `[0.1,123456789.125,1e+21,1e-7]`, ""},
		{"float32", float32(0.1), `0.1`, ""},
		{"big integer", json.Number("12345678901234567890"), `12345678901234567890`, ""},
		{"integers", []any{int8(-1), uint64(math.MaxUint64), int64(math.MinInt64), uint8(7)}, `[-1,18446744073709551615,-9223372036854775808,7]`, ""},
		{"not UTF-8", "a\xffb\xe2\x80", "\"a\uFFFDb\uFFFD\uFFFD\"", ""},
		{"maps are sorted", map[string]any{"b": 1, "a": "<", "10": nil}, `{"10":null,"a":"<","b":1}`, `{"10":null,"a":"\u003c","b":1}`},
		{"an ordered map keeps its order", ordered{{"z", "<"}, {"a", "\u2028"}}, "{\"z\":\"<\",\"a\":\"\u2028\"}", `{"z":"\u003c","a":"\u2028"}`},

		{"text that looks like an escape", `\u2028 \\u003c \u003c`, `"\\u2028 \\\\u003c \\u003c"`, ""},
		{"the same within a struct", inner{A: `\u2028 \\u003c` + "\u2028"}, `{"a":"\\u2028 \\\\u003c` + "\u2028\"}", `{"a":"\\u2028 \\\\u003c\u2028"}`},
		{"raw keeps its bytes", json.RawMessage(` { "b" : "\u003c\u2028<` + "\u2028" + `\/" , "a": 1.0e5 } `), `{"b":"\u003c\u2028<` + "\u2028" + `\/","a":1.0e5}`, ""},
		{"raw by pointer and in containers", []any{&raw, []json.RawMessage{raw}, map[string]json.RawMessage{"k": raw}}, `["\u003c",["\u003c"],{"k":"\u003c"}]`, ""},
		{"raw nil", json.RawMessage(nil), `null`, ""},
		{"raw within a struct keeps numbers", inner{R: json.RawMessage(`[ 1.0, 1E5 ]`)}, `{"a":"","r":[1.0,1E5]}`, ""},
		{"empty json.Number", json.Number(""), `0`, ""},
		{"json.Number by pointer", &number, `1.0`, ""},

		{"nothing", nil, `null`, ""},
		{"nil containers", []any{nilMap, nilList, nilPointer, error(nil)}, `[null,null,null,null]`, ""},
		{"empty containers", []any{map[string]int{}, []int{}, [0]int{}, struct{}{}}, `[{},[],[],{}]`, ""},
		{"booleans", []bool{true, false}, `[true,false]`, ""},
		{"bytes", []byte("<>?"), `"PD4/"`, ""},
		{"array of bytes", [2]byte{1, 2}, `[1,2]`, ""},
		{"named string", map[named]named{"k<": "v"}, `{"k<":"v"}`, `{"k\u003c":"v"}`},
		{"integer keys", map[int]string{2: "<", 1: "a"}, `{"1":"a","2":"<"}`, `{"1":"a","2":"\u003c"}`},
		{"time", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), `"2026-01-02T03:04:05Z"`, ""},
		{"method of the pointer", []any{&onPointer{}, []onPointer{{}}}, `["by pointer <",["by pointer <"]]`, `["by pointer \u003c",["by pointer \u003c"]]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rails := c.rails
			if rails == "" {
				rails = c.plain
			}
			for style, want := range map[Style]string{Plain: c.plain, Rails: rails} {
				got, err := EncodeValue(c.value, style)
				if err != nil || string(got) != want {
					t.Errorf("style %d: %s, %v; want %s", style, got, err, want)
				}
			}
		})
	}
}

func TestEncodeErrors(t *testing.T) {
	t.Parallel()
	cycle := map[string]any{}
	cycle["self"] = []any{cycle}
	type link struct{ Next any }
	ring := &link{}
	ring.Next = ring
	for _, c := range []struct {
		value any
		says  string
	}{
		{math.NaN(), "NaN"},
		{[]any{math.Inf(1)}, "+Inf"},
		{map[string]float32{"a": float32(math.Inf(-1))}, "-Inf"},
		{make(chan int), "chan int"},
		{func() {}, "func()"},
		{1i, "complex128"},
		{struct{ C chan int }{}, "chan int"},
		{map[any]any{1: 2}, "map[interface {}]interface {}"},
		{cycle, "contains itself"},
		{ring, "cycle"},
		{json.Number("1.0 "), "json.Number"},
		{json.Number("0x1"), "json.Number"},
		{json.Number("NaN"), "json.Number"},
		{json.RawMessage("{"), "not JSON"},
		{json.RawMessage{}, "not JSON"},
		{json.RawMessage("\"\xff\""), "not UTF-8"},
		{badUTF8{}, "not UTF-8"},
		{failing{}, errFailing.Error()},
	} {
		out, err := EncodeValue(c.value, Plain)
		if err == nil || out != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%T: %s, %v; want an error with %q", c.value, out, err, c.says)
		}
	}
	if _, err := EncodeValue(failing{}, Plain); !errors.Is(err, errFailing) {
		t.Errorf("%v does not wrap the method's error", err)
	}
}

// The values that need no reflection have the bytes that encoding/json gives them, at any depth.
func TestEncodeAsTheStandardLibrary(t *testing.T) {
	t.Parallel()
	type (
		list   []any
		object map[string]any
		number float64
	)
	values := []any{
		nil, true, false, int64(math.MinInt64), int64(math.MaxInt64), "", "text", []any{}, []any(nil), map[string]any{}, map[string]any(nil), list{1, "a"}, object{"b": 1.5, "a": nil}, number(1e-7),
	}
	for _, f := range []float64{0, 1, 1.5, 0.1, 1e6, 1e20, 1e21, 1e22, 123456789012345678, 1e-6, 1e-7, 9.9e-7, 1e-10, 1.5e-9, 1e100, 1e-100, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1)} {
		values = append(values, f, -f)
	}
	values = append(values, slices.Clone(values), map[string]any{"z": values[3], "a": slices.Clone(values), "é": map[string]any{"2": 1, "10": []any{map[string]any{"x": 1e-7}}}, "": false})
	for _, v := range values {
		got, err := EncodeValue(v, Plain)
		want, _ := json.Marshal(v)
		if err != nil || string(got) != string(want) {
			t.Errorf("%v is %s, %v; want %s", v, got, err, want)
		}
		job, err := Encode("C", []any{v}, Plain)
		if err != nil || string(job) != `{"class":"C","args":[`+string(want)+`]}` {
			t.Errorf("a job with %v is %s, %v", v, job, err)
		}
	}
	itself := []any{nil}
	itself[0] = map[string]any{"a": itself}
	for _, v := range []any{math.NaN(), []any{math.Inf(1)}, map[string]any{"a": number(math.Inf(-1))}, map[string]any{"a": make(chan int)}, []any{func() {}}, itself} {
		if got, err := EncodeValue(v, Plain); err == nil {
			t.Errorf("%T is %s", v, got)
		}
	}
}

// FuzzEncode holds both styles against encoding/json: of a string, of JSON
// decoded to values, of a struct, and of raw JSON.
func FuzzEncode(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1.0,"<é&>\u2028\\u2028",null,{"b":{}}]}`, `"\\\u003c"`, "\u2028\u2029", "\xff", `\u003c`,
		`12345678901234567890`, ` [ 1 , 2 ] `, `"\ud83d\ude00\ud800"`, "\x00\x0b\x7f", `{"a":1,"a":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		checkStyles(t, string(text))
		var v any
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if dec.Decode(&v) == nil {
			checkStyles(t, v)
		}
		raw, err := EncodeValue(json.RawMessage(text), Plain)
		if valid := json.Valid(text) && utf8.Valid(text); valid != (err == nil) {
			t.Fatalf("raw %q: %v, but valid is %v", text, err, valid)
		}
		var compact bytes.Buffer
		if err == nil && (json.Compact(&compact, text) != nil || !bytes.Equal(raw, compact.Bytes())) {
			t.Fatalf("raw %q became %q", text, raw)
		}
	})
}

func checkStyles(t *testing.T, v any) {
	t.Helper()
	plain, err1 := EncodeValue(v, Plain)
	rails, err2 := EncodeValue(v, Rails)
	std, err3 := json.Marshal(v)
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatalf("%v, %v, %v", err1, err2, err3)
	}
	// encoding/json writes the replacement character as an escape where the
	// string was not UTF-8, and raw where it was in the string.
	if s, isString := v.(string); isString && !utf8.ValidString(s) {
		std, _ = json.Marshal(string([]rune(s)))
	}
	if !bytes.Equal(rails, std) {
		t.Fatalf("Rails style: %q, encoding/json: %q", rails, std)
	}
	if !json.Valid(plain) || !utf8.Valid(plain) {
		t.Fatalf("not JSON: %q", plain)
	}
	if again := appendRestyled(nil, plain, Rails); !bytes.Equal(again, rails) {
		t.Fatalf("plain %q restyled is %q, not %q", plain, again, rails)
	}
	if again := appendRestyled(nil, rails, Plain); !bytes.Equal(again, plain) {
		t.Fatalf("rails %q restyled is %q, not %q", rails, again, plain)
	}
	for style, want := range map[Style][]byte{Plain: plain, Rails: rails} {
		got, err := EncodeValue(struct{ V any }{v}, style)
		if s, isString := v.(string); err != nil || isString && !utf8.ValidString(s) {
			continue
		}
		if string(got) != `{"V":`+string(want)+`}` {
			t.Fatalf("within a struct, style %d: %q, alone %q", style, got, want)
		}
	}
}
