package groups

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Group is a group that waits.
type Group struct {
	Queue string
	Class string
	Keys  []json.RawMessage // the arguments that its items share
	Items int
	Bytes int
	Began time.Time
	Due   time.Time // when to look at it: later items may put that off
}

// pageGroups is how many groups one round trip reads.
const pageGroups = 100

// List returns groups in the order in which they are due, at most so many. It leaves out those that are no groups.
func (s Store) List(c redis.Conn, most int) (all []Group, err error) {
	for from := 0; len(all) < most; from += pageGroups {
		r, err := redis.Strings(c.Do("ZRANGE", s.GroupsKey().String(), from, from+pageGroups-1, "WITHSCORES"))
		if err != nil {
			return all, fmt.Errorf("reading the groups of aggregated jobs: %w", resque.Explain(err))
		}
		if len(r) == 0 {
			break
		}
		b := resque.Batch{Conn: c}
		for i := 0; i+1 < len(r); i += 2 {
			key := s.GroupKey(r[i]).String()
			b.Send("LLEN", key)
			b.Send("LINDEX", key, 0)
			b.Send("LINDEX", key, -1)
		}
		replies, err := b.Receive()
		if err != nil {
			return all, err
		}
		for i := 0; i+1 < len(r) && len(all) < most; i += 2 {
			length, _ := redis.Int(replies[3*(i/2)], nil)
			first, _ := redis.Bytes(replies[3*(i/2)+1], nil)
			last, _ := redis.Bytes(replies[3*(i/2)+2], nil)
			score, _ := strconv.ParseFloat(r[i+1], 64)
			if g, ok := parseGroup(r[i], score, length, first, last); ok {
				all = append(all, g)
			}
		}
	}
	return all, nil
}

// parseGroup reads a group's first and last element.
func parseGroup(id string, score float64, length int, first, last []byte) (g Group, ok bool) {
	g = Group{Items: length - 1, Due: time.UnixMilli(int64(score))}
	g.Queue, g.Class, ok = SplitID(id)
	words := bytes.SplitN(first, []byte(" "), 5)
	if !ok || len(words) != 5 {
		return g, false
	}
	began, _ := strconv.ParseInt(string(words[0]), 10, 64)
	g.Began = time.UnixMilli(began)
	p, err := payload.Parse(append(bytes.Clone(words[4]), `]]}`...))
	if err != nil {
		return g, false
	}
	if n := len(p.Args); n > 0 {
		g.Keys = p.Args[:n-1]
	}
	if g.Items > 0 {
		size, _, _ := bytes.Cut(last, []byte(" "))
		g.Bytes, _ = strconv.Atoi(string(size))
	}
	return g, true
}

// Find returns the ids of the groups of a class in a queue whose items share these arguments. There is more than one where some items have
// more arguments of their own than others. It looks at the index of all groups, 1,000 at a time.
func (s Store) Find(c redis.Conn, queue, class string, keys []json.RawMessage) (found []string, err error) {
	const page = 1000
	for from := 0; ; from += page {
		ids, err := redis.Strings(c.Do("ZRANGE", s.GroupsKey().String(), from, from+page-1))
		if err != nil {
			return nil, fmt.Errorf("looking for a group of aggregated jobs: %w", resque.Explain(err))
		}
		b := resque.Batch{Conn: c}
		var near []string
		for _, id := range ids {
			if q, of, ok := SplitID(id); ok && q == queue && of == class {
				near = append(near, id)
				b.Send("LINDEX", s.GroupKey(id).String(), 0)
			}
		}
		replies, err := b.Receive()
		if err != nil {
			return nil, err
		}
		for n, id := range near {
			first, _ := redis.Bytes(replies[n], nil)
			if g, ok := parseGroup(id, 0, 0, first, nil); ok && slices.EqualFunc(g.Keys, keys, sameText) {
				found = append(found, id)
			}
		}
		if len(ids) < page {
			return found, nil
		}
	}
}

// sameText reports whether two arguments are the same JSON text but for blanks.
func sameText(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
