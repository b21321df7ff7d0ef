package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

func pushing(t *testing.T, settings goworker.WorkerSettings) *goworker.Daemon {
	t.Helper()
	d := goworker.New(settings)
	t.Cleanup(d.Close)
	return d
}

func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	s := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	d := pushing(t, goworker.WorkerSettings{URI: s.URI(), WaitReplicas: 1})
	job := &goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "J", Args: nil}}
	for range 2 { // with the script's text, then by its hash
		if err := d.Enqueue(job); !errors.Is(err, goworker.ErrTooFewReplicas) ||
			err.Error() != "goworker: 1 job for queue q: pushed, and workers take them, but 0 of the 1 replica wanted have them; "+
				"a fail-over now may lose them, and pushing them again doubles them" {
			t.Errorf("without a replica: %v", err)
		}
	}
	replica := redistest.Start(t, "--replicaof", strings.Replace(s.Addr, ":", " ", 1))
	redistest.Eventually(t, daemontest.Soon, "the replica follows", func() bool { return s.Int(t, "WAIT", 1, 100) == 1 })
	redistest.Eventually(t, daemontest.Soon, "a push has a replica in time", func() bool { return d.Enqueue(job) == nil })
	if n, all := replica.Int(t, "LLEN", "resque:queue:q"), s.Int(t, "LLEN", "resque:queue:q"); n != all {
		t.Errorf("the replica has %d jobs of %d at once", n, all)
	}

	s.Do(t, "ACL", "SETUSER", "default", "-wait")
	if err := d.Enqueue(job); !errors.Is(err, goworker.ErrTooFewReplicas) || !strings.Contains(err.Error(), "is not known: NOPERM") {
		t.Errorf("without permission: %v", err)
	}
	s.Do(t, "DEL", "resque:queue:q")
	s.Do(t, "SET", "resque:queue:q", "text")
	if err := d.Enqueue(job); err == nil || errors.Is(err, goworker.ErrTooFewReplicas) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a push that was refused: %v", err)
	}
	if err := goworker.New(goworker.WorkerSettings{URI: s.URI(), WaitReplicas: -1, QueuesString: "q"}).Init(); err == nil || !strings.Contains(err.Error(), "WaitReplicas is -1") {
		t.Errorf("a negative number: %v", err)
	}
}

// A push is tried again while the server says that another one takes it, and no
// longer than connecting may take.
func TestPushWaitsForAnotherMaster(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := pushing(t, goworker.WorkerSettings{URI: s.URI()})
	job := &goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "J", Args: nil}}
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	done := make(chan error, 1)
	go func() { done <- d.Enqueue(job) }()
	redistest.Eventually(t, daemontest.Soon, "the push is refused", func() bool {
		return strings.Contains(s.Text(t, "INFO", "errorstats"), "errorstat_READONLY")
	})
	s.Do(t, "REPLICAOF", "NO", "ONE")
	if err := <-done; err != nil || s.Int(t, "LLEN", "resque:queue:q") != 1 {
		t.Errorf("%v; %d jobs", err, s.Int(t, "LLEN", "resque:queue:q"))
	}

	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	hasty := pushing(t, goworker.WorkerSettings{URI: s.URI(), ConnectTimeout: 3 * time.Second})
	if err := hasty.Enqueue(job); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("without a master: %v", err)
	}
}
