package payload

import (
	"encoding/json"
	"testing"
)

// FuzzPlainArgs holds that the arguments which it reads are those that Parse reads, and that it reads all payloads that Encode writes.
func FuzzPlainArgs(f *testing.F) {
	for _, text := range []string{
		`{"class":"A","args":["a",1,{"x":[null]}]}`, `{"class":"A","args":[]}`, `{"class":"A","args":[1],"id":"x"} `, `{"class":"A","args":[1],"args":[2]}`,
		`{"class":"A","args":[1],"\u0061rgs":[2]}`, `{"class":"","args":[1]}`, `{"class":"A","args":[1]`, `{"class":"A","args":[1],}`, `{"class":"A\u0061","args":["\n"]}`, "{\"class\":\"A\",\"args\":[\"\xff\"]}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		all, ok := PlainArgs(raw, []json.RawMessage{[]byte("before")})
		if string(all[0]) != "before" || !ok && len(all) > 1 {
			t.Fatalf("%q: %q", raw, all)
		}
		if !ok {
			return
		}
		p, err := Parse(raw)
		if err != nil || len(p.Args) != len(all)-1 {
			t.Fatalf("%q: %q, Parse reads %q, %v", raw, all[1:], p.Args, err)
		}
		for i, arg := range p.Args {
			if string(arg) != string(all[i+1]) {
				t.Errorf("%q: argument %d is %q, Parse reads %q", raw, i, all[i+1], arg)
			}
		}
	})
}

func TestPlainArgsOfEncode(t *testing.T) {
	t.Parallel()
	for _, args := range [][]any{nil, {1}, {"a", map[string]any{"x": []any{nil, 1.5}}}} {
		raw, err := Encode("Class", args, Plain)
		if err != nil {
			t.Fatal(err)
		}
		if all, ok := PlainArgs(raw, nil); !ok || len(all) != len(args) {
			t.Errorf("%s: %q, %v", raw, all, ok)
		}
	}
}
