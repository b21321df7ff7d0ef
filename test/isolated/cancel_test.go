//go:build unix

package isolated

import (
	"os"
	"strings"
	"testing"
)

// A cancelled job in a child hears of it with the cause, and one that does not end in time is killed. What
// either returns is dropped.
func TestCancelByID(t *testing.T) {
	b := setup(t)
	b.push(`{"class":"Hold","args":[],"id":"hold"}`)
	noted := func(text string) bool {
		notes, _ := os.ReadFile(b.notes)
		return strings.Contains(string(notes), text)
	}
	b.eventually("its child runs", func() bool { return noted("pids") })
	cancelled := func(n int) func() bool {
		return func() bool { return strings.Count(b.logged(), `msg="job cancelled"`) == n }
	}
	if err := b.daemon.Client().Cancel(t.Context(), "hold"); err != nil {
		t.Fatal(err)
	}
	b.eventually("it is dropped", cancelled(1))
	if cause := "cause goworker: the job was cancelled by its id or ticket"; !noted(cause) {
		t.Errorf("the child did not see the %s", cause)
	}
	if err := os.Remove(b.notes); err != nil {
		t.Fatal(err)
	}
	b.push(`{"class":"Forever","args":[],"id":"forever"}`)
	b.eventually("its child runs", func() bool { return noted("pids") })
	if err := b.daemon.Client().Cancel(t.Context(), "forever"); err != nil {
		t.Fatal(err)
	}
	b.eventually("it is killed and dropped", cancelled(2))
	if failed := b.redis.Int(t, "LLEN", "resque:failed"); failed > 0 || b.stat("failed") > 0 {
		t.Errorf("%d failures", failed)
	}
	if left := b.redis.Int(t, "EXISTS", "resque:go:cancelled"); left > 0 {
		t.Error("the entries are left")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errs) > 0 {
		t.Errorf("the hook Failure saw %v", b.errs)
	}
}
