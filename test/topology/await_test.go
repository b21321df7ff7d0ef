package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/sentinel"
)

// clientWaits shows that a Client waits for jobs on every shape, and goes on when its connections break.
func clientWaits(t *testing.T, s shape, d *goworker.Daemon) {
	client, ctx := d.Client(), t.Context()
	write := func(id, state string) {
		eventually(t, "the document is written", func() bool { // several connections of the pool may have been cut
			c, err := d.GetConn()
			if err != nil {
				return false
			}
			defer d.PutConn(c)
			_, err = c.Do("HSET", d.Namespace()+"go:result:"+id, "state", state, "result", 7)
			return err == nil
		})
	}
	type end struct {
		n   int
		err error
	}
	await := func(id string) <-chan end {
		ends := make(chan end, 1)
		go func() {
			n, err := goworker.Await[int](ctx, client, id)
			ends <- end{n, err}
		}()
		return ends
	}
	watch := func(id string) (read chan goworker.JobState) { // a Watch shows that the document was read
		read = make(chan goworker.JobState, 100)
		go func() {
			defer close(read)
			for status, err := range client.Watch(ctx, id) {
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("watching: %v", err)
				}
				read <- status.State
			}
		}()
		return read
	}
	if _, err := client.Wait(ctx, "unknown"); !errors.Is(err, goworker.ErrNoResult) {
		t.Errorf("an unknown job: %v", err)
	}
	for _, cut := range []bool{false, true} {
		write("j", "running")
		ends, seen := await("j"), watch("j")
		<-seen
		if cut && s.cut != nil {
			s.cut(t)
			eventually(t, "the connections are back", func() bool { return ping(d) })
		}
		write("j", "done")
		if e := <-ends; e.n != 7 || e.err != nil {
			t.Errorf("%+v", e)
		}
		for range seen {
		}
	}
}

// ping reports whether a connection of the daemon's works.
func ping(d *goworker.Daemon) bool {
	c, err := d.GetConn()
	if err != nil {
		return false
	}
	defer d.PutConn(c)
	_, err = c.Do("PING")
	return err == nil
}

// A wait goes on over a fail-over, and ends with what the new master says. The caller sees nothing of it.
func TestWaitOverFailover(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*testing.T, *redistest.Fleet, *redistest.Server){"asked to": failover, "killed": kill, "stopped": pause} {
		if testing.Short() && name != "killed" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := redistest.StartSentinel(t)
			settings := at(f.URI())
			settings.Logger = slog.New(slog.DiscardHandler)
			client, err := goworker.NewClient(settings, goworker.WithDialer("redis+sentinel", sentinel.Open))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			old := f.Master(t)
			old.Do(t, "HSET", "resque:go:result:j", "state", "running")
			old.Do(t, "WAIT", 2, 10_000)
			ends := make(chan error, 1)
			go func() {
				status, err := client.Wait(t.Context(), "j")
				if err == nil && status.State != goworker.StateDone {
					err = fmt.Errorf("it ended as %s", status.State)
				}
				ends <- err
			}()
			eventually(t, "the document is read", func() bool {
				return strings.Contains(old.Text(t, "CLIENT", "LIST", "TYPE", "normal"), "cmd=hgetall")
			})
			how(t, f, old)
			whenSwitched(t, f, old)
			f.Switched(t, old).Do(t, "HSET", "resque:go:result:j", "state", "done")
			select {
			case err := <-ends:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Error("the wait did not end")
			}
			old.Resume()
		})
	}
}
