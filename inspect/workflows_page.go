package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// WorkflowPage is a page of workflows.
type WorkflowPage struct {
	Workflows []WorkflowInfo // in no order, with the counts of their first 65,536 steps
	Next      string         // where the next page goes on; "" at the end
}

// Page returns a page of List: at most count workflows. after is "" at first and then the Next of the page before. It walks as List does,
// and where few of them fit it ends after its Budget with fewer, or with none; the next page goes on. The Limit of the filter has no
// meaning here. Over shards it goes from one to the next.
func (w *Workflows) Page(ctx context.Context, f WorkflowFilter, after string, count int, options ...FindOption) (page WorkflowPage, err error) {
	if count < 1 || count > MaxPage {
		return page, fmt.Errorf("goworker: ask for 1 to %d workflows, not for %d", MaxPage, count)
	}
	if err := f.check(); err != nil {
		return page, err
	}
	if err := w.in.usable(); err != nil {
		return page, err
	}
	budget := findOptionsOf(options).budget
	page.Next, err = onShards(w.in, after, func(one *Inspector, after string) (next string, err error) {
		err = one.do(ctx, func(s resque.Store, c redis.Conn) error {
			page.Workflows, next, err = workflowPage(workflows.New(s), c, f, after, count, budget)
			return err
		})
		return next, err
	})
	return page, err
}

func workflowPage(s workflows.Store, c redis.Conn, f WorkflowFilter, after string, count int, budget time.Duration) (found []WorkflowInfo, next string, err error) {
	walks := []func(c redis.Conn, cursor string) (workflows.Listed, error){s.ListIndexed}
	if f.State == "" || f.State == StateDone {
		walks = append(walks, s.ListDone)
	}
	at, err := walkFrom(after, len(walks))
	if err != nil {
		return nil, "", err
	}
	until := clock.System.Now().Add(budget)
	for {
		some, err := walks[at.part](c, at.cursor)
		if err != nil {
			return nil, "", err
		}
		for n := min(at.skip, len(some.Found)); n < len(some.Found); n++ {
			if info := infoOf(some.Found[n]); f.fits(info) {
				if len(found) == count {
					at.skip = n
					return found, at.String(), s.CountLetters(c, ids(found), func(i int, n workflows.Counts) { found[i].Counts = countsOf(n) })
				}
				found = append(found, info)
			}
		}
		at = walkAt{part: at.part, cursor: some.Next}
		if some.Next == "0" {
			if at.part++; at.part == len(walks) {
				break
			}
		}
		if next = at.String(); len(found) == count || budget > 0 && clock.System.Now().After(until) {
			break
		}
		next = ""
	}
	return found, next, s.CountLetters(c, ids(found), func(i int, n workflows.Counts) { found[i].Counts = countsOf(n) })
}

func ids(all []WorkflowInfo) (ids []string) {
	for _, w := range all {
		ids = append(ids, w.ID)
	}
	return ids
}
