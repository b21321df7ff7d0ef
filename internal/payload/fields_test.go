package payload

import (
	"bytes"
	"testing"
)

func TestSetFields(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, raw string
		fields    []Field
		want      string // "": refused
	}{
		{"behind the last", `{"class":"A","args":[1]}`, []Field{TextField("id", "x"), NumberField("attempt", 2)},
			`{"class":"A","args":[1],"id":"x","attempt":2}`},
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
