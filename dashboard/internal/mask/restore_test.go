package mask

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// An edit keeps what was masked and not touched.
func TestRestore(t *testing.T) {
	t.Parallel()
	m := New(Rules{Args: map[string][]string{"A": {"*.pin"}}})
	const same = "same"
	for name, tt := range map[string]struct {
		old, edited, want string // want "" is an error
	}{
		"untouched":                {`[ {"password" : "x", "n":9007199254740993}, 4111111111111111 ]`, same, `[ {"password" : "x", "n":9007199254740993}, 4111111111111111 ]`},
		"blanks":                   {`[{"password":"x","n":1}]`, `[ { "password" : "` + o + `" , "n" : 1 } ]`, `[{"password":"x","n":1}]`},
		"another field":            {`[{"password":"x","n":1}]`, `[{"password":"` + o + `","n":2}]`, `[{"password":"x","n":2}]`},
		"the secret":               {`[{"password":"x","n":1}]`, `[{"password":"y","n":1}]`, `[{"password":"y","n":1}]`},
		"a secret number":          {`[{"pin":1234,"n":1}]`, `[{"pin":"` + o + `","n":2}]`, `[{"pin":1234,"n":2}]`},
		"removed":                  {`[{"password":"x","n":1}]`, `[{"n":1}]`, `[{"n":1}]`},
		"an escaped mark":          {`[{"n":1}]`, `[{"n":"` + strings.Repeat(`\u2022`, 6) + `"}]`, ``},
		"escaped":                  {`[{"password":"x","n":1}]`, `[{"password":"` + strings.Repeat(`\u2022`, 6) + `","n":2}]`, `[{"password":"x","n":2}]`},
		"a mark where none was":    {`[{"n":1}]`, `[{"n":"` + o + `"}]`, ``},
		"a new key":                {`[{"password":"x"}]`, `[{"password":"` + o + `","token":"` + o + `"}]`, ``},
		"a mark in a text":         {`["Bearer abc"]`, `["Bearer ` + o + `!"]`, ``},
		"a text around a mark":     {`["Bearer abc",1]`, `["Bearer ` + o + `",2]`, `["Bearer abc",2]`},
		"more arguments":           {`[{"password":"x"}]`, `[{"password":"` + o + `"},2]`, `[{"password":"x"},2]`},
		"fewer that look the same": {`[{"tokens":["a","b"]}]`, `[{"tokens":["` + o + `"]}]`, ``},
		"fewer that are the same":  {`[{"tokens":["a","a"]}]`, `[{"tokens":["` + o + `"]}]`, `[{"tokens":["a"]}]`},
		"moved":                    {`[[{"n":1,"pin_token":"a"},{"n":2,"pin_token":"b"}]]`, `[[{"n":2,"pin_token":"` + o + `"},{"n":1,"pin_token":"` + o + `"}]]`, `[[{"n":2,"pin_token":"b"},{"n":1,"pin_token":"a"}]]`},
		"one removed":              {`[[{"n":1,"pin_token":"a"},{"n":2,"pin_token":"b"}]]`, `[[{"n":2,"pin_token":"` + o + `"}]]`, `[[{"n":2,"pin_token":"b"}]]`},
		"one removed and edited":   {`[[{"n":1,"pin_token":"a"},{"n":2,"pin_token":"b"}]]`, `[[{"n":3,"pin_token":"` + o + `"}]]`, ``},
		"a key twice":              {`[{"pin":1,"pin":2}]`, `[{"pin":"` + o + `","pin":"` + o + `","n":1}]`, `[{"pin":1,"pin":2,"n":1}]`},
		"a mark that was there":    {`["` + o + `",{"password":"x"}]`, `["` + o + `",{"password":"` + o + `","n":1}]`, `["` + o + `",{"password":"x","n":1}]`},
		"no JSON":                  {`[1]`, ``, ``},
		"another kind":             {`[{"password":"x"}]`, `["` + o + `"]`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := list(t, tt.old)
			edited := m.Args("A", old)
			switch tt.edited {
			case same:
			case "":
				edited = []json.RawMessage{[]byte(`{`)}
			default:
				edited = list(t, tt.edited)
			}
			got, err := m.Restore("A", old, edited)
			var mistake *EditError
			switch {
			case tt.want == "" && (err == nil || tt.edited != "" && !errors.As(err, &mistake)):
				t.Errorf("got %s, %v", got, err)
			case tt.want != "" && (err != nil || string(joined(got)) != string(joined(list(t, tt.want)))):
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func list(t testing.TB, text string) (all []json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func joined(list []json.RawMessage) []byte { return bracketed('[', list, ']') }
