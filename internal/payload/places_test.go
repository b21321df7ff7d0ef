package payload

import (
	"bytes"
	"strings"
	"testing"
)

func TestFindPlaces(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, inside string
		// A is the place behind the last argument, B that behind the last but one, L that of expires_at. "": refused
		marked string
	}{
		{"none", "", `{"class":"C","args":[BA]L,"id":"x"}`},
		{"one", "", `{"class":"C","args":[B1A]L,"id":"x"}`},
		{"three", "", `{"class":"C","args":[1,{"a":[2]}B,"]"A],"wf":"x"L,"id":"x"}`},
		{"priority", "", `{"priority":3,"class":"C","args":[1B,2A]L,"id":"x"}`},
		{"blanks", "", ` { "class" : "C" , "args" : [ 1B , 2A ]L , "id" : "x" } `},
		{"without an id", "", `{"class":"C","args":[BA]L}`},
		{"expires at a time", "", `{"class":"C","args":[B1A]L,"expires_at":5,"id":"x"}`},
		{"the id is not the last", "", `{"class":"C","args":[BA],"id":"x","wf":"y"L}`},
		{"escapes", "", `{"class":"C","\u0061rgs":["\"]"B,"\\"A]L,"\u0069d":"x"}`},
		{"args in an argument", "", `{"class":"C","args":[B{"args":[1]}A]L,"id":"x"}`},
		{"args behind", "", `{"class":"C","args":[B{}A],"x":{"args":[1]}L,"id":"x"}`},
		{"inside", "arguments", `{"class":"C","args":[{"job_class":"A","arguments":[1B,2A],"locale":"en"}]L,"id":"x"}`},
		{"inside, none", "arguments", `{"class":"C","args":[{"arguments":[BA]}]L,"id":"x"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			raw, want, at := unmark(tt.marked)
			got, err := FindPlaces(raw, tt.inside)
			if err != nil || got != want {
				t.Errorf("%s: %+v, %v; want %+v (%s)", raw, got, err, want, at)
			}
		})
	}
	for _, raw := range []string{
		``, `[]`, `{}`, `{"class":"C"}`, `{"class":"C","args":{}}`, `{"class":"C","args":[1,]}`, `{"class":"C","args":[1]`,
		`{"id":"x","args":[]`,
	} {
		if p, err := FindPlaces([]byte(raw), ""); err == nil {
			t.Errorf("%s: %+v", raw, p)
		}
	}
	for _, raw := range []string{`{"args":[]}`, `{"args":[1]}`, `{"args":[{}]}`, `{"args":[{"arguments":1}]}`, `{"args":[{"arguments":[]},1]}`} {
		if p, err := FindPlaces([]byte(raw), "arguments"); err == nil {
			t.Errorf("%s: %+v", raw, p)
		}
	}
}

// unmark takes the marks B, A and L out of a text.
func unmark(text string) (raw []byte, p Places, all string) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == 'B':
			p.Before = len(raw)
		case c == 'A' && !strings.HasPrefix(text[i:], `A","`):
			p.Args = len(raw)
		case c == 'L':
			p.Last = len(raw)
		default:
			raw = append(raw, c)
		}
	}
	return raw, p, text
}

// FuzzFindPlaces puts an argument and expires_at into jobs of all kinds of arguments, and reads them back.
func FuzzFindPlaces(f *testing.F) {
	for _, seed := range []string{"", "a", `"]`, `\`, "é\u2028<", "\x00"} {
		f.Add(seed, seed, true)
		f.Add(seed, "x", false)
	}
	f.Fuzz(func(t *testing.T, class, text string, wrapped bool) {
		for _, style := range []Style{Plain, Rails} {
			for count := range 4 {
				var list []any
				for i := range count {
					list = append(list, []any{text, map[string]any{text: text}, []any{text, i}}[i%3])
				}
				inside := ""
				given := list
				if wrapped {
					inside = "arguments"
					if given == nil {
						given = []any{}
					}
					given = []any{map[string]any{"arguments": given, text + "x": text}}
				}
				raw, err := Encode(class, given, style)
				if err != nil {
					return
				}
				raw, err = SetFields(raw, TextField("wf", text), TextField("id", text))
				if err != nil {
					t.Fatal(err)
				}
				p, err := FindPlaces(raw, inside)
				if err != nil {
					t.Fatalf("%s: %v", raw, err)
				}
				value := ",true"
				if raw[p.Args-1] == '[' {
					value = "true"
				}
				changed := bytes.Join([][]byte{raw[:p.Args], []byte(value), raw[p.Args:p.Last], []byte(`,"expires_at":7`), raw[p.Last:]}, nil)
				job, err := Parse(changed)
				if err != nil || job.ExpiresAt != 7 || job.ID != strings.ToValidUTF8(text, replacement) && len(text) > 0 && job.ID == "" {
					t.Fatalf("%s became %s: %v", raw, changed, err)
				}
				args := job.Args
				if wrapped {
					args = Elements(LastMember(Members(args[0]), `"arguments"`))
				}
				if len(args) != count+1 || string(args[count]) != "true" {
					t.Fatalf("%s became %s", raw, changed)
				}
				if before := raw[p.Before:p.Args]; count > 1 && before[0] != ',' {
					t.Fatalf("%s: %s stands behind the last argument but one", raw, before)
				}
			}
		}
	})
}
