package examples

import (
	"bufio"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

func TestRecurring(t *testing.T) {
	t.Parallel()
	cmd := program(t, redistest.Start(t), "recurring", "-queues=recurring")
	cmd.Env = append(cmd.Env, "SCHEDULE=../../example/recurring/schedule.yml")
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() {
		exited <- cmd.Wait()
		_ = write.Close()
	}()
	pings, tidied, stopped := 0, 0, false
	var out strings.Builder
	for lines := bufio.NewScanner(read); lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
		switch {
		case strings.HasPrefix(lines.Text(), "ping of "):
			pings++
		case lines.Text() == "tidying temporary files":
			tidied++
		default:
			continue
		}
		if !stopped && pings >= 2 && tidied >= 1 {
			stopped = true
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	if err := <-exited; err != nil || pings < 2 || tidied < 1 {
		t.Errorf("it ended with %v after %d pings and tidying %d times:\n%s", err, pings, tidied, out.String())
	}
}
