package failures

import (
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/resque"
)

// A walk reads a failure list in pages while other programs change it. Failures are added
// at the end; a removal moves all behind it forwards.
//
// Towards the front (backward) a removal hides nothing, but elements that were seen move to positions that were not. They are
// seen twice. The walk does not look for them by their ids: an equal one further on would hide those in between.
// Towards the end (forward) a page begins behind an element of the page before. If that element has
// moved, the walk finds it by its id. In either direction no element is missed that was
// in the list from the first page to the last; one may be seen twice.

const (
	leastPage = 1
	firstPage = 100
	mostPage  = 500
	pageBytes = 1 << 20 // about; two neighbouring pages are similar
	anchors   = 8       // elements by which a page finds the page before
)

// walk is one walk through a list.
type walk struct {
	Store
	c    redis.Conn
	list string
	size int64 // elements of the next page
}

func (s Store) walk(c redis.Conn, list string) *walk {
	return &walk{Store: s, c: c, list: list, size: firstPage}
}

// read returns the elements from start up to end.
func (w *walk) read(start, end int64) ([][]byte, error) {
	raws, err := redis.ByteSlices(w.c.Do("LRANGE", w.store.KeyOfFailures(w.list), start, end-1))
	if err != nil {
		return nil, fmt.Errorf("reading failure list %s: %w", w.list, resque.Explain(err))
	}
	total := 1
	for _, raw := range raws {
		total += len(raw)
	}
	if len(raws) > 0 {
		w.size = min(max(leastPage, int64(len(raws))*pageBytes/int64(total)), 4*w.size, mostPage)
	}
	if w.onPage != nil {
		err = w.onPage()
	}
	return raws, err
}

// page is a run of elements of a list, the first of them at position start.
type page struct {
	start int64
	raws  [][]byte
}

// choose returns the records of a page that match, in their order.
func (w *walk) choose(p page, fits func(raw []byte) bool) []Record {
	var records []Record
	for i, raw := range p.raws {
		if len(raw) > 0 && fits(raw) {
			records = append(records, RecordOf(w.list, p.start+int64(i), raw))
		}
	}
	return records
}

// backward visits the pages of the list from position end to its front, until visit
// returns false or an error.
func (w *walk) backward(end int64, visit func(page) (bool, error)) error {
	for end > 0 {
		start := max(0, end-w.size)
		raws, err := w.read(start, end)
		if err != nil {
			return err
		}
		end = start
		if len(raws) == 0 { // the list has become shorter
			n, err := w.Count(w.c, w.list)
			if err != nil {
				return err
			}
			end = min(end, n)
			continue
		}
		if more, err := visit(page{start, raws}); !more || err != nil {
			return err
		}
	}
	return nil
}

func lastIndex(raws [][]byte, is func(raw []byte) bool) int {
	for i := len(raws) - 1; i >= 0; i-- {
		if is(raws[i]) {
			return i
		}
	}
	return -1
}

// forward visits the pages from the front up to where position end was, or farther if
// it lost its place. visit returns false to see its page again, as it is then.
func (w *walk) forward(end int64, visit func(page) (bool, error)) error {
	var seen []string // the ids of the last elements that were seen
	for done := int64(0); done < end; {
		before := min(done, anchors)
		raws, err := w.read(done-before, min(done+w.size, end))
		if err != nil {
			return err
		}
		if before > 0 {
			at := lastSeen(raws[:min(before, int64(len(raws)))], seen)
			if at < 0 {
				if done, err = w.lost(done, seen); err != nil {
					return err
				}
				continue
			}
			raws = raws[at+1:]
			moved := before - int64(at) - 1
			done, end = done-moved, end-moved
		}
		if len(raws) == 0 {
			return nil
		}
		next, err := visit(page{done, raws})
		if err != nil {
			return err
		}
		if next {
			for _, raw := range raws[max(0, len(raws)-anchors):] {
				seen = append(seen, ID(raw))
			}
			seen = seen[max(0, len(seen)-anchors):]
			done += int64(len(raws))
		}
	}
	return nil
}

// lost returns the position behind which a visited element is now. It is 0, the start, if
// none is found.
func (w *walk) lost(done int64, seen []string) (int64, error) {
	for end := done; end > 0; {
		start := max(0, end-mostPage)
		raws, err := w.read(start, end)
		if err != nil {
			return 0, err
		}
		if at := lastSeen(raws, seen); at >= 0 {
			return start + int64(at) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// lastSeen is the position of the last visited element; -1 if there is none.
func lastSeen(raws [][]byte, seen []string) int {
	return lastIndex(raws, func(raw []byte) bool { return slices.Contains(seen, ID(raw)) })
}
