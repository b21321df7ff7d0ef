package workflow

import (
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// TestSplitStarts starts a workflow in pieces, each of them twice, and finds in Redis what one plan says.
func TestSplitStarts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := server.Dial(t)
	s := workflows.New(resque.New(""))
	members := group()
	for range 2500 {
		members.Nodes = append(members.Nodes, step1("Member", strings.Repeat("x", 300)))
	}
	p, err := compileTest(chain(members, step1("Callback")).onError("E"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pieces, closes := Split(p)
	if len(pieces) < 4 || !closes {
		t.Fatalf("%d pieces, closes: %t", len(pieces), closes)
	}
	_, err = s.Start(c, pieces[0])
	must(err)
	a := workflows.Adder{Workflow: "w", Join: pieces[0].OpenJoin, Name: "start", Step: -1}
	for i, piece := range pieces[1:] {
		for range 2 {
			have, err := s.Reserve(c, a, 0, 0, 0)
			must(err)
			if have.Count == i {
				_, err = s.Add(c, a, have, workflows.Added{Count: i + 1, Hash: strconv.Itoa(i + 1)}, piece)
				must(err)
			}
		}
	}
	state, err := s.Close(c, "w")
	must(err)
	letters, err := redis.Bytes(c.Do("GET", s.LettersKey("w").String()))
	must(err)
	n, err := redis.Int(c.Do("LLEN", "resque:queue:member"))
	must(err)
	if string(letters) != string(p.Letters) || n != 2500 || state != workflows.StateRunning {
		t.Errorf("%d jobs, state %s, letters as planned: %t", n, state, string(letters) == string(p.Letters))
	}
	for i := 0; i < len(p.Fields); i += 2 {
		name := p.Fields[i].(string)
		got, err := redis.String(c.Do("HGET", s.WorkflowKey("w").String(), name))
		if want := fieldOf(p, name); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"nextjoin": "2", "nextscope": "1", "next": strconv.Itoa(len(p.Letters))} {
		if got, err := redis.String(c.Do("HGET", s.WorkflowKey("w").String(), name)); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}
