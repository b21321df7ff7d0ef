package examples

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

// A job that is published over HTTP runs in the worker of the same program; one of another queue is taken over HTTP.
func TestHTTP(t *testing.T) {
	t.Parallel()
	cmd := program(t, redistest.Start(t), "http", "-listen=localhost:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	base, ok := strings.CutPrefix(strings.TrimSpace(line), "jobs over HTTP at ")
	if err != nil || !ok {
		t.Fatalf("it began with %q, %v", line, err)
	}
	post := func(path, body string, want int) string {
		t.Helper()
		answer, err := http.Post(base+"/v2/shop/"+path, "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != want {
			t.Errorf("%s answered %s: %s", path, answer.Status, text)
		}
		return string(text)
	}
	post("queues/mail/jobs", "to ada", http.StatusCreated)
	if line, err := lines.ReadString('\n'); err != nil || line != "working on \"to ada\"\n" {
		t.Errorf("the worker printed %q, %v", line, err)
	}
	post("queues/img/jobs", "cat.png", http.StatusCreated)
	if job := post("reservations", `{"queues":["img"],"wait_ms":10000}`, http.StatusOK); !strings.Contains(job, `"body":"cat.png"`) {
		t.Errorf("the consumer got %s", job)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_, _ = io.Copy(io.Discard, lines)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
