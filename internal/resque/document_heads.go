package resque

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// DocumentHead is what a list of documents is chosen and sorted by.
type DocumentHead struct {
	ID, State, Class, Queue string

	At time.Time // when the job ended, or else began, or else was enqueued
}

// ScanHeads returns the heads of the documents of jobs that fit, among about so many keys of the whole Redis. The first cursor is "0", and
// so is next once there are no more. Documents of workflows are not among them. It reads seven short fields of each document.
func (s Store) ScanHeads(c redis.Conn, cursor string, keys int, f DocumentFilter) (heads []DocumentHead, next string, err error) {
	prefix := s.KeyOfResult("")
	reply, err := redis.Values(c.Do("SCAN", cursor, "MATCH", globText(prefix)+"*", "COUNT", keys))
	var names []string
	if err == nil {
		_, err = redis.Scan(reply, &next, &names)
	}
	if err != nil {
		return nil, "", fmt.Errorf("looking for documents of jobs: %w", Explain(err))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	err = readHashes(c, names, []string{"state", "class", "queue", "workflow", "ended", "began", "enqueued"}, func(i int, reply any, err error) {
		said, refused := redis.Strings(reply, err)
		if refused != nil || len(said) != 7 || said[0] == "" || said[3] != "" || !f.fits(said[0], said[1], said[2], said[3]) {
			return // a key of another type is no document
		}
		at := cmp.Or(wholeOf(said[4]), wholeOf(said[5]), wholeOf(said[6]))
		heads = append(heads, DocumentHead{ID: strings.TrimPrefix(names[i], prefix), State: said[0], Class: said[1], Queue: said[2], At: timeOf(at)})
	})
	if err != nil {
		return nil, "", fmt.Errorf("reading documents of jobs: %w", Explain(err))
	}
	return heads, next, nil
}

// ReadFound reads documents in few round trips, and calls take for each, in their order. Their progress is not read.
func (s Store) ReadFound(c redis.Conn, ids []string, take func(i int, r DocumentRead)) error {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = s.KeyOfResult(id)
	}
	err := readHashes(c, keys, nil, func(i int, reply any, err error) {
		fields, err := redis.StringMap(reply, err)
		if err != nil {
			take(i, DocumentRead{Err: s.refused(ids[i], err)})
			return
		}
		d, there := documentOf(ids[i], fields)
		take(i, DocumentRead{Document: d, There: there})
	})
	if err != nil {
		return fmt.Errorf("reading documents of jobs: %w", Explain(err))
	}
	return nil
}
