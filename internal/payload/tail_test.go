package payload

import (
	"fmt"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	for raw, want := range map[string]string{
		`{"class":"C","args":["` + long + `"],"unique":"done:a","meta":{"a":"b"},"result":60000,"logs":true,"expires_at":7,"id":"i"}`: `i  result=60000 logs=true expires_at=7 id="i"`,
		`{"class":"C","args":["` + long + `"],"unique":"done:a","id":"i"}`:                                                            `i done:a unique="done:a" id="i"`,
		`{"class":"C","args":["` + long + `,\"id\":\"i\"}"]}`:                                                                         ` `,
		`{"class":"C","args":[],"id":"a\"b"}`:                                                                                         `a"b  id="a\"b"`,
		`{"class":"C","args":[{"id":"x"}]}`:                                                                                           ` `,
		`{"class":"C","args":["\"],"id":"x"}`:                                                                                         `x  id="x"`,
		`{"id":"i"}`:                                                                                                                  `i  id="i"`,
		`{"id":7}`:                                                                                                                    `7  id=7`,
		`{"a":"\\","id":"i"}`:                                                                                                         `i  a="\\" id="i"`,
		`{"class":"C","args":["` + long + `"],"unique":"done:a","attempt":2,"error":"E: \"x\" \\","id":"i"}`: `i done:a unique="done:a" attempt=2 error="E: \"x\" \\" id="i"`,
		`{"a":"\",\"id\":\"i"}`: `  a="\",\"id\":\"i"`,
		`{"a":"\",\"id":"i"}`:   ` `,
		`{"id":"` + long + `"}`: ` `,
		``:                      ` `, `}`: ` `, `"}`: ` `, `""}`: ` `, `:""}`: ` `, `":""}`: ` `, "{\"id\":\"\xff\"}": ` `,
	} {
		p := Tail([]byte(raw))
		got := p.ID + " " + p.Unique
		for _, f := range p.Extra {
			got += fmt.Sprintf(" %s=%s", f.Name, f.Value)
		}
		if got != want {
			t.Errorf("the tail of %.60s… is %q, want %q", raw, got, want)
		}
	}
}

// Of a payload that can be parsed Tail says nothing else than Parse does.
func FuzzTail(f *testing.F) {
	f.Add([]byte(`{"class":"C","args":["a\",\"id\":\"b"],"unique":"done:a","result":1,"id":"i"}`))
	f.Add([]byte(`{"class":"C","args":[{"a":{"id":"i"}}],"id":"\\"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tail := Tail(raw)
		p, err := Parse(raw)
		if err != nil {
			return
		}
		for _, field := range tail.Extra {
			if string(field.Name) != "class" && string(field.Name) != "args" && string(p.Field(string(field.Name))) != string(tail.Field(string(field.Name))) {
				t.Errorf("%s: the tail says %s=%s", raw, field.Name, field.Value)
			}
		}
	})
}

func TestIDLast(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"class":"C","args":[1],"id":"a","retry_id":"b"}`:                        `{"class":"C","args":[1],"retry_id":"b","id":"a"}`,
		`{"id":"a","expires_at":1795405611754,"class":"C" , "args":[{"id":"x"}]}`: `{"class":"C","args":[{"id":"x"}],"expires_at":1795405611754,"id":"a"}`,
		`{"class":"C","args":[],"id":"a"}`:                                        `{"class":"C","args":[],"id":"a"}`,
		`{"class":"C","args":[]}`:                                                 "",
		`{"class":"C","args":[],"id":"a\"b","x":1}`:                               "",
		`{"class":"C","args":[],"id":"abcdefg","x":1}`:                            "",
		`{"class":"C","args":[],"id":7,"x":1}`:                                    "",
		`{"class":"C",`:                                                           "",
	} {
		out, ok := IDLast([]byte(raw), 6)
		if string(out) != want || ok != (want != "") {
			t.Errorf("%s became %s, %v; want %s", raw, out, ok, want)
		}
	}
}
