package inspect

import (
	"fmt"
	"strconv"
	"strings"
)

// A walk through keys or through a sorted set returns more at a time than a page has. The cursor of such a page is the cursor of the walk
// and how many of what it returns there were on pages before: Redis returns the same again, as far as nothing has changed meanwhile.

// walkAt is where a walk goes on.
type walkAt struct {
	part   int    // of several walks, one after the other
	cursor string // of Redis; "0": the walk begins
	skip   int
}

func (w walkAt) String() string { return fmt.Sprintf("%d.%s.%d", w.part, w.cursor, w.skip) }

// walkFrom reads a cursor; "" is the beginning.
func walkFrom(after string, parts int) (w walkAt, err error) {
	if after == "" {
		return walkAt{cursor: "0"}, nil
	}
	words := strings.Split(after, ".")
	bad := fmt.Errorf("goworker: %q is not where a list goes on: %w", after, ErrCursor)
	if len(words) != 3 {
		return w, bad
	}
	if _, err := strconv.ParseUint(words[1], 10, 64); err != nil {
		return w, bad
	}
	w.cursor = words[1]
	var wrong error
	if w.part, err = strconv.Atoi(words[0]); err != nil || w.part < 0 || w.part >= parts {
		wrong = bad
	}
	if w.skip, err = strconv.Atoi(words[2]); err != nil || w.skip < 0 {
		wrong = bad
	}
	return w, wrong
}

// onShards reads a page of one shard after the other: read reads one of a shard.
func onShards(i *Inspector, after string, read func(one *Inspector, after string) (next string, err error)) (next string, err error) {
	if !i.several() {
		return read(i, after)
	}
	at, after, err := i.shardOf(after)
	if err != nil {
		return "", err
	}
	next, err = read(i.shards[at], after)
	switch {
	case next != "":
		next = i.onShard(at, next)
	case at+1 < len(i.shards):
		next = i.onShard(at+1, "")
	}
	return next, i.shards[at].about(err)
}
