package delayed

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// Any answer, from whatever server or of keys that another program wrote: no call panics,
// and an error is a sentence.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"",
		"\x07\x05\x01\x01\x01\x00" + "\x07\x01" + redistest.Leaf("q") + "\x07\x00\x01\x01",
		"\x07\x01" + redistest.Leaf("1800000000") + "\x07\x01\x01\x01" + "\x07\x01" + redistest.Leaf("{}") + "\x07\x03\x01\x01\x01\x00\x07\x00",
		"\x07\x02" + redistest.Leaf("0") + "\x07\x02" + redistest.Leaf(`1:q{"id":"x"}`) + redistest.Leaf("1"),
	} {
		f.Add([]byte(seed))
	}
	base := resque.New("")
	s := New(base)
	now := time.Unix(1800000000, 0)
	calls := map[string]func(c redis.Conn) error{
		"own": func(c redis.Conn) error { _, err := (&Pump{Store: s}).Own(c); return err },
		"seconds": func(c redis.Conn) error {
			_, err := (&Pump{Store: s}).Seconds(c, base.MasterLock("p", "", false), now)
			return err
		},
		"hints": func(c redis.Conn) error {
			_, err := (&Pump{Store: s}).Hints(c, base.MasterLock("p", "", false), now)
			return err
		},
		"delayed": func(c redis.Conn) error {
			jobs, err := s.Page(c, now, 1, 3)
			if err == nil {
				_, err = run(s, c, jobs)
			}
			return err
		},
		"like": func(c redis.Conn) error { _, err := s.Like(c, delayedBulk("q", "C")); return err },
		"byid": func(c redis.Conn) error { _, err := s.ByID(c, "x", time.Time{}); return err },
		"walk": func(c redis.Conn) error {
			any := func(Job) bool { return true }
			own, err := s.WalkOwn(c, nil, 2, nil, any)
			plain, err2 := s.WalkPlain(c, nil, 2, nil, any)
			if len(own.Found) > 2 || len(plain.Found) > 2 {
				return errors.New("")
			}
			return errors.Join(err, err2)
		},
		"swap": func(c redis.Conn) error {
			_, _, err := s.Swap(c, Job{Queue: "q", second: "5"}, "r", []byte(`{"class":"C","args":[]}`), payload.Plain)
			return err
		},
		"count": func(c redis.Conn) error { _, _, err := s.Count(c); return err },
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, call := range calls {
			err := call(redistest.Answering(redistest.Trees(text)...))
			if err != nil && err.Error() == "" && !errors.As(err, new(redis.Error)) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
