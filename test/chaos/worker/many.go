package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"time"

	"github.com/goworker/goworker"
)

// Options of the aggregated classes; chaos has the same numbers.
const (
	gatherMost = 20
	gatherWait = 400 * time.Millisecond
	quiet      = 150 * time.Millisecond
)

// registerMany registers classes whose jobs become one job:
//
//	Gather   those of one ms; it takes this time
//	Collect  all of a queue, once none has come for a while. One group in four fails at first
func (l ledger) registerMany() {
	again := goworker.Retry(retries, goworker.Delays{0, 100 * time.Millisecond, 700 * time.Millisecond})
	goworker.Register("Gather", func(ctx context.Context, ms int, ids []string) error {
		return l.list(ctx, ms, 0, ids)
	}, again, goworker.Aggregate(goworker.KeyArgs(1), goworker.MaxCount(gatherMost), goworker.MaxWait(gatherWait)))
	goworker.Register("Collect", func(ctx context.Context, pairs [][]any) error {
		ids := make([]string, len(pairs))
		for i, pair := range pairs {
			ids[i], _ = pair[0].(string)
		}
		sum := fnv.New32()
		_, _ = sum.Write([]byte(goworker.FromContext(ctx).ID))
		return l.list(ctx, 5, int(sum.Sum32()%8)/6, ids)
	}, again, goworker.Aggregate(goworker.MaxCount(gatherMost), goworker.MaxWait(gatherWait), goworker.Quiet(quiet)))
}

// list notes a run of a group, and of each of its items, with one write.
func (l ledger) list(ctx context.Context, ms, fails int, ids []string) error {
	d := goworker.FromContext(ctx)
	note := func(event byte, more string) {
		var text []byte
		now := time.Now().UnixNano()
		if event == 's' {
			text = fmt.Appendf(text, "l\t%s\t%d\t%d,%d\t%s\n", d.ID, now, d.Attempt, os.Getpid(), strings.Join(ids, ","))
		}
		for _, id := range ids {
			text = fmt.Appendf(text, "%c\t%s\t%d%s\n", event, id, now, more)
		}
		l.append(text)
	}
	note('s', fmt.Sprintf("\t%d,%d", d.Attempt, os.Getpid()))
	time.Sleep(time.Duration(ms) * time.Millisecond)
	if d.Attempt <= fails {
		note('f', "")
		return errAsked
	}
	note('e', "")
	return nil
}
