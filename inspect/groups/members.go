package groups

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
)

// ref is a known failure, and where it stood in its list.
type ref struct {
	entry
	shard *shard
	list  string
	pos   int64
}

// members are the failures of a group that match, the newest first.
func (x *Index) members(gid string, f Filter) (all []ref) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	kind, ok := x.kinds.number(gid)
	if !ok {
		return nil
	}
	c, lists := x.choose(f), 0
	for _, s := range x.shards {
		for _, l := range s.lists {
			for n := l.count() - 1; n >= 0; n-- {
				e := l.at(n)
				if of, ok := c.group(e); ok && of == kind {
					all = append(all, ref{*e, s, l.name, l.base + int64(n)})
				}
			}
			lists++
		}
	}
	if lists > 1 {
		slices.SortStableFunc(all, func(a, b ref) int { return cmp.Compare(b.at, a.at) })
	}
	return all
}

// ErrCursor is in the error for a place to go on from that no page of the group ended with.
var ErrCursor = inspect.ErrCursor

// pageOf is the page of the members behind a cursor, and the next cursor. A cursor is the id of the last failure, how many of the same id came
// before it, and when it failed.
func pageOf(all []ref, after string, count int) (page []ref, next string, err error) {
	from := 0
	if after != "" {
		parts := strings.Split(after, ".")
		if len(parts) != 3 || failures.CheckID(parts[0]) != nil {
			return nil, "", fmt.Errorf("goworker: %q is not where the failures of a group go on: %w", after, ErrCursor)
		}
		twins, err := strconv.Atoi(parts[1])
		at, wrong := strconv.ParseUint(parts[2], 10, 32)
		if err = errors.Join(err, wrong); err != nil {
			return nil, "", fmt.Errorf("goworker: %q is not where the failures of a group go on: %w", after, ErrCursor)
		}
		if from = behind(all, parts[0], twins); from < 0 { // it has been removed
			if from = slices.IndexFunc(all, func(r ref) bool { return uint64(r.at) <= at }); from < 0 {
				from = len(all)
			}
		}
	}
	page = all[from:min(len(all), from+max(count, 0))]
	if end := from + len(page); len(page) > 0 && end < len(all) {
		last := page[len(page)-1]
		twins := 0
		for _, r := range all[:end-1] {
			if r.id == last.id {
				twins++
			}
		}
		next = fmt.Sprintf("%s.%d.%d", last.id, twins, last.at)
	}
	return page, next, nil
}

// behind is the place behind the failure with an id that comes after so many of the same id; -1: it is not there.
func behind(all []ref, text string, twins int) int {
	var id failures.BinaryID
	hex.Decode(id[:], []byte(text))
	at := -1
	for n, r := range all {
		if r.id == id {
			if at = n + 1; twins == 0 {
				break
			}
			twins--
		}
	}
	return at
}

// IDs returns the IDs of at most count failures of a group that match, the newest first. after is "" to begin, and then the next that was
// returned, which is "" at the end. It asks no Redis. Failures with the same content have one ID. An after that no page ended with begins at the end.
func (x *Index) IDs(gid string, f Filter, after string, count int) (ids []string, next string) {
	page, next, _ := pageOf(x.members(gid, f), after, count)
	for _, r := range page {
		ids = append(ids, r.id.String())
	}
	return ids, next
}

// Members is IDs with the failures themselves, read now. Those that have gone since the Index saw them are left out, so a page may be short. A
// count above inspect.MaxPage is that.
func (x *Index) Members(ctx context.Context, gid, after string, count int, f Filter) (found []inspect.Failure, next string, err error) {
	count = min(count, inspect.MaxPage)
	for try := 0; ; try++ {
		var page []ref
		if page, next, err = pageOf(x.members(gid, f), after, count); err != nil {
			return nil, "", err
		}
		var missing int
		found, missing, err = x.read(ctx, page)
		if err != nil || missing == 0 || try == 1 {
			return found, next, err
		}
		if _, err := x.Refresh(ctx, time.Second); err != nil { // they have moved
			return found, next, err
		}
	}
}

// read reads failures where they stood, and counts those that stand there no more.
func (x *Index) read(ctx context.Context, page []ref) (found []inspect.Failure, missing int, err error) {
	all := make([]*inspect.Failure, len(page))
	var errs []error
	for _, s := range x.shards {
		var here []int
		for n, r := range page {
			if r.shard == s {
				here = append(here, n)
			}
		}
		if len(here) == 0 {
			continue
		}
		err := s.door.Do(ctx, func(store resque.Store, c redis.Conn) error {
			for len(here) > 0 {
				piece := here[:min(len(here), mostPage)]
				done, err := s.readPiece(failures.New(store), c, page, piece, all)
				if err != nil {
					return err
				}
				here = here[done:]
			}
			return nil
		})
		if err != nil && len(x.shards) > 1 {
			err = fmt.Errorf("goworker: shard %s: %w", s.door.Name(), err)
		}
		errs = append(errs, err)
	}
	for _, f := range all {
		if f == nil {
			missing++
			continue
		}
		found = append(found, *f)
	}
	return found, missing, errors.Join(errs...)
}

// readPiece reads the first ones of some of a page in one round trip, and returns how many these are.
func (s *shard) readPiece(lists failures.Store, c redis.Conn, page []ref, piece []int, to []*inspect.Failure) (done int, err error) {
	places := make([]failures.Window, len(piece))
	for i, n := range piece {
		places[i] = failures.Window{List: page[n].list, From: page[n].pos, To: page[n].pos + 1}
	}
	read, err := lists.Elements(c, places...)
	for i, raw := range read {
		if n := piece[i]; raw != nil && same([][]byte{raw}, &page[n].entry) {
			to[n] = &s.door.Failures([]failures.Record{failures.RecordOf(page[n].list, page[n].pos, raw)})[0]
		}
	}
	return len(read), err
}
