// Package delayedpeer runs bridges beside a worker and a producer in Python that speak delayed's wire, and kills
// them. The test binary is the worker program as well: with a ledger named in its environment it works instead of testing.
package delayedpeer

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/delayedbridge"
	"github.com/goworker/goworker/internal/redistest"
)

// ledgerVar names the file in which the worker program notes the tasks that it runs.
const ledgerVar = "GOWORKER_DELAYED_LEDGER"

func TestMain(m *testing.M) {
	if path := os.Getenv(ledgerVar); path != "" {
		os.Exit(program(path))
	}
	os.Exit(m.Run())
}

// program works the tasks of delayed's queue "calc" by a bridge. Its flags are goworker's.
func program(path string) int {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	goworker.Register("pkg.Note", func(id string) error {
		_, err := fmt.Fprintln(file, id)
		return err
	})
	goworker.AddPart(delayedbridge.Part(goworker.Default(), delayedbridge.Queue{Name: "calc", Ahead: 20}))
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, "Work:", err)
		return 2
	}
	return 0
}

// python is one that has the packages redis and msgpack: Debian's own, where another one is first in the path.
func python() string {
	if exec.Command("python3", "-c", "import redis, msgpack").Run() == nil {
		return "python3"
	}
	return "/usr/bin/python3"
}

// peer starts the peer in Python, with these lines as its input. The end of the test kills it.
func peer(t *testing.T, server *redistest.Server, input string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(python(), append([]string{"peer.py", args[0], server.URI()}, args[1:]...)...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// enqueue has the peer enqueue tasks.
func enqueue(t *testing.T, server *redistest.Server, queue string, tasks ...string) {
	t.Helper()
	if err := peer(t, server, strings.Join(tasks, "\n"), "enqueue", queue).Wait(); err != nil {
		t.Fatal(err)
	}
}
