package resque

import (
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// Another program may have written the record of a dead process: it must
// not make its reader allocate, or panic.
func TestProcessRecordClaimsManyWorkers(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for _, claim := range []string{"-1", "9223372036854775807", "1000000000", "x"} {
		w.server.Do(t, "HSET", "resque:go:process:p", "concurrency", claim, "id_head", "h.go:1-", "id_queues", "q")
		p, err := w.s.ReadProcess(w.c, "p")
		if err != nil {
			t.Fatal(err)
		}
		if n := len(p.WorkerIDs()); n > mostWorkers {
			t.Errorf("concurrency %s stands for %d workers", claim, n)
		}
	}
}

// A script's answer that another version, or another server, cuts short.
func TestShortAnswers(t *testing.T) {
	t.Parallel()
	s := New("")
	for _, answer := range []any{[]any{}, []any{[]byte("ok")}, []any{[]byte("ok"), []byte("1"), []byte("2"), []byte("3")}} {
		if _, err := s.Renew(redistest.Answering(answer), "p", time.Second, time.Second, nil); err == nil || !strings.Contains(err.Error(), "unexpected answer") {
			t.Errorf("renewing, answered %v: %v", answer, err)
		}
	}
}
