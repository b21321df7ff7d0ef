//go:build unix

package isolate

import (
	"bufio"
	"context"
	"errors"
	"os"
	"testing"

	"github.com/goworker/goworker/internal/failure"
)

// A child may read the next job and a command that ends it at once, before that job begins. The command is for that job.
func TestCommandForTheNextJob(t *testing.T) {
	t.Parallel()
	commands, daemon, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &childProcess{commands: bufio.NewReader(commands), next: make(chan *run, 1)}
	last := newRun(t.Context(), Request{ID: "last"})
	last.cancel(nil)
	for _, c := range []command{{Next: &Request{ID: "next"}}, {Cancel: failure.ErrCancelled.Error()}, {End: true}, {End: true}} {
		message, err := c.frame()
		if err == nil {
			_, err = daemon.Write(message)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() { _ = recover() }() // from the second end. Were the pipe closed, it would kill this process and its group
		p.obey(t.Context(), last, false)
	}()
	<-over
	commands.Close()
	daemon.Close()
	job := <-p.next
	if _, more := <-p.next; more || job.ID != "next" {
		t.Fatalf("the child was given job %s and another", job.ID)
	}
	if cause := context.Cause(job.ctx); !errors.Is(cause, failure.ErrCancelled) {
		t.Errorf("the context of the job that was cancelled before it began says %v", cause)
	}
}
