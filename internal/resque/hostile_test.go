package resque

import (
	"strings"
	"testing"
	"time"
)

// What stands in the record of a dead process is somebody else's writing: it must
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
		if _, err := s.Renew(&told{[]any{answer}}, "p", time.Second, time.Second); err == nil || !strings.Contains(err.Error(), "unexpected answer") {
			t.Errorf("renewing, answered %v: %v", answer, err)
		}
	}
}

// A failure record is never much longer than the payload, and never longer than
// Redis takes.
func TestRecordsDoNotGrow(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*MaxInvalid)
	for _, test := range []struct {
		name, payload string
		recordable    bool
		most          int // bytes of the record's payload
	}{
		{"a job", `{"class":"C","args":["` + long + `"]}`, true, len(long) + 100},
		{"junk", long, false, 7 * excerptSize},
		{"control characters", strings.Repeat("\x00", MaxInvalid+1), false, 7 * excerptSize},
		{"no UTF-8", strings.Repeat("\xff", MaxInvalid+1), false, 7 * excerptSize},
		{"short junk", strings.Repeat("\x00", MaxInvalid), true, 6*MaxInvalid + 100},
		{"two-byte characters", "x" + strings.Repeat("é", MaxInvalid), false, 7 * excerptSize},
	} {
		raw := []byte(test.payload)
		if got := recordable(raw); got != test.recordable {
			t.Errorf("%s is recordable: %v", test.name, got)
		}
		if n := len(safePayload(raw)); n > test.most {
			t.Errorf("%s of %d bytes has %d in a record", test.name, len(raw), n)
		}
		if p, err := ParsePayload(Excerpt(raw)); err != nil || p.Class != "InvalidPayload" {
			t.Errorf("the excerpt of %s: %+v, %v", test.name, p, err)
		}
	}
}
