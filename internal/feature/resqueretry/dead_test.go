package resqueretry

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// noClasses has no class.
type noClasses struct{}

func (noClasses) Class(string) *outcome.Class { return nil }

func (noClasses) Unknown(class string) error { return fmt.Errorf("unknown class %s", class) }

func (noClasses) Misfit(class string, e *args.Error) error {
	return fmt.Errorf("misfit %s: %v", class, e)
}

func list(args ...string) (all []json.RawMessage) {
	for _, a := range args {
		all = append(all, json.RawMessage(a))
	}
	return all
}

// A job of a dead process that is filed as failed drops the keys that a worker counted it under, in
// both spellings; an ActiveJob those of its own class and arguments too.
func TestDeadDropsKeys(t *testing.T) {
	t.Parallel()
	f := New(outcome.Deps{Base: part.Base{Store: resque.New(""), Clock: clock.System}})
	for _, tt := range []struct {
		name, raw string
		keys      int
		counted   []resque.RetryKey
	}{
		{"plain", `{"class":"C","args":["a"]}`, 1, []resque.RetryKey{resque.NewRetryKey("C", list(`"a"`), false)}},
		{"with a hash", `{"class":"C","args":[{"a":1}]}`, 2, []resque.RetryKey{resque.NewRetryKey("C", list(`{"a":1}`), false), resque.NewRetryKey("C", list(`{"a":1}`), true)}},
		{"ActiveJob", `{"class":"` + args.ActiveJobWrapper + `","args":[{"job_class":"C","job_id":"j","arguments":["a"]}]}`, 3, []resque.RetryKey{resque.NewRetryKey("C", list(`"a"`), false)}},
		{"odd ActiveJob", `{"class":"` + args.ActiveJobWrapper + `","args":[]}`, 1, []resque.RetryKey{resque.NewRetryKey(args.ActiveJobWrapper, nil, false)}},
	} {
		for _, state := range []outcome.State{outcome.Failed, outcome.Returned} {
			j := &outcome.Job{Reserved: resque.Reserved{Payload: []byte(tt.raw)}, Dead: true}
			outcome.Read(j, noClasses{}, 1000)
			o := outcome.Outcome{State: state}
			f.Open(j).Settle(j, &o)
			want := 2 * tt.keys // a count and a record each
			if state == outcome.Returned {
				want = 0
			}
			if len(o.Effects) != want {
				t.Errorf("%s, %v: the effects are %v, want %d", tt.name, state, o.Effects, want)
			}
			for _, key := range tt.counted {
				if text := fmt.Sprint(o.Effects); want > 0 && !(strings.Contains(text, "resque:"+string(key)) && strings.Contains(text, "failure-"+string(key))) {
					t.Errorf("%s: %s is not among the effects %s", tt.name, key, text)
				}
			}
		}
	}
}
