package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// trees draws random trees. Each step has a class of its own.
type trees struct {
	*rapid.T
	steps int
}

func (d *trees) step() *Node {
	d.steps++
	n := step1("S" + strconv.Itoa(d.steps))
	n.Step.Immutable = rapid.IntRange(0, 9).Draw(d.T, "immutable") == 0
	if rapid.IntRange(0, 9).Draw(d.T, "named") == 0 {
		n.Step.Name = n.Step.Class
	}
	if rapid.IntRange(0, 9).Draw(d.T, "external") == 0 {
		n.Step.External = time.Minute
	}
	if rapid.IntRange(0, 9).Draw(d.T, "own") == 0 {
		n.Step.Job = testJob{args: []any{"own"}}
	}
	return n
}

func (d *trees) handlers(n *Node, complete bool) *Node {
	for rapid.IntRange(0, 4).Draw(d.T, "error") == 0 {
		n.OnError = append(n.OnError, d.handler())
	}
	for complete && rapid.IntRange(0, 4).Draw(d.T, "complete") == 0 {
		n.OnComplete = append(n.OnComplete, d.handler())
	}
	return n
}

func (d *trees) handler() *Step {
	d.steps++
	return step1("H" + strconv.Itoa(d.steps)).Step
}

func (d *trees) node(depth int) *Node {
	kind := rapid.IntRange(0, 5).Draw(d.T, "kind")
	if depth == 0 {
		kind = 0
	}
	var n *Node
	switch kind {
	case 1, 2:
		n = &Node{Kind: Chain}
		for range rapid.IntRange(1, 4).Draw(d.T, "length") {
			n.Nodes = append(n.Nodes, d.node(depth-1))
		}
	case 3, 4:
		n = &Node{Kind: Group, Fate: Fate(max(0, rapid.IntRange(-2, 2).Draw(d.T, "fate")))}
		for range rapid.IntRange(0, 4).Draw(d.T, "members") {
			n.Nodes = append(n.Nodes, d.node(depth-1))
		}
	case 5:
		n = &Node{Kind: Graph}
		for i := range rapid.IntRange(1, 5).Draw(d.T, "graph") {
			n.Nodes = append(n.Nodes, d.handlers(d.step(), false))
			var after []int
			for b := range i {
				if rapid.Bool().Draw(d.T, "edge") {
					after = append(after, b)
				}
			}
			n.After = append(n.After, after)
		}
	default:
		n = d.step()
	}
	if n.Kind != Group && rapid.IntRange(0, 9).Draw(d.T, "ignored") == 0 {
		n.Fate = Ignores
	}
	return d.handlers(n, true)
}

// read is a plan as a script reads it.
type read struct {
	*workflows.Plan
	letters []byte
	fields  map[string]string
	places  map[int]workflows.Place
	records map[int]string // of templates, with their words in front
	sent    map[int][]byte // payloads
	results map[int]string
	ran     map[int]string // arguments
}

func readPlan(t *rapid.T, p *workflows.Plan) *read {
	r := &read{Plan: p, letters: slices.Clone(p.Letters), fields: map[string]string{}, places: map[int]workflows.Place{},
		records: map[int]string{}, sent: map[int][]byte{}, results: map[int]string{}, ran: map[int]string{}}
	for i := 0; i < len(p.Fields); i += 2 {
		name := p.Fields[i].(string)
		if r.fields[name] != "" {
			t.Fatalf("two fields %s", name)
		}
		r.fields[name] = fmt.Sprintf("%s", p.Fields[i+1])
	}
	for _, j := range p.Jobs {
		r.places[j.Step] = placeOf(t, j.Payload)
		r.sent[j.Step] = j.Payload
	}
	for name, text := range r.fields {
		if n, err := strconv.Atoi(name[1:]); err == nil && name[0] == 's' {
			words := strings.SplitN(text, " ", 8)
			size, rest, _ := strings.Cut(words[7], ":")
			queue, _ := strconv.Atoi(size)
			r.places[n] = placeOf(t, []byte(rest[queue:]))
			r.records[n] = text
		}
	}
	return r
}

