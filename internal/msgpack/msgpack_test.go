package msgpack_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/msgpack"
	"github.com/goworker/goworker/internal/payload"
	"pgregory.net/rapid"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// pkgF is the string pkg.F.
const pkgF = "a5 706b672e46"

// Items of goworker and of other programs.
func TestPayloads(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, item, want string }{
		{"two ints", "92" + pkgF + "92 01 02", `{"class":"pkg.F","args":[1,2]}`},
		{"two ints, packed twice", "92" + pkgF + "c4 03 92 01 02", `{"class":"pkg.F","args":[1,2]}`},
		{"one bare argument", "92" + pkgF + "07", `{"class":"pkg.F","args":[7]}`},
		{"one bare argument, packed twice", "92" + pkgF + "c4 01 07", `{"class":"pkg.F","args":[7]}`},
		{"an object", "92" + pkgF + "81 a1 61 01", `{"class":"pkg.F","args":[{"a":1}]}`},
		{"no arguments", "91" + pkgF, `{"class":"pkg.F","args":[]}`},
		{"nil", "92" + pkgF + "c0", `{"class":"pkg.F","args":[]}`},
		{"nil, packed twice", "92" + pkgF + "c4 01 c0", `{"class":"pkg.F","args":[]}`},
		{"an empty bin", "92" + pkgF + "c4 00", `{"class":"pkg.F","args":[]}`},
		{"an empty list", "92" + pkgF + "90", `{"class":"pkg.F","args":[]}`},
		{"fields", "93" + pkgF + "90 81 a2 6964 a1 78", `{"class":"pkg.F","args":[],"id":"x"}`},
		{"nil for fields", "93" + pkgF + "90 c0", `{"class":"pkg.F","args":[]}`},
		{"fields behind packed arguments", "93" + pkgF + "c4 02 91 01 82 a2 6964 a1 78 a7 617474656d7074 02", `{"class":"pkg.F","args":[1],"id":"x","attempt":2}`},
		{"a long header", "dc 0002" + pkgF + "dd 00000001 c3", `{"class":"pkg.F","args":[true]}`},
		{"a bin among arguments", "92" + pkgF + "91 c4 03 00 01 02", `{"class":"pkg.F","args":["AAEC"]}`},
		{"a map with numbers as keys", "92" + pkgF + "91 83 01 02 ff c2 c3 c0", `{"class":"pkg.F","args":[{"1":2,"-1":false,"true":null}]}`},
		{"a map with a bin as key", "92" + pkgF + "91 81 c4 01 61 02", `{"class":"pkg.F","args":[{"a":2}]}`},
		{"a time in seconds", "92" + pkgF + "91 d6 ff 00 00 00 01", `{"class":"pkg.F","args":["1970-01-01T00:00:01Z"]}`},
		{"a time of 96 bits", "92" + pkgF + "91 c7 0c ff 00 00 00 05 00 00 00 00 00 00 00 01", `{"class":"pkg.F","args":["1970-01-01T00:00:01.000000005Z"]}`},
		{"floats", "92" + pkgF + "94 cb 4008000000000000 ca 3f000000 cb 8000000000000000 cb 444b1ae4d6e2ef50", `{"class":"pkg.F","args":[3.0,0.5,-0.0,1e+21]}`},
		{"the ends of integers", "92" + pkgF + "92 cf ffffffffffffffff d3 8000000000000000", `{"class":"pkg.F","args":[18446744073709551615,-9223372036854775808]}`},
		{"text with escapes", "92" + pkgF + "91 a3 22 5c 0a", `{"class":"pkg.F","args":["\"\\\n"]}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := msgpack.AppendPayload([]byte("x"), unhex(t, row.item))
			if err != nil || string(got) != "x"+row.want {
				t.Fatalf("got %s, %v; want %s", got, err, row.want)
			}
			if _, err := payload.Parse(got[1:]); err != nil {
				t.Errorf("no job: %v", err)
			}
		})
	}
}

// The error names what is wrong. Nothing is written.
func TestRefusedItems(t *testing.T) {
	t.Parallel()
	deep := "92" + pkgF + strings.Repeat("91", payload.MaxDepth) + "01"
	for _, row := range []struct{ name, item, want string }{
		{"nothing", "", "the item is not a MessagePack array"},
		{"a string", pkgF, "the item is not a MessagePack array"},
		{"an empty array", "90", "the item has 0 elements"},
		{"a Python task", "94" + pkgF + "90 80 01", "the item has 4 elements"},
		{"a number for the class", "92 01 90", "the item begins with no class, which is a string"},
		{"an end in the middle", "92" + pkgF + "92 01", "the item ends in the middle of a value"},
		{"no end of the class", "92 a5 70", "the item ends in the middle of a value"},
		{"a list of billions", "92" + pkgF + "dd ffffffff", "the item ends in the middle of a value"},
		{"more behind it", "92" + pkgF + "90 90", "the item has 1 bytes behind its end"},
		{"more behind packed arguments", "92" + pkgF + "c4 02 90 90", "the item has 1 bytes behind the end of its arguments"},
		{"no MessagePack", "92" + pkgF + "91 c1", "no value begins with the byte 0xc1"},
		{"a NaN", "92" + pkgF + "91 cb 7ff8000000000001", "has the number NaN"},
		{"infinity", "92" + pkgF + "91 ca ff800000", "has the number -Inf"},
		{"no UTF-8", "92" + pkgF + "91 a1 ff", "has text that is not UTF-8"},
		{"no UTF-8 in a key", "92" + pkgF + "91 81 a1 ff 01", "has text that is not UTF-8"},
		{"no UTF-8 in a packed key", "92" + pkgF + "91 81 c4 01 ff 01", "has text that is not UTF-8"},
		{"an extension", "92" + pkgF + "91 d4 05 00", "has a MessagePack extension of type 5"},
		{"a short extension", "92" + pkgF + "91 c7", "ends in the middle"},
		{"half a time", "92" + pkgF + "91 d7 ff 00", "ends in the middle"},
		{"a time in no year", "92" + pkgF + "91 c7 0c ff 00 00 00 00 7f ff ff ff ff ff ff ff", "has a time in the year"},
		{"a list as a key", "92" + pkgF + "91 81 90 01", "has a map with a key of type array"},
		{"a class among the fields", "93" + pkgF + "90 81 a5 636c617373 a1 78", "has class or args among its fields"},
		{"fields that are a list", "93" + pkgF + "90 90", "has fields that are no map"},
		{"too deep", deep, "is nested deeper than 98 levels"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := msgpack.AppendPayload([]byte("x"), unhex(t, row.item))
			refusal := new(msgpack.Error)
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), row.want) || string(got) != "x" {
				t.Fatalf("got %s, %v; want an error with %q", got, err, row.want)
			}
		})
	}
}

// What goworker and Ruby write becomes an item and comes back byte for byte. Other JSON stays JSON.
func TestItems(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("1,", 70_000) + "1"
	some := strings.Repeat("1,", 300) + "1"
	for _, row := range []struct {
		text  string
		exact bool
	}{
		{`{"class":"C","args":[]}`, true},
		{`{"class":"C","args":[1,-1,200,70000,5000000000,18446744073709551615,-9223372036854775808,1.5,1.0,"é\"\n",null,true,false,[],{},{"a":[1]}]}`, true},
		{`{"class":"C","args":[` + some + `]}`, true},
		{`{"class":"C","args":[` + many + `,{"a":[` + some + `]}]}`, true},
		{`{"class":"C","args":[1e+21,1e-7,0.1]}`, true},
		{`{"class":"C","args":[],"id":"x","attempt":2}`, true},
		{`{"class":"C","args":[{"a":1,"a":2}]}`, true},
		{`{"class":"C","args":[18446744073709551616]}`, false},
		{`{"class":"C","args":[-9223372036854775809]}`, false},
		{`{"class":"C","args":[1e2]}`, false},
		{`{"class":"C","args":[1E400]}`, false},
		{`{"class":"C","args":[0.1000]}`, false},
		{`{"class":"C","args":[-0]}`, false},
		{`{"class":"C","args":["\u003c"]}`, false},
		{`{"class":"C","args":["\ud800"]}`, false},
		{`{"class":"C","args":["\/"]}`, false},
		{`{"class":"C", "args":[]}`, false},
		{`{"class":"C","args":[ ]}`, false},
		{`{"args":[],"class":"C"}`, false},
		{`{"class":"C"}`, false},
		{`{"class":1,"args":[]}`, false},
		{`{"class":"C","args":{}}`, false},
		{`{"class":"C","args":[],"class":"D"}`, false},
		{`{"class":"C","args":[],"args":[]}`, false},
		{`{"class":"C","args":[],"a":01}`, false},
		{`{"class":"C","args":[1,]}`, false},
		{`{"class":"C","args":[1 2]}`, false},
		{`{"class":"C","args":["` + "\xff" + `"]}`, false},
		{`{"class":"C","args":["a]}`, false},
		{`{"class":"C","args":[]}x`, false},
		{`{"class":"C","args":` + strings.Repeat("[", 97) + strings.Repeat("]", 97) + `}`, true},
		{`{"class":"C","args":` + strings.Repeat("[", 98) + strings.Repeat("]", 98) + `}`, false},
		{`nonsense`, false},
		{``, false},
	} {
		item, exact := msgpack.AppendItem([]byte("x"), []byte(row.text))
		if exact != row.exact {
			t.Errorf("%.80s: exact is %v", row.text, exact)
			continue
		}
		if !exact {
			if string(item) != "x" {
				t.Errorf("%.80s: something was written: %q", row.text, item)
			}
			continue
		}
		if item[0] != 'x' || !msgpack.Is(item[1:]) {
			t.Errorf("%.80s: the item begins with %q", row.text, item[:2])
		}
		if back, err := msgpack.AppendPayload(nil, item[1:]); err != nil || string(back) != row.text {
			t.Errorf("%.80s came back as %.80s, %v", row.text, back, err)
		}
	}
	if item, _ := msgpack.AppendItem(nil, []byte(`{"class":"pkg.F","args":[1,2]}`)); !bytes.Equal(item, unhex(t, "92"+pkgF+"92 01 02")) {
		t.Errorf("got %x", item)
	}
}

// A value alone may lose what MessagePack does not have, and says so.
func TestValues(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		text, packed string
		exact, ok    bool
	}{
		{`{"a":[1,"x"]}`, "81 a1 61 92 01 a1 78", true, true},
		{` { "a" : [ 1 , "x" ] } `, "81 a1 61 92 01 a1 78", false, true},
		{`18446744073709551616`, "cb 43f0000000000000", false, true},
		{`"\u00e9"`, "a2 c3 a9", false, true},
		{`""`, "a0", true, true},
		{``, "", false, false},
		{`1 2`, "", false, false},
		{`-`, "", false, false},
		{`1e999`, "", false, false},
		{`{"a"}`, "", false, false},
		{`{1:2}`, "", false, false},
		{`[`, "", false, false},
		{`"a` + "\n" + `"`, "", false, false},
		{`"\x"`, "", false, false},
		{"\"\xff\"", "", false, false},
	} {
		packed, exact, ok := msgpack.AppendValue([]byte("x"), []byte(row.text))
		if want := append([]byte("x"), unhex(t, row.packed)...); !bytes.Equal(packed, want) || exact != row.exact || ok != row.ok {
			t.Errorf("%q: got %x, %v, %v", row.text, packed, exact, ok)
		}
	}
	out, rest, err := msgpack.AppendJSON([]byte("x"), unhex(t, "92 01 02 a1 78"))
	if err != nil || string(out) != "x[1,2]" || string(rest) != "\xa1x" {
		t.Errorf("got %s, %q, %v", out, rest, err)
	}
	if out, rest, err := msgpack.AppendJSON([]byte("x"), []byte{0xc1, 1}); err == nil || string(out) != "x" || len(rest) != 2 {
		t.Errorf("got %s, %q, %v", out, rest, err)
	}
}

// Jobs as programs make them, with any arguments, come back byte for byte.
func TestJobsSurvive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOfN(anyValue(3), 0, 20).Draw(t, "args")
		class := rapid.StringN(1, 20, -1).Draw(t, "class")
		text, err := payload.Encode(class, args, payload.Plain)
		if err != nil {
			t.Skip()
		}
		text = payload.AppendTextField(text, "id", "x")
		item, exact := msgpack.AppendItem(nil, text)
		if !exact {
			t.Fatalf("%s is not exact", text)
		}
		back, err := msgpack.AppendPayload(nil, item)
		if err != nil || !bytes.Equal(back, text) {
			t.Fatalf("%s came back as %s, %v", text, back, err)
		}
	})
}

