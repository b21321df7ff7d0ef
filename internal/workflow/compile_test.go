package workflow

import (
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque/workflows"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var update = flag.Bool("update", false, "write the files of testdata")

var now = time.UnixMilli(1_800_000_000_000)

// testJob is the job of a step in tests.
type testJob struct {
	args []any
	enc  Encoded // its Payload and Queue are set
}

func encodeTest(s *Step, id string, place workflows.Place, token string) (Encoded, error) {
	j, _ := s.Job.(testJob)
	list := j.args
	if token != "" {
		list = append(list[:len(list):len(list)], token)
	}
	raw, err := payload.Encode(s.Class, list, payload.Plain)
	if err != nil {
		return Encoded{}, err
	}
	raw, err = payload.SetFields(raw, payload.TextField(workflows.Field, place.String()), payload.TextField("id", id))
	if j.enc.Priority > 0 {
		raw = append([]byte("{"+payload.Priority(j.enc.Priority)), raw[1:]...)
	}
	j.enc.Payload, j.enc.Queue = raw, s.Queue
	return j.enc, err
}

func step1(class string, own ...any) *Node {
	return &Node{Step: &Step{Class: class, Queue: strings.ToLower(class), Job: testJob{args: own}}}
}
func chain(nodes ...*Node) *Node { return &Node{Kind: Chain, Nodes: nodes} }
func group(nodes ...*Node) *Node { return &Node{Kind: Group, Nodes: nodes} }
func graph(after [][]int, nodes ...*Node) *Node {
	return &Node{Kind: Graph, Nodes: nodes, After: after}
}

func (n *Node) fate(f Fate) *Node { n.Fate = f; return n }
func (n *Node) onError(classes ...string) *Node {
	for _, c := range classes {
		n.OnError = append(n.OnError, step1(c).Step)
	}
	return n
}
func (n *Node) onComplete(classes ...string) *Node {
	for _, c := range classes {
		n.OnComplete = append(n.OnComplete, step1(c).Step)
	}
	return n
}
func (n *Node) with(f func(*Step)) *Node { f(n.Step); return n }

func noSeq(func(*Step, error) bool) {}

func compileTest(n *Node, o Options) (*workflows.Plan, error) {
	o.Now = now
	if o.ID == "" {
		o.ID = "w"
	}
	return compile(n, o, encodeTest, func() string { return "ABCDEFGHIJKLMNOP" })
}

func fieldOf(p *workflows.Plan, name string) string {
	for i := 0; i < len(p.Fields); i += 2 {
		if p.Fields[i] == name {
			return fmt.Sprintf("%s", p.Fields[i+1])
		}
	}
	return ""
}

// dump is a plan as the golden files have it.
func dump(p *workflows.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "letters: %s\n", p.Letters)
	if p.Open {
		fmt.Fprintf(&b, "open: %d\n", p.OpenJoin)
	}
	if p.Members > 0 {
		fmt.Fprintf(&b, "members: %d\n", p.Members)
	}
	for _, j := range p.Jobs {
		fmt.Fprintf(&b, "send %d to %s", j.Step, j.Queue)
		if !j.At.IsZero() {
			fmt.Fprintf(&b, " at %d", j.At.UnixMilli())
		}
		if j.Delay > 0 {
			fmt.Fprintf(&b, " after %s", j.Delay)
		}
		fmt.Fprintf(&b, ": %s\n", j.Payload)
	}
	for i := 0; i < len(p.Fields); i += 2 {
		fmt.Fprintf(&b, "%s: %s\n", p.Fields[i], p.Fields[i+1])
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// TestShapes compares how nodes compile with the files of testdata.
func TestShapes(t *testing.T) {
	t.Parallel()
	job := func(enc Encoded, own ...any) func(*Step) {
		return func(s *Step) { s.Job = testJob{own, enc} }
	}
	for _, tt := range []struct {
		name string
		node *Node
		o    Options
	}{
		{"step", step1("A", 1), Options{}},
		{"step-with-handlers", step1("A").onError("E", "F").onComplete("X", "Y"), Options{}},
		{"chain", chain(step1("A"), step1("B", "own"), step1("C")), Options{}},
		{"chain-with-handlers", chain(step1("A"), step1("B").onComplete("X").onError("E"), step1("C")).onError("F").onComplete("Y"), Options{}},
		{"chain-in-chain", chain(chain(step1("A"), step1("B")).onError("E"), chain(step1("C"), step1("D")).onComplete("X"), step1("F")), Options{}},
		{"group", group(step1("A"), step1("B"), step1("C")), Options{}},
		{"group-with-handlers", group(step1("A"), step1("B")).onError("E").onComplete("X", "Y"), Options{}},
		{"chord", chain(group(step1("A"), step1("B"), step1("C")), step1("D")), Options{}},
		{"chord-of-chains", chain(group(chain(step1("A"), step1("B")), step1("C")), step1("D")), Options{}},
		{"chord-of-groups", chain(group(group(step1("A"), step1("B")), chain(step1("C"), group(step1("D"), step1("E")))), step1("F")), Options{}},
		{"chord-collect", chain(group(step1("A"), chain(step1("B"), group(step1("C"), step1("D")))).fate(Collects).onError("E"), step1("F")), Options{}},
		{"chord-ignore", chain(group(step1("A"), group(step1("B"), step1("C"))).fate(Ignores), step1("F")), Options{}},
		{"member-ignored", chain(group(step1("A").fate(Ignores).onError("E"), step1("B")), step1("C")), Options{}},
		{"stage-ignored", chain(chain(step1("A"), group(step1("B"), step1("C"))).fate(Ignores), step1("D").fate(Ignores), step1("E")), Options{}},
		{"last-ignored-in-collect", group(chain(step1("A"), step1("B").fate(Ignores)), step1("C")).fate(Collects), Options{}},
		{"group-then-group", chain(group(step1("A"), step1("B")), group(step1("C"), step1("D"))), Options{}},
		{"nested-chord", chain(group(chain(group(step1("A"), step1("B")), step1("C")), chain(group(step1("D"), step1("E")), step1("F"))), step1("G")), Options{}},
		{"spread-immutable-inline", chain(group(step1("A"), step1("B")), step1("C").with(func(s *Step) { s.Spread = true }), step1("D").with(func(s *Step) { s.Immutable = true }),
			step1("E").with(func(s *Step) { s.Inline = true })), Options{}},
		{"graph", graph([][]int{nil, nil, {0, 1}, {1}, {2, 3}}, step1("A"), step1("B"), step1("C"), step1("D"), step1("F")), Options{}},
		{"graph-in-group", chain(group(graph([][]int{nil, {0}, {0}}, step1("A"), step1("B").fate(Ignores), step1("C").onError("E")).onComplete("X"), step1("D")), step1("F")), Options{}},
		{"group-of-0", group(), Options{}},
		{"group-of-0-with-handlers", group().onError("E").onComplete("X"), Options{}},
		{"chord-of-0", chain(group(), step1("A", 1), group(), step1("B")), Options{}},
		{"chord-of-groups-of-0", chain(group(group(), group(step1("A"), group())), step1("B")), Options{}},
		{"batch", group(), Options{Open: true}},
		{"batch-with-handlers", chain(group(), step1("S")).onError("E").onComplete("X"), Options{Open: true, RunRest: true, CancelRunning: true}},
		{"batch-collect", chain(group(step1("A")).fate(Collects), step1("S")), Options{Open: true}},
		{"group-seq", chain(&Node{Kind: Group, Seq: iter.Seq2[*Step, error](noSeq)}, step1("S")), Options{}},
		{"named", chain(step1("A").with(func(s *Step) { s.Name = "first" }), group(chain(step1("B"), step1("C").with(func(s *Step) { s.Name = "c" })), step1("D")).fate(Collects), step1("E")), Options{}},
		{"external", chain(step1("A").with(func(s *Step) { s.External = time.Hour }), step1("B", 1).with(func(s *Step) { s.External = time.Minute }),
			step1("C").with(func(s *Step) { s.External = time.Minute })), Options{}},
		{"times", chain(
			step1("A").with(job(Encoded{Delay: time.Second, Expires: time.Minute})),
			step1("B").with(job(Encoded{Delay: time.Second, Expires: time.Minute}, 1)),
			step1("C").with(job(Encoded{At: now.Add(time.Hour), Priority: 3}))), Options{}},
		{"active-job", chain(step1("A"), step1(args.ActiveJobWrapper, map[string]any{"job_class": "B", "arguments": []any{1}, "locale": "en"}),
			step1(args.ActiveJobWrapper, map[string]any{"job_class": "B", "arguments": []any{}})), Options{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := compileTest(tt.node, tt.o)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, tt.name, dump(p))
		})
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	open, err := compileTest(chain(group().fate(Collects), step1("S")).onError("E"), Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	into, err := ParseInto(fieldOf(open, "into"))
	if err != nil {
		t.Fatal(err)
	}
	into.Workflow, into.Now, into.Letter, into.Join, into.Scope = "w", now, 10, 20, 30
	nodes := func() []*Node {
		return []*Node{step1("A"), chain(step1("B"), group(step1("C"), step1("D"))).onError("F"), group(), step1("G").onComplete("X")}
	}
	p, err := add(nodes(), into, encodeTest, func() string { return "SECRET" })
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "add", dump(open)+"\n"+dump(p))
	into.Keep, into.OpenScope = true, "1"
	kept, err := add(nodes(), into, encodeTest, func() string { return "SECRET" })
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "add-kept", dump(kept))
	letters, joins, scopes := Needs(nodes())
	if letters != len(p.Letters) || joins != 3 || scopes != 1 {
		t.Errorf("needs %d, %d, %d of %d letters", letters, joins, scopes, len(p.Letters))
	}
	if _, err := ParseInto("x"); err == nil {
		t.Error("a damaged place was read")
	}
	if _, err := Add([]*Node{nil}, into, encodeTest); err == nil {
		t.Error("a nil node was added")
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	twice, same := step1("A"), step1("B").Step
	name := func(n string) func(*Step) { return func(s *Step) { s.Name = n } }
	wide, after := []*Node{step1("Root")}, [][]int{nil}
	for range mostSuccessors + 1 {
		wide, after = append(wide, step1("Leaf")), append(after, []int{0})
	}
	deep := step1("A")
	for range mostNested + 1 {
		deep = group(deep)
	}
	seq := &Node{Kind: Group, Seq: iter.Seq2[*Step, error](noSeq)}
	spread := func(n *Node) *Node { return n.with(func(s *Step) { s.Spread = true }) }
	for _, tt := range []struct {
		name string
		node *Node
		o    Options
		want string
	}{
		{"nil", nil, Options{}, "a node at the beginning of the workflow is nil"},
		{"nil behind", chain(step1("A"), nil), Options{}, "a node behind step 1 (A) is nil"},
		{"no job", &Node{}, Options{}, "a step at the beginning of the workflow is nil"},
		{"nil handler", &Node{Step: &Step{Class: "A"}, OnError: []*Step{nil}}, Options{}, "a handler behind step 1 (A) is nil"},
		{"node twice", chain(twice, twice), Options{}, "step 1 (A) is used twice in one workflow; make a node for each place"},
		{"step twice", chain(&Node{Step: same}, &Node{Step: same}), Options{}, "step 1 (B) is used twice in one workflow; make a step for each place"},
		{"handler twice", chain(&Node{Step: same}, step1("A")).on(same), Options{}, "step 1 (B) is used twice in one workflow; make a step for each place"},
		{"empty chain", chain(step1("A"), chain()), Options{}, "a chain behind step 1 (A) is empty"},
		{"empty graph", graph(nil), Options{}, "a graph at the beginning of the workflow is empty"},
		{"cycle", graph([][]int{nil, {2}, {3}, {2}}, step1("A"), step1("B"), step1("C"), step1("D")), Options{},
			"step 3 (C) waits for itself: the steps before it in its graph make a cycle"},
		{"itself", graph([][]int{{0}}, step1("A")), Options{}, "step 1 (A) waits for itself: the steps before it in its graph make a cycle"},
		{"unknown", graph([][]int{nil, {7}}, step1("A"), step1("B")), Options{}, "step 2 (B) is after a step that its graph does not have"},
		{"edge twice", graph([][]int{nil, {0, 0}}, step1("A"), step1("B")), Options{}, "step 2 (B) is after step 1 (A) twice"},
		{"successors", graph(after, wide...), Options{}, "step 1 (Root) has more than 15 steps after it in its graph; put them behind one step between, or into a group"},
		{"chain in graph", graph([][]int{nil}, chain(step1("A"))), Options{}, "a graph at the beginning of the workflow has a node that is not one step"},
		{"complete in graph", graph([][]int{nil}, step1("A").onComplete("X")), Options{}, "step 1 (A) is in a graph and has OnComplete; give it to the graph"},
		{"names", chain(step1("A").with(name("n")), step1("B").with(name("n"))), Options{},
			`step 1 (A) and step 2 (B) have one name, "n"; results are read by names, so each needs its own`},
		{"late seq", chain(step1("A"), seq), Options{}, "a GroupSeq behind step 1 (A) is not the first stage of the workflow; its members are added after the start"},
		{"nested seq", group(&Node{Kind: Group, Seq: iter.Seq2[*Step, error](noSeq)}), Options{}, "a GroupSeq at the beginning of the workflow is not the first stage of the workflow; its members are added after the start"},
		{"collect", chain(step1("A"), step1("B").fate(Collects)), Options{}, "step 2 (B) has Collect, which is for groups"},
		{"external handler", &Node{Step: &Step{Class: "A"}, OnError: []*Step{{Class: "E", External: 1}}}, Options{}, "step 2 (E) is a handler and External; nothing waits for a handler"},
		{"open chain", chain(step1("A")), Options{Open: true}, "it stays open, but its first stage is no group to which steps can be added"},
		{"lists in lists", chain(deep, step1("B")), Options{}, "step 2 (B) gets lists in lists, 91 levels of them, and a job's arguments have at most 90"},
		{"spread step", chain(step1("A"), spread(step1("B"))), Options{}, "step 2 (B) has Spread, but what comes before it is no group; leave it out"},
		{"spread collect", chain(group(step1("A")).fate(Collects), spread(step1("B"))), Options{},
			"step 2 (B) has Spread, but the group before it has Collect or Ignore, so a failure may be in the list's place; take them as a list"},
		{"spread seq", chain(&Node{Kind: Group, Seq: iter.Seq2[*Step, error](noSeq)}, spread(step1("B"))), Options{},
			"step 1 (B) has Spread, but nobody knows how many results a GroupSeq has; take them as a list"},
		{"inline of very many", chain(wideGroup(1<<16+1), step1("B").with(func(s *Step) { s.Inline = true })), Options{},
			"step 65538 (B) would be given 65537 results as values, and at most 65536 are; take them as goworker.Results, without Inline and Spread"},
		{"spread of very many", chain(wideGroup(1<<16+1), step1("B").with(func(s *Step) { s.Spread = true })), Options{},
			"step 65538 (B) would be given 65537 results as values, and at most 65536 are; take them as goworker.Results, without Inline and Spread"},
		{"inline seq", chain(&Node{Kind: Group, Seq: iter.Seq2[*Step, error](noSeq)}, step1("B").with(func(s *Step) { s.Inline = true })), Options{},
			"step 1 (B) has Inline, but nobody knows how many results a GroupSeq has; take them as goworker.Results"},
		{"id with a dot", step1("A"), Options{ID: "a.b"}, `a workflow cannot have the id "a.b": it has '.', and dots, quotation marks, backslashes, blanks and control characters are not allowed`},
		{"id with a quotation mark", step1("A"), Options{ID: `a"b`}, `a workflow cannot have the id "a\"b": it has '"', and dots, quotation marks, backslashes, blanks and control characters are not allowed`},
		{"id with a blank", step1("A"), Options{ID: "a b"}, `a workflow cannot have the id "a b": it has ' ', and dots, quotation marks, backslashes, blanks and control characters are not allowed`},
		{"long id", step1("A"), Options{ID: strings.Repeat("a", 129)}, `a workflow cannot have the id "` + strings.Repeat("a", 129) + `": it has 129 bytes, and at most 128 are allowed`},
		{"payload", step1("A", func() {}), Options{}, "step 1 (A): args[0] of a job of class A cannot be encoded: a value of type func() has no JSON form"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := compileTest(tt.node, tt.o)
			if err == nil {
				t.Fatalf("compiled:\n%s", dump(p))
			}
			if got := err.Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func (n *Node) on(h *Step) *Node { n.OnError = append(n.OnError, h); return n }

// wideGroup is a group of so many steps.
func wideGroup(n int) *Node {
	members := make([]*Node, n)
	for i := range members {
		members[i] = step1("A")
	}
	return &Node{Kind: Group, Nodes: members}
}
