package queues

import (
	"slices"
	"strings"
	"testing"
)

// A changed list is the one that its text would be at the start.
func TestEdit(t *testing.T) {
	t.Parallel()
	with := func(lists ...string) func(Spec) (Spec, error) {
		return func(q Spec) (Spec, error) { return q.With(lists) }
	}
	without := func(lists ...string) func(Spec) (Spec, error) {
		return func(q Spec) (Spec, error) { return q.Without(lists) }
	}
	tests := []struct {
		list string
		edit func(Spec) (Spec, error)
		want string // with a blank in it: the error
	}{
		{"a,b", with("c", "d,e"), "a,b,c,d,e"},
		{"a,b", with("a"), "a,b"},
		{"a,b", with("a=3"), "a=3,b=1"},
		{"a=2,b", with("c"), "a=2,b=1,c=1"},
		{"a=2,b", with("a"), "a=2,b=1"},
		{"a", with("mail_*", "!mail_b"), "a,mail_*,!mail_b"},
		{"*,!low", with("low"), `the list excludes "low" by "!low"; remove that from the list first`},
		{"*,!lo*", with("low"), `the list excludes "low" by "!lo*"; remove that from the list first`},
		{"*,!low", with("high", "!low"), "*,high,!low"},
		{"a", with("b=0"), `"b=0": the weight must be a numeric value from 1 to 1000000; write name=weight, as in high=2`},
		{"a", with("[]"), `"[]" matches no queue, since there is nothing in its brackets; write [abc] for one of these letters, or \[ for a bracket`},
		{"a,b,c", without("b"), "a,c"},
		{"a=2,b", without("a"), "b"},
		{"a=1,b=1,c", without("c"), "a=1,b=1"},
		{"a,mail_*,!mail_b", without("!mail_b,mail_*"), "a"},
		{"a,b", without("c"), `the list "a,b" has no "c"`},
		{"a,!b", without("!c"), `the list "a,!b" has no "!c"`},
		{"mail_*", without("mail_a"), `the list "mail_*" has "mail_a" by a pattern; exclude it with !mail_a, or remove the pattern`},
		{"a", without(), "no queue is named; name at least one, as in high,low"},
		{"a", with(" ,", ""), "no queue is named; name at least one, as in high,low"},
		{"a", with("x y , z"), "a,x y,z"}, // as at the start
		{"a", without("a"), "you must specify at least one queue: with the flag -queues, as in -queues=high,low or -queues='*', or in the settings' QueuesString or Queues"},
		{"a,!b", without("a"), `you must specify at least one queue: "!b" only excludes; put * beside it to work all others`},
		{"msgpack:a", with("msgpack:*"), `no pattern finds a MessagePack queue, and "msgpack:*" is one; name each queue, as in msgpack:calc`},
	}
	for _, tt := range tests {
		before, err := Parse([]string{tt.list})
		if err != nil {
			t.Fatal(err)
		}
		text := before.String()
		got, err := tt.edit(before)
		switch {
		case err != nil && err.Error() != tt.want, err == nil && got.String() != tt.want:
			t.Errorf("%s becomes %q, error %v, want %q", tt.list, got, err, tt.want)
		case before.String() != text:
			t.Errorf("%s is %s after a change of its copy", text, before)
		case err == nil:
			again, err := Parse([]string{got.String()})
			known := []string{"a", "mail_a", "mail_b", "low", "z"}
			if err != nil || again.Order() != got.Order() || again.Dynamic() != got.Dynamic() || !slices.Equal(again.Resolve(known), got.Resolve(known)) {
				t.Errorf("%s is read as %q, error %v", got, again, err)
			}
		}
		if err != nil && !strings.Contains(tt.want, " ") {
			t.Errorf("%s: %v", tt.list, err)
		}
	}
}
