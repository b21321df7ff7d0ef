package examples

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/internal/redistest"
)

// The dashboard of a program asks for a name and a password, shows a queue, and pauses it for an operator. The program ends by a signal.
func TestDashboard(t *testing.T) {
	t.Parallel()
	line, err := dashboard.UserLine(dashboard.User{Name: "ann", Role: dashboard.Operator}, "long enough")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	server.Do(t, "RPUSH", "resque:queue:slow", `{"class":"Later","args":[]}`)
	server.Do(t, "SADD", "resque:queues", "slow")
	cmd := program(t, server, "dashboard", "-listen=localhost:0", "-users="+file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	greeting, err := lines.ReadString('\n')
	base, ok := strings.CutPrefix(strings.TrimSpace(greeting), "the dashboard is at ")
	if err != nil || !ok {
		t.Fatalf("it began with %q, %v", greeting, err)
	}
	ask := func(method, path, password string) (status int, body string) {
		t.Helper()
		req, err := http.NewRequest(method, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if password != "" {
			req.SetBasicAuth("ann", password)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}
	for _, wrong := range []string{"", "wrong password"} {
		if status, body := ask(http.MethodGet, "queues/slow", wrong); status != http.StatusUnauthorized || strings.Contains(body, "Later") {
			t.Errorf("with the password %q: %d %s", wrong, status, body)
		}
	}
	if status, body := ask(http.MethodGet, "queues/slow", "long enough"); status != http.StatusOK || !strings.Contains(body, "Later") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := ask(http.MethodPost, "api/v1/queues/slow/pause", "long enough"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if n := server.Int(t, "SISMEMBER", "resque:go:paused", "slow"); n != 1 {
		t.Error("the queue is not paused")
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_, _ = io.Copy(io.Discard, lines)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
