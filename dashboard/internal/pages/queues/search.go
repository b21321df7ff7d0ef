package queues

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// What a page may spend on a search.
const (
	budget    = 150 * time.Millisecond
	mostRead  = 3000
	wholly    = 5 * time.Second // of one that looks at all jobs
	mostTaken = 1 << 20
	wholeFor  = 20 * time.Second // how long readers share the answer of such a search
)

type found struct {
	jobs     []inspect.Entry
	next     string
	searched *Searched
}

// narrowed are the jobs of a tab that fit a filter.
func narrowed(queue string, places []inspect.Place, filter inspect.Query) (inspect.Query, error) {
	q := inspect.Query{Queue: queue, Places: places, Where: filter.Where}
	if filter.Places == nil {
		return q, nil
	}
	q.Places = slices.DeleteFunc(slices.Clone(places), func(p inspect.Place) bool { return !slices.Contains(filter.Places, p) })
	if len(q.Places) == 0 {
		return q, site.Bad("the filter's state: means no job of this tab; choose another tab, or leave state: out")
	}
	return q, nil
}

// seek finds the jobs of a page. Where they are sought among others it goes on to count those that fit, as long as the page's budget lasts.
func seek(ctx context.Context, a *site.Ask, q inspect.Query, after string, all, counted bool) (found, error) {
	if !all {
		return sought(ctx, a, q, after, budget, mostRead, counted)
	}
	key := "search " + q.Queue + " " + strings.Join(texts(q.Places), ",") + " " + q.String() + " " + after
	return site.Keep(ctx, a.Fleet, key, wholeFor, func(ctx context.Context) (found, error) {
		f, err := sought(ctx, a, q, after, wholly, mostTaken, counted)
		if f.searched != nil {
			f.searched.Whole = true
		}
		return f, err
	})
}

func texts(places []inspect.Place) (all []string) {
	for _, p := range places {
		all = append(all, string(p))
	}
	return all
}

func sought(ctx context.Context, a *site.Ask, q inspect.Query, after string, within time.Duration, most int, counted bool) (f found, err error) {
	began, looked := time.Now(), 0
	s := Searched{More: true}
	step := func(count int) (jobs []inspect.Entry, err error) {
		page, err := a.In().Find(ctx, q, after, count, inspect.Budget(max(1, within-time.Since(began))))
		if err != nil {
			return nil, err
		}
		looked += page.Looked
		s.Looked, s.Unsure, s.More, after = page.Seen, s.Unsure+int64(page.Unsure), page.Next != "", page.Next
		s.Fit += int64(len(page.Jobs))
		return page.Jobs, nil
	}
	goesOn := func() bool { return s.More && looked < most && time.Since(began) < within }
	first := after == ""
	for {
		jobs, err := step(rows - len(f.jobs))
		if err != nil {
			return f, err
		}
		if f.jobs = append(f.jobs, jobs...); len(f.jobs) >= rows || !goesOn() {
			break
		}
	}
	f.next = after
	for counted && first && goesOn() {
		if _, err := step(inspect.MaxPage); err != nil {
			return f, err
		}
	}
	if counted && first {
		f.searched = &s
	}
	return f, nil
}

// near is how far from the place of a page its jobs are looked for first: workers have taken some of those before them.
const near = 500

// byKeys finds jobs that a form names, as they stand in the places: each by its ref, and near the place that it had. Jobs that are equal have
// one ref, and any of them may be meant.
func byKeys(a *site.Ask, queue string, places []inspect.Place) func(ctx context.Context, keys []string) ([]inspect.Entry, error) {
	return func(ctx context.Context, keys []string) (jobs []inspect.Entry, err error) {
		want := make(map[string]int)
		low, high := -1, -1
		for _, key := range keys {
			ref, place, hinted := strings.Cut(key, ".")
			want[ref]++
			if at, err := strconv.Atoi(place); hinted && err == nil && at > 0 {
				high = max(high, at)
				if low < 0 || at < low {
					low = at
				}
			}
		}
		left := len(keys)
		take := func(e inspect.Entry) bool {
			if want[e.Ref] > 0 && e.Queue == queue {
				want[e.Ref]--
				left--
				jobs = append(jobs, e)
			}
			return left > 0
		}
		if low > 0 && high-low < inspect.MaxPeek && slices.Contains(places, inspect.Queued) && len(a.Base.Servers) == 1 {
			skip := max(0, low-1-near)
			window, _, err := a.In().Peek(ctx, queue, skip, min(inspect.MaxPeek, high-skip+near/2), false)
			if err != nil {
				return nil, err
			}
			for _, e := range window {
				if !take(e) {
					return jobs, nil
				}
			}
			// The rest of the queue has these jobs too: begin again, and count each once.
			if left > 0 {
				for _, e := range jobs {
					want[e.Ref]++
				}
				jobs, left = nil, len(keys)
			}
		}
		for e, err := range a.In().All(ctx, inspect.Query{Queue: queue, Places: places}, inspect.Budget(wholly)) {
			var unfinished *inspect.UnfinishedError
			if errors.As(err, &unfinished) {
				return nil, site.Bad("not all of these jobs were found within %s, so nothing was changed; narrow the jobs by a filter, and change all that fit", look.Dur(wholly))
			}
			if err != nil {
				return nil, err
			}
			if !take(e) {
				break
			}
		}
		return jobs, nil
	}
}