// ofGo tells numbers from -0 and those that Go writes as integers of more than 64 bits.
func ofGo(f float64) bool {
	size := math.Abs(f)
	return !(f == 0 && math.Signbit(f)) && !(size >= 1<<63 && size < 1e21)
}

func anyValue(levels int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just(any(nil)), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Uint64().AsAny(), rapid.String().AsAny(),
		rapid.Float64().Filter(ofGo).AsAny(),
	}
	if levels > 0 {
		leaves = append(leaves,
			rapid.SliceOfN(anyValue(levels-1), 0, 20).AsAny(),
			rapid.MapOfN(rapid.String(), anyValue(levels-1), 0, 20).AsAny())
	}
	return rapid.OneOf(leaves...)
}

// Any bytes: no panic, and what is read as an item is JSON that becomes an item of the same payload.
func FuzzAppendPayload(f *testing.F) {
	f.Add([]byte("\x92\xa5pkg.F\x92\x01\x02"))
	f.Add([]byte("\x93\xa1C\xc4\x03\x92\x01\x02\x81\xa2id\xa1x"))
	f.Add([]byte("\x92\xa1C\x94\xcb@\b\x00\x00\x00\x00\x00\x00\xd6\xff\x00\x00\x00\x01\xc4\x01a\x81\x01\xc0"))
	f.Fuzz(func(t *testing.T, item []byte) {
		text, err := msgpack.AppendPayload(nil, item)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q became %q", item, text)
		}
		again, exact := msgpack.AppendItem(nil, text)
		if !exact {
			t.Fatalf("%q became %s, which does not survive", item, text)
		}
		back, err := msgpack.AppendPayload(nil, again)
		if err != nil || !bytes.Equal(back, text) {
			t.Fatalf("%s came back as %s, %v", text, back, err)
		}
	})
}

