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
	// mostSaid is how much of what a program prints is kept.
	mostSaid = 4 << 10

	// mostOfIt is how much of that an error shows.
	mostOfIt = 300
)

// execTarget is a program that gets each delivery on its standard input.
type execTarget struct {
	argv   []string
	within time.Duration
}

// try starts the program. Nothing of a job is among its arguments or in its environment. When it has ended, and at the end of the time,
// its whole process group is killed: what it has started does not outlive it.
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

// environment leaves the key out.
func environment(all []string) (left []string) {
	for _, v := range all {
		if !strings.HasPrefix(v, KeyVariable+"=") {
			left = append(left, v)
		}
	}
	return left
}

// tail keeps the beginning of what is written.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	if room := mostSaid - t.Len(); room > 0 {
		t.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
