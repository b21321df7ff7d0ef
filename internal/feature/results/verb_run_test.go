package results

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// Ends of three jobs in one exchange write what each would in one of its own. Those of first runs are written after a look at
// all of the documents; after a look at one that is not as a push left it, each is written alone.
func TestVerbOfManyJobs(t *testing.T) {
	t.Parallel()
	pushed := []any{"state", "pending", "class", "C", "queue", "q", "enqueued", 1, "ttl", 60_000}
	done := func(i int) resque.EndOfDocument {
		return resque.EndOfDocument{State: "done", Over: true, Note: resque.Note{
			Ticket: int64(i + 1), TTL: 60_000_000, Begun: []any{"attempt", 1, "worker", fmt.Sprint("w", i), "result", fmt.Append(nil, i), "ended", 5},
		}}
	}
	for name, tt := range map[string]struct {
		names  []string         // of the documents of the jobs
		before map[string][]any // what is another one than pushed; nil: it is not there
		end    func(i int) resque.EndOfDocument
		looks  int // HLEN
	}{
		"first runs":           {names: []string{"a", "b", "c"}, looks: 3},
		"one is gone":          {names: []string{"a", "b", "c"}, before: map[string][]any{"b": nil}, looks: 3},
		"two of one document":  {names: []string{"a", "b", "a"}, looks: 2 + 3},
		"one was delayed":      {names: []string{"a", "b", "c"}, before: map[string][]any{"b": append(pushed[:10:10], "due", 5)}, looks: 2 + 3},
		"one has run":          {names: []string{"a", "b", "c"}, before: map[string][]any{"c": {"state", "retrying", "due", 5, "result", "old"}}, looks: 3 + 3},
		"one is another's key": {names: []string{"a", "b", "c"}, before: map[string][]any{"a": {"SET"}}, looks: 1 + 3},
		"with progress": {names: []string{"a", "b", "c"}, looks: 3, end: func(i int) resque.EndOfDocument {
			e := done(i)
			e.Progress = []byte("half")
			return e
		}},
		"failed": {names: []string{"a", "b", "c"}, looks: 3, end: func(i int) resque.EndOfDocument {
			e := done(i)
			e.State, e.Try = "failed", fmt.Sprintf(`{"attempt":%d}`, i)
			return e
		}},
		"two have a time each": {names: []string{"a", "b", "c"}, looks: 3, end: func(i int) resque.EndOfDocument {
			e := done(i)
			e.TTL *= int64(i + 1)
			return e
		}},
		"go on": {names: []string{"a", "b", "c"}, looks: 3, end: func(i int) resque.EndOfDocument {
			e := done(i)
			e.State, e.Over = "retrying", false
			return e
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.end == nil {
				tt.end = done
			}
			write := func(together bool) (documents []redistest.Key, refused []string, looks bool) {
				w := newWire(t)
				for _, doc := range tt.names {
					fields, other := tt.before[doc]
					switch key := "resque:go:result:" + doc; {
					case !other:
						w.server.Do(t, "HSET", append([]any{key}, pushed...)...)
					case len(fields) == 1:
						w.server.Do(t, "SET", key, "x")
					case fields != nil:
						w.server.Do(t, "HSET", append([]any{key}, fields...)...)
					}
				}
				w.server.Do(t, "CONFIG", "RESETSTAT")
				var ended []resque.Ended
				for i, doc := range tt.names {
					e := tt.end(i)
					e.Process = w.process.ID
					effect := resultVerb.Effect(w.store.DocumentKeys(doc, false), e.Args()...).Soft()
					ended = append(ended, resque.Ended{Ticket: w.jobs[i].Ticket, Counts: resque.CountsDone, Effects: []resque.Effect{effect}})
				}
				var outs []resque.Exchanged
				if together {
					outs = append(outs, w.exchange(resque.Exchange{Ended: ended}))
				} else {
					for i := range ended {
						outs = append(outs, w.exchange(resque.Exchange{Ended: ended[i : i+1]}))
					}
				}
				looks = strings.Contains(w.server.Text(t, "INFO", "commandstats"), fmt.Sprintf("cmdstat_hlen:calls=%d,", tt.looks))
				for _, out := range outs {
					for _, r := range out.Refused {
						refused = append(refused, fmt.Sprint(r.Ticket, r.KeyError))
					}
				}
				refused = append(refused, w.server.List(t, "HVALS", "resque:go:inflight:"+w.process.ID)...)
				documents = append(w.server.Snapshot(t, "resque:go:result:"), w.server.Snapshot(t, "resque:go:progress:")...)
				for i := range documents {
					documents[i].TTL = (documents[i].TTL + 999) / 1000 // they are read a while later
				}
				return documents, refused, looks
			}
			want, wantRefused, _ := write(false)
			got, refused, looks := write(true)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("together they write (-each alone +together):\n%s", diff)
			}
			if diff := cmp.Diff(wantRefused, refused); diff != "" {
				t.Errorf("refused, and left in the record (-each alone +together):\n%s", diff)
			}
			if !looks {
				t.Errorf("there were not %d looks at documents", tt.looks)
			}
		})
	}
}