func placeOf(t *rapid.T, raw []byte) workflows.Place {
	job, err := payload.Parse(raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	p, ok := workflows.ParsePlace(payload.StringValue(job.Field(workflows.Field)))
	if !ok {
		t.Fatalf("%s has no place", raw)
	}
	return p
}

func ints(t *rapid.T, words ...string) (all []int) {
	for _, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// TestInvariants checks what all plans have in common.
func TestInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := &trees{T: t}
		p, err := compileTest(d.node(4), Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := readPlan(t, p)
		owner := map[int]string{}
		owns := func(n int, who string) {
			if owner[n] != "" {
				t.Fatalf("letter %d is of %s and of %s\n%s", n, owner[n], who, dump(p))
			}
			owner[n] = who
		}
		members := map[string]map[int]bool{} // of each join
		branch := map[int]string{}           // the join that counts a branch
		counts := func(join string, n int, isBranch bool) {
			if members[join] == nil {
				members[join] = map[int]bool{}
			}
			members[join][n] = true
			if isBranch {
				if branch[n] != "" && branch[n] != join {
					t.Fatalf("branch %d counts in joins %s and %s\n%s", n, branch[n], join, dump(p))
				}
				branch[n] = join
			}
		}
		for _, j := range p.Jobs {
			owns(j.Step, "the start")
		}
		graphs := map[string]int{} // how many members of a graph's join are not sent by a join in it
		inside := map[int]bool{}   // steps that are
		for name, text := range r.fields {
			k, err := strconv.Atoi(name[1:])
			switch {
			case err != nil:
			case name[0] == 'j':
				w := strings.Fields(text)
				n := ints(t, w[0], w[1], w[2], w[4], w[5])
				if w[3] == "j" {
					for i := n[3]; i < n[3]+n[4]; i++ {
						owns(i, "join "+name)
						inside[i] = w[7] == "+"
						if p.Letters[i] != 'w' || r.records[i] == "" {
							t.Fatalf("step %d does not wait or has no template\n%s", i, dump(p))
						}
					}
				}
				if w[6] != "-" {
					if up := ints(t, w[6])[0]; up >= k {
						t.Fatalf("join %d reports to %d", k, up)
					}
					if w[7] != "+" {
						counts(w[6], ints(t, w[7])[0], true)
					}
				}
				if w[9] != "-" {
					owns(ints(t, w[9])[0], "handler of join "+name)
				}
			case name[0] == 'p':
				w := strings.Fields(text)
				if w[0] != "-" && ints(t, w[0])[0] >= k {
					t.Fatalf("scope %d is in %s", k, w[0])
				}
				if w[1] != "-" {
					owns(ints(t, w[1])[0], "handler of scope "+name)
				}
			}
		}
		for n, at := range r.places {
			for i, j := range strings.Split(at.Joins, ",") {
				switch {
				case j == "":
				case at.Letter == "":
					counts(j, n, false)
					if last := i == strings.Count(at.Joins, ","); last && !inside[n] {
						graphs[j]++
					}
				default:
					counts(j, ints(t, at.Letter)[0], true)
				}
			}
			if at.Scope != "" && r.fields["p"+at.Scope] == "" {
				t.Fatalf("step %d has no scope %s\n%s", n, at.Scope, dump(p))
			}
		}
		for n := range branch {
			owns(n, "a branch")
			if p.Letters[n] != 'b' {
				t.Fatalf("branch %d has letter %c", n, p.Letters[n])
			}
		}
		for n := range p.Letters {
			if owner[n] == "" {
				t.Fatalf("letter %d has no owner\n%s", n, dump(p))
			}
		}
		for name, text := range r.fields {
			if k, err := strconv.Atoi(name[1:]); err == nil && name[0] == 'j' {
				w := strings.Fields(text)
				left, bad := ints(t, w[0])[0], ints(t, w[1])[0]
				all := len(members[name[1:]])
				if w[3] == "g" && (bad != all || left != graphs[name[1:]]) || w[3] == "j" && left != all || left > 0 && all == 0 {
					t.Fatalf("join %d: %s, and it has %d members\n%s", k, text, all, dump(p))
				}
			}
		}
	})
}

// TestSuccess runs plans, with nothing but success, and compares what each step gets with the tree.
func TestSuccess(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := &trees{T: t}
		n := d.node(4)
		p, err := compileTest(n, Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := readPlan(t, p)
		done := len(p.Letters) == 0 || strings.HasPrefix(r.fields["j0"], "0 ")
		for len(r.sent) > 0 {
			var ready []int
			for i := range r.sent {
				ready = append(ready, i)
			}
			slices.Sort(ready)
			if r.end(t, rapid.SampledFrom(ready).Draw(t, "ends")) {
				done = true
			}
		}
		want := map[string]string{}
		value := expect(n, nil, want)
		for class, args := range want {
			found := false
			for i, a := range r.ran {
				if strings.HasPrefix(a, class+"(") {
					found = a == class+"("+args+")"
					if !found {
						t.Fatalf("step %d ran as %s, want %s(%s)\n%s", i, a, class, args, dump(p))
					}
				}
			}
			if !found {
				t.Fatalf("%s did not run\n%s", class, dump(p))
			}
		}
		if len(want) != len(r.ran) || !done {
			t.Fatalf("%d steps ran of %d, done: %t\n%s", len(r.ran), len(want), done, dump(p))
		}
		result := r.value(t, strings.TrimPrefix(r.fields["result"], "v "))
		if result != value {
			t.Fatalf("the result is %s, want %s\n%s", result, value, dump(p))
		}
	})
}

