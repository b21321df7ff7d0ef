package inspect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// The user watcher of docs/redis.md sees all that Redis says of itself and of its keys. Without any of its rules something is left out,
// and says which rule lacks.
func TestWatchersUser(t *testing.T) {
	i, server, l := setup(t)
	fillKeys(t, server)
	server.Do(t, "RPUSH", "resque:failed", "x")
	lacks := func() (all []string) {
		say := func(denied []inspect.Denied, err error) {
			for _, d := range denied {
				all = append(all, d.Rule)
			}
			if err != nil {
				all = append(all, err.Error())
			}
		}
		servers, err := i.ServerInfo(t.Context())
		for _, s := range servers {
			say(s.Denied, nil)
		}
		say(nil, err)
		page, err := i.Keys(t.Context(), "", "", inspect.KeysOptions{Budget: time.Minute, Count: 1000})
		say(page.Denied, err)
		for _, key := range []string{"queue:mail", "queues", "go:inflight:p"} {
			k, err := i.Key(t.Context(), "resque:"+key)
			say(k.Denied, err)
		}
		report, err := i.MemoryByFamily(t.Context(), time.Minute)
		say(report.Denied, err)
		_, err = i.SlowLog(t.Context(), 10)
		say(nil, err)
		say(nil, i.Writable(t.Context()))
		return all
	}
	var rules []any
	for _, rule := range redistest.ACL(t, "watcher")[1:] {
		rules = append(rules, rule)
	}
	l.as(rules...)
	if said := lacks(); len(said) > 0 {
		t.Errorf("the user of the page lacks %q", said)
	}
	for n, rule := range rules {
		name := fmt.Sprint(rule)
		if !strings.HasPrefix(name, "+") {
			continue
		}
		server.Do(t, "SCRIPT", "FLUSH") // a script that Redis knows needs no EVAL
		l.as(append(slices.Clone(rules[:n]), rules[n+1:]...)...)
		if said := strings.Join(lacks(), "\n"); !strings.Contains(said, name) && !strings.Contains(said, strings.TrimPrefix(name, "+")) {
			t.Errorf("without %s it says %q", name, said)
		}
	}
}
