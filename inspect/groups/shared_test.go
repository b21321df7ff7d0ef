package groups_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
	"github.com/goworker/goworker/internal/redistest"
)

// What most failures of a group have, and other jobs of their class have not, is named with both shares; what is masked is not.
func TestShared(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for n := range 300 {
		account := any(json.Number("9007199254740993"))
		if n%10 == 0 {
			account = n
		}
		push(t, server, "failed", failed("Mail", "E", "gone", "mail", time.Minute, map[string]any{"account": account, "secret": "s3cret", "locale": "de"}, n))
	}
	x := groups.New(inspect.New(lend(t, server, "a")), options())
	refreshed(t, x)
	gid := x.Groups(groups.Filter{})[0].ID
	mask := func(class string, payload json.RawMessage) json.RawMessage {
		if class != "Mail" {
			return nil
		}
		return json.RawMessage(strings.ReplaceAll(string(payload), "s3cret", "hidden"))
	}
	got, err := x.Shared(t.Context(), gid, groups.Filter{}, mask)
	if err != nil {
		t.Fatal(err)
	}
	if got.Sampled != 200 || got.Compared != 0 || len(got.Rows) != 5 || got.Rows[0].Known {
		t.Errorf("without others: %+v", got)
	}
	for n := range 40 {
		server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"Mail","args":[{"account":`+string(rune('1'+n%4))+`,"locale":"de","secret":"hidden"},`+`7]}`)
	}
	server.Do(t, "SADD", "resque:queues", "mail")
	push(t, server, "failed", failed("Mail", "Other", "else", "low", time.Minute, map[string]any{"account": 7}), failed("A", "Other", "else", "low", time.Minute, 1))
	refreshed(t, x)
	// A call looks for others for a second. On a busy machine that may be over before it comes to the queue.
	redistest.Eventually(t, time.Minute, "all others are compared", func() bool {
		if got, err = x.Shared(t.Context(), gid, groups.Filter{}, mask); err != nil {
			t.Fatal(err)
		}
		return got.Compared == 41
	})
	want := groups.Shared{Sampled: 200, Compared: 41, Rows: []groups.ShareRow{
		{What: "arg.0.account", Value: "9007199254740993", Among: 0.9, Known: true},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, err := x.Shared(t.Context(), "0123456789ab", groups.Filter{}, nil); err != nil || got.Sampled != 0 {
		t.Errorf("an unknown group: %+v, %v", got, err)
	}
}