// end ends a step with success, and reports whether the workflow is done then.
func (r *read) end(t *rapid.T, n int) (done bool) {
	job, err := payload.Parse(r.sent[n])
	if err != nil {
		t.Fatalf("%s: %v", r.sent[n], err)
	}
	delete(r.sent, n)
	list := make([]string, len(job.Args))
	for i, a := range job.Args {
		list[i] = string(a)
	}
	if r.letters[n] == 'y' { // the token
		if !strings.HasPrefix(list[len(list)-1], `"w.`) {
			t.Fatalf("the token is not the last argument of %s", job.Class)
		}
		list = list[:len(list)-1]
	}
	r.letters[n] = 'd'
	r.ran[n] = job.Class + "(" + strings.Join(list, ",") + ")"
	at := r.places[n]
	kept := n
	if at.Result != "" {
		kept = ints(t, at.Result)[0]
	}
	r.results[kept] = `"` + job.Class + `"`
	for _, j := range strings.Split(at.Joins, ",") {
		if r.count(t, j) {
			done = true
		}
	}
	return done
}

// count counts a member of a join that has ended well.
func (r *read) count(t *rapid.T, join string) (done bool) {
	w := strings.Fields(r.fields["j"+join])
	n := ints(t, w[0], w[1], w[4], w[5])
	n[0]--
	if w[3] == "g" {
		n[1]--
	}
	w[0], w[1] = strconv.Itoa(n[0]), strconv.Itoa(n[1])
	r.fields["j"+join] = strings.Join(w, " ")
	if n[0] > 0 || n[1] > 0 {
		return false
	}
	if w[3] == "j" && n[3] > 0 {
		for i := n[2]; i < n[2]+n[3]; i++ {
			r.send(t, i)
		}
		if w[7] == "+" {
			g := strings.Fields(r.fields["j"+w[6]])
			g[0] = strconv.Itoa(ints(t, g[0])[0] + n[3])
			r.fields["j"+w[6]] = strings.Join(g, " ")
		}
		return false
	}
	if w[6] == "-" {
		return true
	}
	return r.count(t, w[6])
}

func (r *read) send(t *rapid.T, n int) {
	if r.letters[n] != 'w' {
		t.Fatalf("step %d is sent twice", n)
	}
	w := strings.SplitN(r.records[n], " ", 8)
	r.letters[n] = w[0][0]
	at := ints(t, w[5], w[6])
	record := w[7]
	values, comma, behind := "", ",", ""
	if w[1] == "v" {
		values = r.value(t, w[2])
	}
	if record[at[0]-1] == '[' {
		comma = ""
		if record[at[0]] != ']' {
			behind = ","
		}
	}
	if values == "" {
		comma, behind = "", ""
	}
	record = record[:at[0]] + comma + values + behind + record[at[0]:at[1]] + `,"expires_at":1` + record[at[1]:]
	size, rest, _ := strings.Cut(record, ":")
	raw := []byte(rest[ints(t, size)[0]:])
	job, err := payload.Parse(raw)
	if err != nil || job.ExpiresAt != 1 || !strings.HasSuffix(string(raw), `"}`) {
		t.Fatalf("%s: %v", raw, err)
	}
	r.sent[n] = raw
}

// value reads the values of a template.
func (r *read) value(t *rapid.T, of string) string {
	text, rest := r.items(t, of, false)
	if rest != "" {
		t.Fatalf("%s: %s is left", of, rest)
	}
	return text
}

func (r *read) items(t *rapid.T, of string, collect bool) (text, rest string) {
	var all []string
	put := func(s string) {
		if collect {
			s = `{"result":` + s + `}`
		}
		all = append(all, s)
	}
	for of != "" && of[0] != ']' {
		digits := len(of) - len(strings.TrimLeft(of, "0123456789"))
		number := of[:digits]
		of = of[digits:]
		inner := strings.HasPrefix(of, "c")
		of = strings.TrimPrefix(of, "c")
		if strings.HasPrefix(of, "[") {
			var list string
			list, of = r.items(t, of[1:], inner)
			if of == "" || of[0] != ']' {
				t.Fatal("a list does not end")
			}
			of = of[1:]
			put("[" + list + "]")
		} else {
			count := 1
			if strings.HasPrefix(of, "+") {
				digits := len(of[1:]) - len(strings.TrimLeft(of[1:], "0123456789"))
				count = ints(t, of[1:1+digits])[0]
				of = of[1+digits:]
			}
			first := ints(t, number)[0]
			for i := first; i < first+count; i++ {
				result, ok := r.results[i]
				if !ok {
					t.Fatalf("result %d is not there", i)
				}
				put(result)
			}
		}
		if !strings.HasPrefix(of, ",") {
			break
		}
		of = of[1:]
	}
	return strings.Join(all, ","), of
}

