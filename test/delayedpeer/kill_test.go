package delayedpeer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// Bridges are killed again and again while tasks come: each task runs, and only those that a killed process had in hand run
// twice.
func TestKilledBridges(t *testing.T) {
	t.Parallel()
	const kills, each = 6, 100
	server := redistest.Start(t)
	ledger := filepath.Join(t.TempDir(), "ledger")
	ran := func() []string {
		text, _ := os.ReadFile(ledger)
		return strings.Fields(string(text))
	}
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-queues=msgpack:calc", "-concurrency=3", "-uri="+server.URI())
		cmd.Env = append(os.Environ(), ledgerVar+"="+ledger)
		if testing.Verbose() {
			cmd.Stderr = os.Stderr
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
	n := 0
	push := func() {
		args := []any{"calc"}
		ones := []any{"calc_noti"}
		for range each {
			id := fmt.Sprintf("task%04d", n)
			args = append(args, fmt.Sprintf("\x92\xa8pkg.Note\xc4\x09\xa8%s", id))
			ones = append(ones, "1")
			n++
		}
		server.Do(t, "RPUSH", args...)
		server.Do(t, "RPUSH", ones...)
	}
	for i := range kills {
		push()
		before := len(ran())
		cmd := start()
		redistest.Eventually(t, daemontest.Soon, "tasks run", func() bool { return len(ran()) > before+i })
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	push()
	last := start()
	redistest.Eventually(t, 2*daemontest.Soon, "all tasks have run", func() bool {
		return len(slices.Compact(slices.Sorted(slices.Values(ran())))) == n && server.Int(t, "EXISTS", "calc", "calc_noti") == 0
	})
	_ = last.Process.Signal(os.Interrupt)
	if err := last.Wait(); err != nil {
		t.Errorf("the last process ended with %v", err)
	}
	if twice := len(ran()) - n; twice > kills*3 {
		t.Errorf("%d tasks ran twice, and at most %d were in hand at a kill", twice, kills*3)
	}
	if failed := server.List(t, "LRANGE", "resque:failed", 0, -1); len(failed) > 0 {
		t.Errorf("failures: %s", failed)
	}
}
