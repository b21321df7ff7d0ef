package workflow

import (
	"encoding/json"
	"iter"
	"reflect"
	"testing"
	"time"
)

// types sets the types of a step's handler, a function without a context.
func (n *Node) types(handler any) *Node {
	n.Step.types(handler)
	return n
}

func (s *Step) types(handler any) {
	t := reflect.TypeOf(handler)
	s.Known, s.Variadic = true, t.IsVariadic()
	for i := range t.NumIn() {
		in := t.In(i)
		if s.Variadic && i == t.NumIn()-1 {
			in = in.Elem()
		}
		s.Params = append(s.Params, in)
	}
	for i := range t.NumOut() {
		s.Results = append(s.Results, t.Out(i))
	}
}

type (
	image   struct{ URL string }
	results struct{ json.RawMessage }
	reads   struct{}
	own     struct{}
)

func (reads) ResultsOf() reflect.Type       { return reflect.TypeFor[string]() }
func (*own) UnmarshalJSON([]byte) error     { return nil }
func (own) MarshalJSON() ([]byte, error)    { return nil, nil }
func thumbnail(image) string                { return "" }
func collage([]string) string               { return "" }
func seqOf() iter.Seq2[*Step, error]        { return noSeq }
func class(name string, handler any) *Node  { return step1(name).types(handler) }
func owned(name string, h any, a int) *Node { return step1(name, a).types(h) }

