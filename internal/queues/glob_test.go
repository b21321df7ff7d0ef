package queues

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMatchGlob(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"high", "high", true},
		{"high", "higher", false},
		{"higher", "high", false},
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "a/b:c", true},
		{"**", "ab", true},
		{"*", ".hidden", false},
		{"?hidden", ".hidden", false},
		{"[.]hidden", ".hidden", false},
		{".*", ".hidden", true},
		{`\.*`, ".hidden", true},
		{"*", "a.b", true},
		{"foo*", "foo:bar", true},
		{"foo*", "foo", true},
		{"*foo", "barfoo", true},
		{"*foo", "foobar", false},
		{"a*b*c", "aXbYbZc", true},
		{"a*b*c", "aXbYbZ", false},
		{"f?o", "fäo", true},
		{"f?o", "fo", false},
		{"f??", "fä", false},
		{"[hl]*", "high", true},
		{"[hl]*", "mid", false},
		{"[a-c]x", "bx", true},
		{"[a-c]x", "dx", false},
		{"[^a-c]x", "dx", true},
		{"[!a-c]x", "bx", false},
		{"[ä-ü]", "ö", true},
		{"[a-]", "-", true},
		{`[\]]`, "]", true},
		{`[a\-c]`, "b", false},
		{"[]", "]", false},
		{"[]a]", "a", false},
		{"[!]", "x", true},
		{"[a", "a", false},
		{"[a", "[a", false},
		{"*[a", "xa", false},
		{"[c-a]", "b", false},
		{"[c-a]", "c", true},
		{"{a,b}", "a", false},
		{"{a,b}", "{a,b}", true},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`a\`, `a\`, true},
		{"?", "\xff", true},
		{"\xff*", "\xffa", true},
	} {
		if got := MatchGlob(tt.pattern, tt.name); got != tt.want {
			t.Errorf("matchGlob(%q, %q) = %v", tt.pattern, tt.name, got)
		}
	}
}

// A regular expression is an independent opinion on patterns of the simple
// kinds.
func TestMatchGlobAgreesWithRegexp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`([abä/]|\*|\?|\[[ab]\]|\[\^a\])*`).Draw(t, "pattern")
		name := rapid.StringMatching(`[abä/]*`).Draw(t, "name")
		re := regexp.MustCompile("^(?s:" + strings.NewReplacer("*", ".*", "?", ".").Replace(pattern) + ")$")
		if got, want := MatchGlob(pattern, name), re.MatchString(name); got != want {
			t.Fatalf("matchGlob(%q, %q) = %v", pattern, name, got)
		}
	})
}
