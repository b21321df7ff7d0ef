package failures

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// Any answer, from whatever server or of keys that another program wrote: no call panics,
// and an error is a sentence.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"",
		"\x01\x02" + "\x07\x02" + redistest.Leaf("a") + redistest.Leaf(`{"failed_at":"x"}`),
		"\x07\x01" + redistest.Leaf("a_failed") + "\x01\x01" + "\x07\x01" + redistest.Leaf("{}"),
	} {
		f.Add([]byte(seed))
	}
	s := New(resque.New(""))
	now := time.Unix(1800000000, 0)
	calls := map[string]func(c redis.Conn) error{
		"lists":    func(c redis.Conn) error { _, err := s.Lists(c); return err },
		"failures": func(c redis.Conn) error { _, err := s.Page(c, []string{"failed", "a_failed"}, -3, 5); return err },
		"retry":    func(c redis.Conn) error { _, err := s.RetryAll(c, "failed", Filter{}, now, false); return err },
		"clear":    func(c redis.Conn) error { _, err := s.RemoveAll(c, "failed", Filter{}); return err },
		"search": func(c redis.Conn) error {
			_, _, err := s.Search(c, []string{"a_failed"}, Filter{Text: "a"}, "", 5)
			return err
		},
		"group": func(c redis.Conn) error {
			_, err := s.Groups(c, []string{"failed"}, Filter{})
			return err
		},
		"by id": func(c redis.Conn) error {
			_, err := s.RemoveByID(c, []string{"failed"}, []string{ID([]byte("a"))})
			return err
		},
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