// expect says with which arguments the steps of a node run, and what its value is.
func expect(n *Node, in []string, ran map[string]string) (value string) {
	switch n.Kind {
	case OneStep:
		expectStep(n.Step, in, ran)
		return `"` + n.Step.Class + `"`
	case Chain:
		for _, m := range n.Nodes {
			value = expect(m, in, ran)
			in = []string{value}
		}
		return value
	case Group:
		var all []string
		for _, m := range n.Nodes {
			v := expect(m, in, ran)
			if n.Fate == Collects {
				v = `{"result":` + v + `}`
			}
			all = append(all, v)
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	var sinks []string
	for i, m := range n.Nodes {
		takes := in
		if len(n.After[i]) > 0 {
			takes = nil
		}
		for _, b := range n.After[i] {
			takes = append(takes, `"`+n.Nodes[b].Step.Class+`"`)
		}
		expectStep(m.Step, takes, ran)
		if !slices.ContainsFunc(n.After, func(after []int) bool { return slices.Contains(after, i) }) {
			sinks = append(sinks, `"`+m.Step.Class+`"`)
		}
	}
	if len(sinks) == 1 {
		return sinks[0]
	}
	return "[" + strings.Join(sinks, ",") + "]"
}

func expectStep(s *Step, in []string, ran map[string]string) {
	var list []string
	for _, a := range s.Job.(testJob).args {
		raw, _ := json.Marshal(a)
		list = append(list, string(raw))
	}
	if !s.Immutable {
		list = append(list, in...)
	}
	ran[s.Class] = strings.Join(list, ",")
}

// TestLarge compiles what is long, deep and wide, without running out of stack, and with text in proportion.
func TestLarge(t *testing.T) {
	t.Parallel()
	long, left, right, groups := chain(), step1("A"), step1("A"), step1("A")
	for range 10_000 {
		long.Nodes = append(long.Nodes, step1("A"))
		left = chain(left, step1("A"))
		right = chain(step1("A"), right)
	}
	for range 1_000 {
		groups = chain(group(groups, step1("A")), step1("B"))
	}
	nested := step1("A")
	for range 1_000 {
		nested = group(nested)
	}
	wide := group()
	for range 20_000 {
		wide.Nodes = append(wide.Nodes, step1("A"))
	}
	for name, n := range map[string]*Node{"long": long, "left": left, "right": right, "groups": groups, "nested": nested, "wide": chain(wide, step1("C"))} {
		p, err := compileTest(n, Options{})
		if err != nil {
			t.Fatal(err)
		}
		steps := len(p.Jobs)
		for i := 0; i < len(p.Fields); i += 2 {
			if p.Fields[i].(string)[0] == 's' {
				steps++
			}
		}
		if size := p.Size(); size > 2000*400*max(1, steps/2000)+400_000 {
			t.Errorf("%s: %d bytes for %d steps", name, size, steps)
		}
		pieces, closes := Split(p)
		letters, fields, jobs := 0, 0, 0
		for i, piece := range pieces {
			if piece.Size() > workflows.MostBytes || len(piece.Jobs) > workflows.MostSent {
				t.Errorf("%s: piece %d has %d bytes, %d jobs", name, i, piece.Size(), len(piece.Jobs))
			}
			letters, fields, jobs = letters+len(piece.Letters), fields+len(piece.Fields)/2, jobs+len(piece.Jobs)
		}
		if closes {
			fields -= 2
			if !pieces[0].Open || len(pieces[0].Jobs) > 0 || fieldOf(pieces[0], "j0") == fieldOf(p, "j0") {
				t.Errorf("%s: the first piece sends, or is not open", name)
			}
		}
		if letters != len(p.Letters) || fields != len(p.Fields)/2 || jobs != len(p.Jobs) || closes != (len(pieces) > 1) {
			t.Errorf("%s: %d pieces have %d letters, %d fields, %d jobs; the plan has %d, %d, %d", name, len(pieces), letters, fields, jobs,
				len(p.Letters), len(p.Fields)/2, len(p.Jobs))
		}
	}
}
