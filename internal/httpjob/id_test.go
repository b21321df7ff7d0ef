package httpjob_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/goworker/goworker/internal/httpjob"
)

func TestID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		ms := rapid.Int64Range(0, 1<<48-1).Draw(rt, "ms")
		delay := rapid.Uint32().Draw(rt, "delay")
		id := httpjob.NewID(ms, delay)
		if len(id) != 26 || strings.Trim(id, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
			rt.Fatalf("%s is no ULID", id)
		}
		for _, id := range []string{id, "1" + id} {
			if at, late, ok := httpjob.ParseID(id); at != ms || late != delay || !ok {
				rt.Fatalf("%s says %d, %d, %v; want %d, %d", id, at, late, ok, ms, delay)
			}
			if due, ok := httpjob.FirstDue(id); due != ms+int64(delay)*1000 || !ok {
				rt.Fatalf("%s was due at %d", id, due)
			}
		}
		if later := httpjob.NewID(ms+1, delay); ms+1 < 1<<48 && later <= id {
			rt.Fatalf("%s, which is later, is not above %s", later, id)
		}
	})
}

// The bytes are as in an id that lmstfy made: the time, and the delay with its lowest byte first.
func TestIDAsText(t *testing.T) {
	t.Parallel()
	ms, delay, ok := httpjob.ParseID("01M80NTA9RZYBB7STPTR000000")
	if !ok || ms != 1795319212344 || delay != 0 {
		t.Error(ms, delay, ok)
	}
	if id := httpjob.NewID(1795319212344, 5); !strings.HasPrefix(id, "01M80NTA9R") || !strings.HasSuffix(id, "2G0000") {
		t.Error(id)
	}
	for _, id := range []string{"", "7", "81M80NTA9RZYBB7STPTR00000", "81M80NTA9RZYBB7STPTR000000", "01m80nta9rzybb7stptr000000", "01M80NTA9RZYBB7STPTR00000U", "201M80NTA9RZYBB7STPTR000000", "01M80NTA9RZYBB7STPTR0000000"} {
		if _, _, ok := httpjob.ParseID(id); ok {
			t.Errorf("%q is taken for an id of a server", id)
		}
	}
}

func TestElapsedAndTTL(t *testing.T) {
	t.Parallel()
	id := httpjob.NewID(1000, 60)
	for now, want := range map[int64]int64{1000: 0, 1001: 1, 999: 0, 61000: 60000} {
		if got := httpjob.Elapsed(id, now); got != want {
			t.Errorf("at %d: %d ms, want %d", now, got, want)
		}
	}
	if got := httpjob.Elapsed("mail-7", 5000); got != 0 {
		t.Errorf("an id without a time: %d ms", got)
	}
	for expires, want := range map[int64]int64{0: 0, 10499: 0, 10500: 1, 11499: 1, 11500: 2, 9000: 0} {
		if got := httpjob.TTL(expires, 10000); got != want {
			t.Errorf("a job that expires at %d: %d s, want %d", expires, got, want)
		}
	}
}

func TestCheckID(t *testing.T) {
	t.Parallel()
	for id, ok := range map[string]bool{
		"mail-7_a.b:C": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "": false, "a b": false, "é": false, `"`: false, "a\n": false,
	} {
		if err := httpjob.CheckID(id); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
}
