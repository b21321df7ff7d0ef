package groups

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/resque/failures"
)

// entry is an element of a list: 24 bytes.
type entry struct {
	id    failures.BinaryID // zero: a blank element
	queue uint16
	at    uint32 // when it failed, in seconds since 1970; 0: that is not known
	kind  uint32 // the number of its group, with the flags below
}

const (
	retried = 1 << 31
	hidden  = 1 << 30 // it is blank, or does not match the query: it takes a place and is in no group

	maxUnix = math.MaxUint32
)

// group is the number of the entry's group.
func (e entry) group() (uint32, bool) { return e.kind &^ (retried | hidden), e.kind&hidden == 0 }

// shard is one Redis.
type shard struct {
	door   inspect.Door
	number int
	fits   func(record []byte) bool // nil: all
	seen   bool                     // its lists have been read
	lists  []*list                  // as the set of them names them

	again time.Time // when known failures were read again
	from  int       // the list that is looked at next, although it is as long as before
}

const (
	firstPage = 100
	mostPage  = 1000
	pageBytes = 1 << 20 // about; two neighbouring pages are similar
)

// list is what is known of a failure list: the elements from position base on. They stand in two runs, so that both ends grow.
type list struct {
	name   string
	length int64 // as it was counted last
	base   int64

	older []entry // the last one first
	newer []entry

	size int64 // elements of the next page
	back int   // of the known elements, how many from the newest on were read again
	owed int   // how many have to be
}

func (l *list) count() int { return len(l.older) + len(l.newer) }

// end is the position behind the last known element.
func (l *list) end() int64 { return l.base + int64(l.count()) }

// at is the known element n, the oldest being 0.
func (l *list) at(n int) *entry {
	if n < len(l.older) {
		return &l.older[len(l.older)-1-n]
	}
	return &l.newer[n-len(l.older)]
}

// entries are all known elements, the oldest first. They become one run.
func (l *list) entries() []entry {
	if len(l.older) > 0 {
		slices.Reverse(l.older)
		l.newer, l.older = append(l.older, l.newer...), nil
	}
	return l.newer
}

// paged fits the size of the next page to what was read.
func (l *list) paged(raws [][]byte) {
	total := 1
	for _, raw := range raws {
		total += len(raw)
	}
	if len(raws) > 0 {
		l.size = min(max(1, int64(len(raws))*pageBytes/int64(total)), 4*l.size, mostPage)
	}
}

// shortened is a text of at most 2 KiB.
func shortened(text string) string {
	const most = 2048
	if len(text) <= most {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:most-len("…")], "")) + "…"
}
