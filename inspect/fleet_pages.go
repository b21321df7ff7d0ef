package inspect

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// ErrUnknownProcess is returned by Process for an id that has no lease: the process has stopped, or was found dead and its jobs are
// back in their queues.
var ErrUnknownProcess = prefix.New("no goworker process of this id has a lease")

// ProcessesPage is a part of the goworker processes.
type ProcessesPage struct {
	Processes []ProcessInfo
	Next      string // where the next page begins; "" only if there are no more
	Of        Count  // how many there are; of several Redises in this one
}

// ProcessesPage returns a page of the goworker processes, sorted by id, without reading the records of the others. after is "" for the first page, and
// then the Next of the page before; count is 1 to 500. Of more than 2,000 processes it chooses from those whose leases end first.
//
// It sends at most six commands in two round trips. Over shards a page is of one of them.
func (i *Inspector) ProcessesPage(ctx context.Context, after string, count int) (page ProcessesPage, err error) {
	if err := i.pageable(count); err != nil {
		return page, err
	}
	if i.several() {
		next, err := i.shardPage(after, func(one *Inspector, after string) (string, error) {
			var err error
			page, err = one.ProcessesPage(ctx, after, count)
			return page.Next, err
		})
		page.Next = next
		return page, err
	}
	err = i.do(ctx, func(s resque.Store, c redis.Conn) error {
		found, of, now, err := s.PageOfProcesses(c, after, count+1)
		if err != nil {
			return err
		}
		if len(found) > count {
			found = found[:count]
			page.Next = found[count-1].ID
		}
		page.Of = exactly(of)
		for _, p := range found {
			info := processInfo(p, now)
			info.Shard = i.shard()
			page.Processes = append(page.Processes, info)
		}
		return nil
	})
	return page, err
}

// Process returns one goworker process. The error is ErrUnknownProcess if none of this id has a lease.
func (i *Inspector) Process(ctx context.Context, id string) (info ProcessInfo, err error) {
	if err := i.usable(); err != nil {
		return info, err
	}
	known := false
	err = i.first(&known, func(one *Inspector) error {
		return one.do(ctx, func(s resque.Store, c redis.Conn) error {
			p, there, now, err := s.LiveProcessOf(c, id)
			if err == nil && there {
				known, info = true, processInfo(p, now)
				info.Shard = one.shard()
			}
			return err
		})
	})
	if err == nil && !known {
		err = prefix.Errorf("process %s: %w", id, ErrUnknownProcess)
	}
	return info, err
}

// WorkersPage is a part of the registered workers.
type WorkersPage struct {
	Workers []WorkerInfo
	Next    string // where the next page begins; "" only if there are no more

	// Seen is how many workers this page and those before it looked at, and Of how many are registered. Over shards both are of the one that
	// it has come to.
	Seen, Of int64
}

// WorkersPage returns a page of the registered workers of all programs whose ids contain match; "" is all. after is "" for the first
// page, and then the Next of the page before; count is 1 to 500.
//
// Up to 2,000 workers are sorted by id. More are in no order, and a worker that is registered all the time is not missed, but may be on two
// pages. One call looks at about 4,000 of them, so a page may be short, or empty, although Next says that there is more. A payload in hand that
// is larger than 1 KiB is left out; Worker has it.
//
// It sends at most ten commands. Over shards a page is of one of them.
func (i *Inspector) WorkersPage(ctx context.Context, after string, count int, match string) (page WorkersPage, err error) {
	if err := i.pageable(count); err != nil {
		return page, err
	}
	if i.several() {
		next, err := i.shardPage(after, func(one *Inspector, after string) (string, error) {
			var err error
			page, err = one.WorkersPage(ctx, after, count, match)
			return page.Next, err
		})
		page.Next = next
		return page, err
	}
	var from resque.WorkersPlace
	if err := parsePlace(after, &from); err != nil {
		return page, err
	}
	read, err := query(ctx, i, func(s resque.Store, c redis.Conn) (resque.WorkersRead, error) {
		return s.PageOfWorkers(c, from, count, match)
	})
	for n, w := range read.Workers {
		info := workerInfo(w)
		info.Dead, info.Shard = read.Dead[n], i.shard()
		page.Workers = append(page.Workers, info)
	}
	page.Seen, page.Of = read.Next.Seen, read.Of
	if read.More {
		page.Next = placeText(read.Next)
	}
	return page, err
}

// Worker returns one registered worker, with the whole payload of its job. The error is ErrUnknownWorker if it is not registered. Over
// shards it is the first one that has the worker.
func (i *Inspector) Worker(ctx context.Context, id string) (info WorkerInfo, err error) {
	if err := i.usable(); err != nil {
		return info, err
	}
	known := false
	err = i.first(&known, func(one *Inspector) error {
		err := one.do(ctx, func(s resque.Store, c redis.Conn) error {
			w, dead, err := s.WorkerOf(c, id)
			if err == nil {
				known, info = true, workerInfo(w)
				info.Dead, info.Shard = dead, one.shard()
			}
			return err
		})
		if errors.Is(err, resque.ErrNoWorker) {
			return nil
		}
		return err
	})
	if err == nil && !known {
		err = prefix.Errorf("worker %s: %w", id, ErrUnknownWorker)
	}
	return info, err
}

// first calls do for one Redis after the other until it has set found. What it found counts, whichever other one is away.
func (i *Inspector) first(found *bool, do func(one *Inspector) error) error {
	err := i.each(func(one *Inspector) error {
		if *found {
			return nil
		}
		return do(one)
	})
	if *found {
		return nil
	}
	return err
}

// pageable checks what every page asks for.
func (i *Inspector) pageable(count int) error {
	if count < 1 || count > MaxPage {
		return fmt.Errorf("goworker: a page of %d; ask for 1 to %d", count, MaxPage)
	}
	return i.usable()
}

// shardPage returns a page of one shard, and the next page is of the same or of the next one.
func (i *Inspector) shardPage(after string, ask func(one *Inspector, after string) (next string, err error)) (next string, err error) {
	at, rest, err := i.shardOf(after)
	if err != nil {
		return "", err
	}
	rest, err = ask(i.shards[at], rest)
	switch {
	case rest != "":
		next = i.onShard(at, rest)
	case at+1 < len(i.shards): // one that is away hides no other
		next = i.onShard(at+1, "")
	}
	return next, i.shards[at].about(err)
}

// placeText is where a walk goes on, and parsePlace reads it.
func placeText(place any) string {
	text, _ := json.Marshal(place)
	return base64.RawURLEncoding.EncodeToString(text)
}

func parsePlace(after string, into any) error {
	if after == "" {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(after)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("goworker: %q is not where a page begins: %w", after, ErrCursor)
	}
	return nil
}
