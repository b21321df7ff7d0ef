package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"time"

	"github.com/goworker/goworker"
)

// registerCount registers the class Count: it counts to n by a cursor, one number each few ms. Half way it does something once.
// One job in three fails at its first third, and each is snoozed at its second, unless it goes on from there.
func (l ledger) registerCount() {
	goworker.Register("Count", func(ctx context.Context, id string, ms, n int) error {
		attempt := goworker.FromContext(ctx).Attempt
		l.begin(id, attempt)
		at := goworker.Cursor[int](ctx)
		from, _, err := at.Get()
		if err != nil {
			return l.ends(id, err)
		}
		l.write('q', id, fmt.Sprintf("\t%d", from))
		sum := fnv.New32()
		_, _ = sum.Write([]byte(id))
		fails := sum.Sum32()%3 == 0
		for k := from; k < n; k++ {
			if k == n/2 || k == from && from > n/2 {
				said, err := goworker.Once(ctx, "half", func(context.Context) (string, error) {
					value := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
					l.write('w', id, "\t"+value)
					return value, nil
				})
				if err != nil {
					return l.ends(id, err)
				}
				l.write('o', id, "\t"+said)
			}
			l.write('n', id, fmt.Sprintf("\t%d", k))
			if err := at.Set(ctx, k+1); err != nil {
				return l.ends(id, err)
			}
			switch {
			case k+1 == n/3 && attempt == 1 && fails:
				return l.ends(id, errAsked)
			case k+1 == 2*n/3:
				l.write('k', id, "\tsnoozes")
				return goworker.Snooze(50 * time.Millisecond)
			}
			select {
			case <-ctx.Done():
				if err := at.Set(ctx, k+1); err != nil { // it writes at once now
					return l.ends(id, err)
				}
				l.write('k', id, "\tstops")
				return ctx.Err()
			case <-time.After(time.Duration(ms) * time.Millisecond):
			}
		}
		l.note('e', id)
		return nil
	}, goworker.Retry(20, goworker.Delays{100 * time.Millisecond}))
}

// ends notes how a run ends, and why.
func (l ledger) ends(id string, err error) error {
	event := byte('f')
	if errors.Is(err, goworker.ErrNotHeld) {
		event = 'z' // another process has the job
	}
	l.write(event, id, fmt.Sprintf("\t%.200q", err))
	return err
}
