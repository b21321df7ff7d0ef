package crash

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Two payloads of 40 MB pushed by hand, one of them a job and one of bytes that
// would be six times as many in JSON: they become failures, the jobs beside them
// run, and the process needs little more memory than for having read one of them.
func TestLargePayloadsTakeLittleMemory(t *testing.T) {
	f := newFleet(t)
	const size = 40 << 20
	p := f.start("-concurrency=10", "-max-payload=1000000")
	f.push(nap("first", 0))
	f.eventually(soon, "it works", func() bool { return len(f.events("end")) == 1 })
	before := peak(t, p.pid)
	for n, fill := range []string{"x", "\x00"} {
		raw := bytes.Join([][]byte{[]byte(`{"class":"Nap","args":["`), bytes.Repeat([]byte(fill), size), []byte(`",0]}`)}, nil)
		f.redis.Do(t, "RPUSH", "resque:queue:work", raw)
		for i := range 20 {
			f.push(nap(fmt.Sprintf("beside%d.%d", n, i), 0))
		}
	}
	f.eventually(2*recovery, "all are dealt with", func() bool {
		return len(f.events("end")) == 41 && f.redis.Int(t, "LLEN", "resque:failed") == 2
	})
	after := peak(t, p.pid)
	t.Logf("peak RSS %d MB before and %d MB after two payloads of %d MB", before>>20, after>>20, size>>20)
	// Without the race detector it is two to three times; its shadow costs as much again.
	if after > before+10*size {
		t.Error("that is more than ten times one of them")
	}
}

// peak is the most memory a process has had, in bytes.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("there is no /proc here: ", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
