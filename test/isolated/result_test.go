//go:build unix

package isolated

import (
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// What a handler says in its child reaches the document, and so does its result. A log line survives a crash.
func TestResults(t *testing.T) { inBoth(t, testResults) }

func testResults(t *testing.T, b *bundle) {
	for end, want := range map[string][2]string{
		"done": {"done", `{"end":"done"}`}, "exit": {"failed", "exited with status 3"}, "goexit": {"failed", "goroutine"}, "hang": {"failed", "hard time limit"},
	} {
		id := "job " + end
		_, err := b.daemon.EnqueueWith(goworker.NewJob("work", "Tells", end), goworker.WithID(id), goworker.WithResult(time.Minute), goworker.CaptureLogs())
		if err != nil {
			t.Fatal(err)
		}
		get := func(field string) string { return b.redis.Text(t, "HGET", "resque:go:result:"+id, field) }
		redistest.Eventually(t, soon, id+" ends", func() bool { return get("ended") != "" })
		if got := get("result") + get("error"); get("state") != want[0] || !strings.Contains(got, want[1]) {
			t.Errorf("%s is %s: %s", id, get("state"), got)
		}
		if lines := b.redis.List(t, "LRANGE", "resque:go:logs:"+id, 0, -1); len(lines) != 1 || !strings.Contains(lines[0], `"msg":"said in the child","n":1`) {
			t.Errorf("%s: the lines are %q", id, lines)
		}
		if got := b.redis.Text(t, "GET", "resque:go:progress:"+id); !strings.HasPrefix(got, `{"done":20000,"total":20000,"note":"in the child"`) {
			t.Errorf("%s: the progress is %s", id, got)
		}
	}
}