// Any text: no panic, and what becomes an item comes back byte for byte.
func FuzzAppendItem(f *testing.F) {
	f.Add([]byte(`{"class":"C","args":[1,-1,1.5,1.0,"é\"\n",null,true,{"a":[1]}],"id":"x"}`))
	f.Add([]byte(`{"class":"C","args":[1e+21,1e-7,18446744073709551616,"\u003c"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		item, exact := msgpack.AppendItem(nil, text)
		if exact {
			back, err := msgpack.AppendPayload(nil, item)
			if err != nil || !bytes.Equal(back, text) {
				t.Fatalf("%s came back as %s, %v", text, back, err)
			}
		}
		packed, exact, ok := msgpack.AppendValue(nil, text)
		if !ok {
			if len(packed) > 0 || exact {
				t.Fatalf("%q: got %x, %v", text, packed, exact)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q is no JSON and was packed", text)
		}
		back, rest, err := msgpack.AppendJSON(nil, packed)
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %v, and %d bytes are left", text, err, len(rest))
		}
		if exact != bytes.Equal(back, text) {
			t.Fatalf("%s came back as %s, and exact is %v", text, back, exact)
		}
	})
}

func BenchmarkAppendPayload(b *testing.B) {
	for name, text := range examples() {
		item, _ := msgpack.AppendItem(nil, text)
		out := make([]byte, 0, 4096)
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(float64(len(item))/float64(len(text)), "size/json")
			for b.Loop() {
				out, _ = msgpack.AppendPayload(out[:0], item)
			}
		})
	}
}

func BenchmarkAppendItem(b *testing.B) {
	for name, text := range examples() {
		out := make([]byte, 0, 4096)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				out, _ = msgpack.AppendItem(out[:0], text)
			}
		})
	}
}

func examples() map[string][]byte {
	numbers := make([]any, 100)
	for i := range numbers {
		numbers[i] = i * 1000
	}
	out := make(map[string][]byte)
	for name, args := range map[string][]any{
		"small":   {1, "hi"},
		"object":  {map[string]any{"id": 4711, "name": "Ada Lovelace", "tags": []string{"a", "b"}, "rate": 0.25}},
		"numbers": {numbers},
	} {
		text, err := payload.Encode("MyClass", args, payload.Plain)
		if err != nil {
			panic(fmt.Sprint(name, err))
		}
		out[name] = text
	}
	return out
}
