package failures

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
)

const (
	exportPage = 200
	mostLines  = 100_000 // of one answer
)

// Line is a failure in an export.
type Line struct {
	ID     string          `json:"id"`
	Group  string          `json:"group"`
	Shard  string          `json:"shard,omitempty"`
	Record json.RawMessage `json:"record"` // as it is in Redis, masked; of what is no record a text
}

// export writes the failures that fit as lines of JSON, the newest first. If there are more than an answer may have, the last line
// is {"next": …}, which goes on where this ends as ?after=. ?limit= makes an answer shorter.
func export(ctx context.Context, a *site.Ask, w http.ResponseWriter) error {
	asked := asks(a)
	if asked.Fault != nil {
		return site.Bad("search, at character %d: %s", asked.Fault.At, asked.Fault.What)
	}
	most := mostLines
	if text := a.Param("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostLines {
			return site.Bad("limit %q is no number of lines; give 1 to %d", text, mostLines)
		}
		most = n
	}
	head := w.Header()
	lines, after, begun := 0, a.Param("after"), false
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	flush := http.NewResponseController(w)
	for {
		page, err := a.In().Find(ctx, asked.query, after, min(exportPage, most-lines))
		if err != nil {
			return err
		}
		if !begun {
			head.Set("Content-Type", "application/x-ndjson")
			head.Set("Content-Disposition", `attachment; filename="failures-`+a.Now().In(a.Loc).Format("2006-01-02-150405")+`.jsonl"`)
			w.WriteHeader(http.StatusOK)
			begun = true
		}
		for _, e := range page.Jobs {
			if !a.Sees(e.Queue) {
				continue
			}
			if err := encoder.Encode(lineOf(a, e)); err != nil {
				return err
			}
			lines++
		}
		if after = page.Next; after == "" {
			return nil
		}
		if lines >= most {
			return encoder.Encode(site.Paged{Next: after})
		}
		_ = flush.SetWriteDeadline(time.Now().Add(time.Minute)) // of a server that has one
		_ = flush.Flush()                                       // else the server does it
	}
}

func lineOf(a *site.Ask, e inspect.Entry) Line {
	gid, _ := groups.Fingerprint(*e.Failure)
	line := Line{ID: e.Failure.ID, Group: gid, Shard: e.Shard}
	if masked := a.Masks.Record(e.Failure.Raw); e.Failure.Invalid == nil && json.Valid(masked) {
		line.Record = masked
	} else {
		line.Record, _ = json.Marshal(string(masked)) // a text always has a JSON
	}
	return line
}
