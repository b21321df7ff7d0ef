//go:build unix

package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/goworker/goworker/internal/logging"
)

const (
	// mostSaid is how many bytes of a program's output are kept.
	mostSaid = 4 << 10

	// mostOfIt is how many of these bytes an error shows.
	mostOfIt = 300
)

// execTarget is a program that gets each delivery on its standard input.
type execTarget struct {
	argv   []string
	within time.Duration
}

// try starts the program. Its arguments and environment contain nothing of a job. When the program has ended, or its time is over, try
// kills its process group, so that no program that it has started outlives it.
func (t *execTarget) try(ctx context.Context, _ string, body []byte) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, t.within)
	defer cancel()
	said := new(tail)
	c := exec.CommandContext(ctx, t.argv[0], t.argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(body), said, said
	c.Env = environment(os.Environ())
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second // for a process that left the group and holds the output open
	err := c.Run()
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // no group has this number then, unless it is that of its children
	}
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay) && c.ProcessState.Success():
		return 0, nil
	case ctx.Err() != nil:
		err = fmt.Errorf("the program %s had not ended after %s, and was killed", t.argv[0], t.within)
	default:
		err = fmt.Errorf("the program %s: %w", t.argv[0], err)
	}
	if text := strings.TrimSpace(said.String()); text != "" {
		err = fmt.Errorf("%w: %s", err, logging.Shorten(text, mostOfIt))
	}
	return 0, err
}

// environment is the environment without the key.
func environment(all []string) (left []string) {
	for _, v := range all {
		if !strings.HasPrefix(v, KeyVariable+"=") {
			left = append(left, v)
		}
	}
	return left
}

// tail keeps the first bytes that are written to it.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	if room := mostSaid - t.Len(); room > 0 {
		t.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
