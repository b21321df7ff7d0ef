package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
)

// LockPage is a page of the locks of unique jobs.
type LockPage struct {
	Locks []Lock // in no order
	Next  string // where the next page goes on; "" at the end
}

// LocksPage returns a page of Locks: at most count. after is "" at first and then the Next of the page before. It walks through the keys
// of Redis, and where few of them are locks it ends after its Budget with fewer locks, or with none; the next page goes on. A lock that
// comes or goes meanwhile may be missing or on two pages. Over shards it goes from one to the next.
func (i *Inspector) LocksPage(ctx context.Context, after string, count int, options ...FindOption) (page LockPage, err error) {
	if count < 1 || count > MaxPage {
		return page, fmt.Errorf("goworker: ask for 1 to %d locks, not for %d", MaxPage, count)
	}
	if err := i.usable(); err != nil {
		return page, err
	}
	budget := findOptionsOf(options).budget
	page.Next, err = onShards(i, after, func(one *Inspector, after string) (next string, err error) {
		var found []resque.HeldLock
		err = one.do(ctx, func(s resque.Store, c redis.Conn) (err error) {
			found, next, err = lockPage(s, c, after, count, budget)
			return err
		})
		for _, l := range found {
			page.Locks = append(page.Locks, i.onIts(one, lockOf(l)))
		}
		return next, err
	})
	return page, err
}

func lockPage(s resque.Store, c redis.Conn, after string, count int, budget time.Duration) (found []resque.HeldLock, next string, err error) {
	at, err := walkFrom(after, 1)
	if err != nil {
		return nil, "", err
	}
	until := clock.System.Now().Add(budget)
	var names []string
	for {
		some, cursor, err := s.ScanLockNames(c, at.cursor)
		if err != nil {
			return nil, "", err
		}
		some = some[min(at.skip, len(some)):]
		if room := count - len(names); len(some) > room {
			at.skip += room
			names, next = append(names, some[:room]...), at.String()
			break
		}
		names, at = append(names, some...), walkAt{cursor: cursor}
		if cursor == "0" {
			break
		}
		if next = at.String(); len(names) == count || budget > 0 && clock.System.Now().After(until) {
			break
		}
		next = ""
	}
	found, err = s.ReadLocks(c, names)
	return found, next, err
}
