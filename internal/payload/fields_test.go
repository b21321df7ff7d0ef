package payload

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSetFields(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, raw string
		fields    []Field
		want      string // "": refused
	}{
		{"behind the last", `{"class":"A","args":[1]}`, []Field{TextField("id", "x"), NumberField("attempt", 2)},
			`{"class":"A","args":[1],"attempt":2,"id":"x"}`},
		{"before those that stay the last", `{"class":"A","expires_at":5, "id":"x"}`, []Field{NumberField("attempt", 2), TextField("id", "y")},
			`{"class":"A","attempt":2,"expires_at":5, "id":"y"}`},
		{"expiry before the id", `{"class":"A","id":"x"}`, []Field{NumberField("expires_at", 5), NumberField("attempt", 2)},
			`{"class":"A","attempt":2,"expires_at":5,"id":"x"}`},
		{"the id behind expiry", `{"class":"A","expires_at":5}`, []Field{TextField("id", "x"), NumberField("attempt", 2)},
			`{"class":"A","attempt":2,"expires_at":5,"id":"x"}`},
		{"an older release's order", `{"class":"A","id":"x","attempt":2}`, []Field{NumberField("attempt", 3), TextField("retry_id", "y"), NumberField("expires_at", 5)},
			`{"class":"A","id":"x","attempt":3,"retry_id":"y","expires_at":5}`},
		{"PHP's order", `{"class":"A","args":[],"id":"x","prefix":"","queue_time":1.5}`, []Field{NumberField("attempt", 2)},
			`{"class":"A","args":[],"id":"x","prefix":"","queue_time":1.5,"attempt":2}`},
		{"two ids", `{"class":"A","id":1,"id":2}`, []Field{NumberField("attempt", 2)}, `{"class":"A","id":1,"attempt":2,"id":2}`},
		{"nothing but an id", `{"id":1}`, []Field{NumberField("attempt", 2)}, `{"id":1,"attempt":2}`},
		{"where it stands", `{"attempt":1,"class":"A","args":[{"attempt":7}]}`, []Field{NumberField("attempt", 22)},
			`{"attempt":22,"class":"A","args":[{"attempt":7}]}`},
		{"in any order", `{"a":1,"b":2}`, []Field{NumberField("b", 4), NumberField("c", 5), NumberField("a", 3)},
			`{"a":3,"b":4,"c":5}`},
		{"the one that counts", `{"a":1,"a":2}`, []Field{NumberField("a", 3)}, `{"a":1,"a":3}`},
		{"a name with escapes", `{"\u0061":1}`, []Field{NumberField("a", 3)}, `{"\u0061":3}`},
		{"blanks are kept", ` { "a" : 1 , "b":[ ] } `, []Field{NumberField("c", 3)}, ` { "a" : 1 , "b":[ ],"c":3 } `},
		{"empty", `{}`, []Field{NumberField("a", 1), NumberField("b", 2)}, `{"a":1,"b":2}`},
		{"empty with blanks", `{ }`, []Field{NumberField("a", 1)}, `{"a":1 }`},
		{"none", `{"a":1}`, nil, `{"a":1}`},
		{"quotes", `{"a":1}`, []Field{TextField("b", "\"\n")}, `{"a":1,"b":"\"\n"}`},
		{"a list", `[1]`, []Field{NumberField("a", 1)}, ""},
		{"not JSON", `{"a":1`, []Field{NumberField("a", 1)}, ""},
		{"nothing", ``, []Field{NumberField("a", 1)}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := SetFields([]byte(tt.raw), tt.fields...)
			if string(got) != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

// Whatever is added to a payload that goworker wrote, in whatever order: expires_at and id stay its last fields.
func TestLastFields(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		raw, err := Encode("C", []any{1, map[string]any{"id": 5}}, Plain)
		if err != nil {
			rt.Fatal(err)
		}
		want := map[string]string{}
		for step := range rapid.IntRange(1, 4).Draw(rt, "steps") {
			var fields []Field
			names := []string{"expires_at", "id", "unique", "attempt", "retry_id", "meta"}
			for i, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(rt, "fields") {
				value := int64(100*step + i)
				fields = append(fields, NumberField(name, value))
				want[name] = fmt.Sprint(value)
			}
			if raw, err = SetFields(raw, fields...); err != nil {
				rt.Fatal(err)
			}
		}
		p, err := Parse(raw)
		if err != nil || len(p.Extra) != len(want) || !bytes.HasPrefix(raw, []byte(`{"class":"C","args":[1,{"id":5}]`)) {
			rt.Fatalf("%s: %v, want %v", raw, err, want)
		}
		var last []string
		for i, e := range p.Extra {
			name := string(e.Name)
			if want[name] != string(e.Value) {
				rt.Fatalf("%s: %s is %s, want %s", raw, name, e.Value, want[name])
			}
			if !isOther(name) {
				last = append(last, name)
			} else if len(last) > 0 {
				rt.Fatalf("%s: field %d follows %v", raw, i, last)
			}
		}
		if !slices.IsSorted(last) {
			rt.Fatalf("%s: the last are %v", raw, last)
		}
	})
}

func FuzzSetFields(f *testing.F) {
	for _, seed := range []string{`{"class":"A","args":[]}`, `{"id":1,"id":2,"class":"B"}`, `{}`, ` {"a" :[{}] } `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before, err := Parse(raw)
		if err != nil {
			return
		}
		once, err := SetFields(raw, TextField("id", "x"), NumberField("attempt", 5))
		if err != nil {
			t.Fatalf("a job is refused: %v", err)
		}
		after, err := Parse(once)
		if err != nil || after.ID != "x" || after.Attempt != 5 || after.Class != before.Class || len(after.Args) != len(before.Args) {
			t.Fatalf("%s became %s: %+v, %v", raw, once, after, err)
		}
		twice, err := SetFields(once, TextField("id", "x"), NumberField("attempt", 5))
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("setting the same again made of %s: %s, %v", once, twice, err)
		}
	})
}

// The fields of a retried job take the memory of the new payload, and that of its new fields together.
func TestSetFieldsAllocatesTwice(t *testing.T) {
	raw := []byte(`{"class":"C","args":["a",1],"id":"i"}`)
	fields := []Field{NumberField("attempt", 2), TextField("error", "Error: no luck"), TextField("retry_id", "r")}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := SetFields(raw, fields...); err != nil {
			t.Error(err)
		}
	}); n > 2 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { fields[1] = TextField("error", "Error: no luck") }); n > 1 {
		t.Errorf("%v allocations for a text", n)
	}
}
