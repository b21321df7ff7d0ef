package inspect

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// ResultsPage is a part of the jobs of which something is known.
type ResultsPage struct {
	Jobs []Status // the newest of their stretch first, by when they ended, or else began, or else were enqueued
	Next string   // where the next page begins; "" only if there are no more

	// Read is how many jobs that fit the stretch has of which this is a page, and Whole whether these are all that there are.
	Read  int
	Whole bool
}

// The bounds of a stretch of ResultsPage, and of a page.
const (
	stretchJobs  = 500
	stretchSteps = 100
	stretchTime  = 150 * time.Millisecond
	pageBytes    = 1 << 20
	readTogether = 50
)

// ResultsPage returns a page of the jobs of which something is known: the newest ones of a stretch of Redis's keys, and then the newest
// ones of the next stretch. Workflows are not among them. after is "" for the first page, and then the Next of the page before, with the
// same filter; count is 1 to 500. The filter's Limit does not count.
//
// A stretch has about 500 jobs that fit, or what 150 ms find, which Budget changes. So jobs are in order of time only while few are kept. A
// page of results with more than 1 MiB is short. A job that is made or removed meanwhile may be missing, or come twice.
func (i *Inspector) ResultsPage(ctx context.Context, f ResultFilter, after string, count int, options ...FindOption) (ResultsPage, error) {
	if err := i.usable(); err != nil {
		return ResultsPage{}, err
	}
	if count < 1 || count > MaxPage {
		return ResultsPage{}, fmt.Errorf("goworker: a page has 1 to %d jobs, not %d", MaxPage, count)
	}
	cur, err := parseStretch(after, f)
	if err != nil {
		return ResultsPage{}, err
	}
	o := findOptionsOf(options)
	budget := cmp.Or(o.budget, stretchTime)
	if !i.several() {
		return i.resultsPage(ctx, f, cur, count, budget)
	}
	at := 0
	if cur.Shard != "" {
		if at, err = i.marked(cur.Shard); err != nil {
			return ResultsPage{}, err
		}
	}
	one := i.shards[at]
	cur.Shard = one.mark()
	page, err := one.resultsPage(ctx, f, cur, count, budget)
	if page.Next == "" && at+1 < len(i.shards) { // a shard that is away hides no other
		page.Next, page.Whole = stretch{Question: cur.Question, Shard: i.shards[at+1].mark()}.String(), false
	}
	return page, one.about(err)
}

// stretch is where a page goes on: in a stretch of keys, behind a job, or with the next stretch.
type stretch struct {
	Question string `json:"q"`
	Shard    string `json:"s,omitempty"`
	From     string `json:"f,omitempty"` // the cursor of SCAN with which the stretch begins; "": that of the first
	To       string `json:"t,omitempty"` // the one behind it; "": the stretch was not read yet
	At       int64  `json:"a,omitempty"` // of the last job of the page before, in ms
	ID       string `json:"i,omitempty"`
}

func (s stretch) String() string {
	text, _ := json.Marshal(s)
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseStretch(text string, f ResultFilter) (stretch, error) {
	asked, _ := json.Marshal([]string{string(f.State), f.Class, f.Queue})
	s := stretch{Question: refOf("results", asked)[:8]}
	if text == "" {
		return s, nil
	}
	question := s.Question
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		s = stretch{}
		err = json.Unmarshal(raw, &s)
	}
	for _, cursor := range []string{s.From, s.To} {
		if _, wrong := strconv.ParseUint(cmp.Or(cursor, "0"), 10, 64); wrong != nil && err == nil {
			err = wrong
		}
	}
	if err != nil || s.Question != question {
		return s, fmt.Errorf("goworker: %q is not where a walk through these results goes on: %w", text, ErrCursor)
	}
	return s, nil
}

// newer sorts heads, and a place among them, with the newest first.
func newer(a, b resque.DocumentHead) int {
	return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID))
}

// resultsPage returns a page of one Redis.
func (i *Inspector) resultsPage(ctx context.Context, f ResultFilter, cur stretch, count int, budget time.Duration) (page ResultsPage, err error) {
	err = i.do(ctx, func(s resque.Store, c redis.Conn) error {
		heads, to, err := readStretch(s, c, f, cur, budget)
		if err != nil {
			return err
		}
		page.Read, page.Whole = len(heads), cur.From == "" && to == "0"
		if cur.ID != "" {
			last := resque.DocumentHead{ID: cur.ID, At: time.UnixMilli(cur.At)}
			heads = slices.DeleteFunc(heads, func(h resque.DocumentHead) bool { return newer(last, h) >= 0 })
		}
		done := 0
		for bytes := 0; done < len(heads) && len(page.Jobs) < count && bytes < pageBytes; {
			some := heads[done:min(len(heads), done+min(readTogether, count-len(page.Jobs)))]
			ids := make([]string, len(some))
			for n, h := range some {
				ids[n] = h.ID
			}
			if err := s.ReadFound(c, ids, func(_ int, r resque.DocumentRead) {
				if r.There && r.Err == nil {
					page.Jobs = append(page.Jobs, StatusOf(r.Document))
					bytes += len(r.Result) + len(r.Error)
				}
			}); err != nil {
				return err
			}
			done += len(some)
		}
		switch {
		case done < len(heads):
			last := heads[done-1]
			page.Next = stretch{Question: cur.Question, Shard: cur.Shard, From: cur.From, To: to, At: last.At.UnixMilli(), ID: last.ID}.String()
		case to != "0":
			page.Next = stretch{Question: cur.Question, Shard: cur.Shard, From: to}.String()
		}
		return nil
	})
	return page, prefix.Of(err)
}

// readStretch reads the heads of a stretch, sorted, and returns the cursor behind it.
func readStretch(s resque.Store, c redis.Conn, f ResultFilter, cur stretch, budget time.Duration) (heads []resque.DocumentHead, to string, err error) {
	want := resque.DocumentFilter{State: string(f.State), Class: f.Class, Queue: f.Queue}
	until := clock.System.Now().Add(budget)
	to = cmp.Or(cur.From, "0")
	for range stretchSteps {
		var some []resque.DocumentHead
		if some, to, err = s.ScanHeads(c, to, stretchJobs, want); err != nil {
			return nil, "", err
		}
		for _, h := range some {
			if f.Fits == nil || f.Fits(Status{ID: h.ID, State: State(h.State), Class: h.Class, Queue: h.Queue}) {
				heads = append(heads, h)
			}
		}
		full := len(heads) >= stretchJobs || clock.System.Now().After(until)
		if to == "0" || cur.To != "" && reached(to, cur.To) || full && cur.To == "" {
			break
		}
	}
	to = cmp.Or(cur.To, to) // what a second look found behind the stretch comes again with the next one
	slices.SortFunc(heads, newer)
	return slices.CompactFunc(heads, func(a, b resque.DocumentHead) bool { return a.ID == b.ID }), to, nil
}

// reached reports whether a walk by SCAN is at a cursor or behind it. Cursors grow by their bits in reverse order, also while Redis
// moves its keys into a table of another size. Such a walk may pass a cursor without returning it.
func reached(at, cursor string) bool {
	reverse := func(cursor string) uint64 {
		n, _ := strconv.ParseUint(cursor, 10, 64)
		return bits.Reverse64(n)
	}
	return cursor != "0" && reverse(at) >= reverse(cursor)
}
