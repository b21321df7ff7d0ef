package rule

import (
	"testing"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A notice that is hidden is no rule for a process: it reads none, and looks after none with its renewals.
func TestHiddenNotices(t *testing.T) {
	t.Parallel()
	server, s := redistest.Start(t), control.New(resque.New("resque:"))
	c := server.Dial(t)
	server.Do(t, "HSET", s.RulesKey().String(), "hide:a", `{"until":99999999999999}`)
	var table Table
	if err := table.Read(s, c); err != nil || table.Any() || table.Version() != 0 {
		t.Errorf("hidden notices are rules: %v", err)
	}
	server.Do(t, "HSET", s.RulesKey().String(), "timeout:A", `{"value":"1"}`)
	if err := table.Read(s, c); err != nil || !table.Any() || len(table.All()) != 1 {
		t.Errorf("the rules are %v, %v", table.All(), err)
	}
}