func TestChecks(t *testing.T) {
	t.Parallel()
	thumbs := func() *Node {
		return group(class("Thumbnail", func() string { return "" }), class("Thumbnail", func() string { return "" }))
	}
	for _, tt := range []struct {
		name string
		node *Node
		want string // "": it compiles
	}{
		{"fits", chain(class("Fetch", func() image { return image{} }), class("Thumbnail", thumbnail)), ""},
		{"list", chain(thumbs(), class("Collage", collage)), ""},
		{"any list", chain(thumbs(), class("Collage", func([]any) {})), ""},
		{"any", chain(thumbs(), class("Collage", func(any) {})), ""},
		{"raw", chain(thumbs(), class("Collage", func(json.RawMessage) {})), ""},
		{"reads by itself", chain(thumbs(), class("Collage", func(results) {})), ""},
		{"own form", chain(thumbs(), class("Collage", func(own) {})), ""},
		{"results of", chain(thumbs(), class("Collage", func(reads) {})), ""},
		{"results of pointer", chain(thumbs(), class("Collage", func(*reads) {})), ""},
		{"not of this", chain(group(class("A", func() int { return 0 })), class("Collage", func(reads) {})),
			"step 2 (Collage) takes workflow.reads as argument 1; the group of step 1 (A) adds a list, which JSON cannot make that of"},
		{"one too many", chain(step1("A"), class("Thumbnail", func() string { return "" }), owned("Collage", collage, 1)),
			"step 3 (Collage) takes 1 argument; step 2 (Thumbnail) adds a string to the 1 it has"},
		{"one too few", class("Thumbnail", thumbnail), "step 1 (Thumbnail) takes 1 argument; its job has 0"},
		{"too few after", chain(class("A", func() int { return 0 }), class("B", func(int, int) {})),
			"step 2 (B) takes 2 arguments; step 1 (A) adds an int to the 0 it has"},
		{"string for int", chain(class("A", func() string { return "" }), class("B", func(int) {})),
			"step 2 (B) takes int as argument 1; step 1 (A) adds a string, which JSON cannot make that of"},
		{"struct for string", chain(class("A", func() image { return image{} }), class("B", func(string) {})),
			"step 2 (B) takes string as argument 1; step 1 (A) adds a workflow.image, which JSON cannot make that of"},
		{"list for struct", chain(class("A", func() []int { return nil }), class("B", func(image) {})),
			"step 2 (B) takes workflow.image as argument 1; step 1 (A) adds a []int, which JSON cannot make that of"},
		{"group for string", chain(thumbs(), class("B", func(string) {})),
			"step 3 (B) takes string as argument 1; the group of step 1 (Thumbnail) adds a list, which JSON cannot make that of"},
		{"elements", chain(class("A", func() []string { return nil }), class("B", func([]int) {})),
			"step 2 (B) takes []int as argument 1; step 1 (A) adds a []string, which JSON cannot make that of"},
		{"values of maps", chain(class("A", func() map[string]bool { return nil }), class("B", func(map[string]string) {})),
			"step 2 (B) takes map[string]string as argument 1; step 1 (A) adds a map[string]bool, which JSON cannot make that of"},
		{"map for struct", chain(class("A", func() map[string]string { return nil }), class("B", func(image) {})), ""},
		{"pointers", chain(class("A", func() *image { return nil }), class("B", func(**image) {})), ""},
		{"numbers", chain(class("A", func() float64 { return 0 }), class("B", func(int8) {})), ""},
		{"bytes", chain(class("A", func() []byte { return nil }), class("B", func(string) {})), ""},
		{"number", chain(class("A", func() string { return "" }), class("B", func(json.Number) {})), ""},
		{"time", chain(class("A", func() time.Time { return now }), class("B", func(string) {})), ""},
		{"several", chain(class("A", func() (int, string) { return 0, "" }), class("B", func(int, string) {})), ""},
		{"several, one too many", chain(class("A", func() (int, string) { return 0, "" }), class("B", func(int) {})),
			"step 2 (B) takes 1 argument; step 1 (A) adds 2 to the 0 it has"},
		{"several in a list", chain(group(class("A", func() (int, string) { return 0, "" })), class("B", func([][]any) {})), ""},
		{"no result", chain(class("A", func() {}), class("B", func() {})), ""},
		{"no result in a list", chain(group(class("A", func() {})), class("B", func([]image) {})), ""},
		{"unknown", chain(step1("A"), class("B", func(int, int, int) {})), ""},
		{"unknown, but too many", chain(step1("A"), step1("B", 1, 2).types(func(int) {})), "step 2 (B) takes 1 argument; its job has 2"},
		{"immutable", chain(step1("A"), class("B", func() {}).with(func(s *Step) { s.Immutable = true })), ""},
		{"immutable without", chain(step1("A"), class("B", func(int) {}).with(func(s *Step) { s.Immutable = true })), "step 2 (B) takes 1 argument; its job has 0"},
		{"spread", chain(thumbs(), class("B", func(string, string) {}).with(func(s *Step) { s.Spread = true })), ""},
		{"spread variadic", chain(thumbs(), class("B", func(...string) {}).with(func(s *Step) { s.Spread = true })), ""},
		{"spread wrong", chain(thumbs(), class("B", func(...int) {}).with(func(s *Step) { s.Spread = true })),
			"step 3 (B) takes int as argument 1; step 1 (Thumbnail) adds a string, which JSON cannot make that of"},
		{"spread too many", chain(thumbs(), class("B", func(string) {}).with(func(s *Step) { s.Spread = true })),
			"step 3 (B) takes 1 argument; step 1 (Thumbnail) adds 2 to the 0 it has"},
		{"variadic", chain(thumbs(), class("B", func(int, ...string) {})),
			"step 3 (B) takes int as argument 1; the group of step 1 (Thumbnail) adds a list, which JSON cannot make that of"},
		{"variadic too few", class("B", func(int, ...string) {}), "step 1 (B) takes at least 1 argument; its job has 0"},
		{"collect", chain(thumbs().fate(Collects), class("B", func([]map[string]any) {})), ""},
		{"collect any", chain(thumbs().fate(Collects), class("B", func([]any) {})), ""},
		{"collect structs", chain(thumbs().fate(Collects), class("B", func([]image) {})), ""},
		{"collect strings", chain(thumbs().fate(Collects), class("B", collage)),
			"step 3 (B) takes []string as argument 1; the group of step 1 (Thumbnail) adds a list, which JSON cannot make that of"},
		{"ignored", chain(class("A", func() (int, int) { return 0, 0 }).fate(Ignores), class("B", func(int) {})), ""},
		{"external", chain(class("A", func(string) int { return 0 }).with(func(s *Step) { s.External = 1 }), class("B", func(string) {})), ""},
		{"error handler", class("A", func() {}).on(class("E", func(image) {}).Step), ""},
		{"error handler wrong", class("A", func() {}).on(class("E", func(string) {}).Step),
			"step 2 (E) takes string as argument 1; its call adds a StepFailure, which JSON cannot make that of"},
		{"error handler too few", class("A", func() {}).on(class("E", func() {}).Step), "step 2 (E) takes 0 arguments; its call adds a StepFailure to the 0 it has"},
		{"seq", chain(&Node{Kind: Group, Seq: seqOf()}, class("B", func(image) {})),
			"step 1 (B) takes workflow.image as argument 1; the group before it adds a list, which JSON cannot make that of"},
		{"seq list", chain(&Node{Kind: Group, Seq: seqOf()}, class("B", collage)), ""},
		{"empty group", chain(group(), class("B", func(string) {})),
			"step 1 (B) takes string as argument 1; the group before it adds a list, which JSON cannot make that of"},
		{"graph", graph([][]int{nil, nil, {0, 1}}, class("A", func() int { return 0 }), class("B", func() string { return "" }), class("C", func(int, string) {})), ""},
		{"graph wrong", graph([][]int{nil, nil, {0, 1}}, class("A", func() int { return 0 }), class("B", func() string { return "" }), class("C", func(int, int) {})),
			"step 3 (C) takes int as argument 2; step 2 (B) adds a string, which JSON cannot make that of"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := compileTest(tt.node, Options{})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
