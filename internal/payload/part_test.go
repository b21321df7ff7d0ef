package payload

import (
	"fmt"
	"strings"
	"testing"
)

// Each beginning of an object gives the fields that are whole, and of the next one what is there.
func TestFieldsOfABeginning(t *testing.T) {
	t.Parallel()
	const text = `{"queue":"mail", "run_at" : "noon","payload":{"class":"A","args":["}",{"x":[1]}]},"more":1}`
	for end := range len(text) + 1 {
		var all []string
		cut := 0
		Fields([]byte(text[:end]), func(name string, value []byte, part bool) {
			all = append(all, name)
			if part {
				cut++
			}
			if !strings.Contains(text, string(value)) {
				t.Errorf("%d bytes: %s is %q", end, name, value)
			}
		})
		if want := []string{"queue", "run_at", "payload", "more"}; cut > 1 || len(all) > 4 || fmt.Sprint(all) != fmt.Sprint(want[:len(all)]) {
			t.Errorf("%d bytes: %q, %d of them cut", end, all, cut)
		}
	}
	for _, none := range []string{"", "[", `"x"`, "{1", "{\xff", "null"} {
		Fields([]byte(none), func(name string, _ []byte, _ bool) { t.Errorf("%q has %s", none, name) })
	}
}

// A payload that is cut in its arguments says its class, and what stands before them.
func TestBeginning(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"class":"A","args":[1],"id":"x","attempt":3}`:       "A x 3",
		`{"class":"A","args":[1],"id":"x"}`:                   "A x 1",
		`{"class":"A","args":["lon`:                           "A  0",
		`{"id":"x","attempt":2,"class":"A","args":[1`:         "A x 2",
		`{"args":[1],"clas`:                                   "  0",
		`{"class":7,"id":[],"attempt":"2","args":["unclosed"`: "  0",
		`no job`: "  0",
	} {
		class, id, attempt := Beginning([]byte(text))
		if got := fmt.Sprint(class, " ", id, " ", attempt); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
