package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

var (
	// ErrForeignKey is returned by Key for a key that is not in the namespace: it is another program's.
	ErrForeignKey = prefix.New("the key is not in this namespace")
	// ErrNoKey is returned by Key for a key that does not exist.
	ErrNoKey = prefix.New("there is no such key")
)

// KeyRow is a key of the namespace, without what is in it.
type KeyRow struct {
	Name     string // with the namespace
	Family   string // what it is for, in a word for people: "queue", "failed", "result documents"; "other": neither Resque nor goworker wrote it
	Type     string // as Redis names it: "list", "zset"; "": Redis does not say
	Elements Count  // of a string: its bytes
	Ends     bool   // it goes by itself, after TTL
	TTL      time.Duration
	TTLKnown bool
	Shard    string
}

// KeysOptions say how far Keys looks. Zero values are the defaults.
type KeysOptions struct {
	Budget time.Duration // when to leave off; 0: 150 ms. One step is made in any case
	Count  int           // about how many keys a page has, 1 to 1,000; 0: 200
}

const (
	defaultKeysBudget = 150 * time.Millisecond
	defaultKeys       = 200
	mostKeys          = 1000
	mostScanned       = 2000 // keys that one step of a SCAN looks at
)

// KeyPage is a page of keys, in no order but that of their names within the page.
type KeyPage struct {
	Keys   []KeyRow
	Next   string // where the next page goes on; "" at the end
	Looked int64  // keys of the database that this page looked at
	Others int64  // of these, those of other programs, of which a page says nothing else
	Denied []Denied
}

// Keys returns a page of the keys of the namespace: those whose name behind the namespace matches a pattern as queue lists have them
// (* for any text, ? for one character), all for "". after is "" at first and then the Next of the page before. It walks through all
// keys of the database with SCAN, so a page that is not the last may have no key, a key that is there all the time is not missed,
// and one may be on two pages. Over shards it goes from one to the next.
//
// A page costs one round trip for each 2,000 keys of the database and one more.
func (i *Inspector) Keys(ctx context.Context, match, after string, o KeysOptions) (KeyPage, error) {
	o.Budget, o.Count = cmp.Or(o.Budget, defaultKeysBudget), cmp.Or(o.Count, defaultKeys)
	if o.Count < 1 || o.Count > mostKeys || o.Budget < 0 {
		return KeyPage{}, fmt.Errorf("goworker: Keys takes a count of 1 to %d and a budget that is not negative", mostKeys)
	}
	if !i.several() {
		return i.keys(ctx, match, after, o)
	}
	at, after, err := i.shardOf(after)
	if err != nil {
		return KeyPage{}, err
	}
	page, err := i.shards[at].keys(ctx, match, after, o)
	switch {
	case page.Next != "":
		page.Next = i.onShard(at, page.Next)
	case at+1 < len(i.shards):
		page.Next = i.onShard(at+1, "")
	}
	return page, i.shards[at].about(err)
}

func (i *Inspector) keys(ctx context.Context, match, after string, o KeysOptions) (page KeyPage, err error) {
	cursor := cmp.Or(after, "0")
	if _, err := strconv.ParseUint(cursor, 10, 64); err != nil {
		return page, fmt.Errorf("goworker: %q is not where a walk through keys goes on: %w", after, ErrCursor)
	}
	err = i.do(ctx, func(s resque.Store, c redis.Conn) error {
		began, step := clock.System.Now(), o.Count
		var found []string
		for {
			keys, next, err := s.ScanKeys(c, cursor, step)
			if err != nil {
				return refusal(s, err)
			}
			page.Looked, cursor = page.Looked+int64(len(keys)), next
			for _, key := range keys {
				name, ours := strings.CutPrefix(key, s.Namespace())
				switch {
				case !ours || name == "":
					page.Others++
				case match == "" || queues.MatchGlob(match, name):
					found = append(found, key)
				}
			}
			if cursor == "0" || len(found) >= o.Count || clock.Since(clock.System, began) >= o.Budget {
				break
			}
			step = nextStep(o.Count, len(found), page.Looked)
		}
		slices.Sort(found)
		rows, refused, err := s.KeyRows(c, slices.Compact(found))
		for _, row := range rows {
			if row.Type != "none" {
				page.Keys = append(page.Keys, i.keyRow(s, row))
			}
		}
		page.Denied = deniedOf(refused)
		return refusal(s, err)
	})
	if cursor != "0" && err == nil {
		page.Next = cursor
	}
	return page, err
}

// nextStep is how many keys the next step of a walk looks at, so that the page gets about count keys and not many more.
func nextStep(count, found int, looked int64) int {
	if found == 0 {
		return mostScanned
	}
	return max(10, min(int(int64(count-found)*looked/int64(found)), mostScanned))
}

func (i *Inspector) keyRow(s resque.Store, row resque.KeyRow) KeyRow {
	family, _ := s.FamilyOf(row.Name)
	k := KeyRow{Name: row.Name, Family: family.Name, Type: row.Type, TTLKnown: row.Known, Ends: row.Known && !row.Forever, TTL: row.Stays, Shard: i.shard()}
	if row.Elements >= 0 {
		k.Elements = exactly(row.Elements)
	}
	return k
}

// KeyInfo is a key in detail.
type KeyInfo struct {
	KeyRow
	Bytes    int64 // about how much memory it takes, by MEMORY USAGE with five samples; -1: Redis does not say
	Encoding string

	// Contents are the first elements, at most 50, of a list or hash that holds jobs or failures, and of a set of names. Other keys
	// hold what is for no reader, or for another page: nothing of them is shown.
	Contents []KeyContent

	Denied []Denied
}

// KeyContent is the beginning of an element.
type KeyContent struct {
	Field string // of a hash
	Text  string // 2 KiB of it at most
	Size  int64  // bytes of the whole element
}

const (
	mostContents   = 50
	mostOfContents = 2 << 10
)

// Key returns what a key is, and the beginning of what it holds if that is jobs, failures or names. The name is the whole one. The
// error is ErrForeignKey for a key outside of the namespace, of which nothing is asked, and ErrNoKey if there is none. It reads about
// 1 MiB in Redis at most; one element may be larger.
//
// Over shards it is the key of the first shard that has it.
func (i *Inspector) Key(ctx context.Context, name string) (KeyInfo, error) {
	if i.several() {
		for _, one := range i.shards {
			if info, err := one.Key(ctx, name); !errors.Is(err, ErrNoKey) {
				return info, one.about(err)
			}
		}
		return KeyInfo{}, prefix.Errorf("%w: %s", ErrNoKey, strconv.Quote(name))
	}
	return query(ctx, i, func(s resque.Store, c redis.Conn) (info KeyInfo, err error) {
		family, ours := s.FamilyOf(name)
		if !ours {
			return info, prefix.Errorf("%w: %s does not begin with %s", ErrForeignKey, strconv.Quote(name), s.Namespace())
		}
		d, err := s.KeyDetail(c, name)
		if err != nil {
			return info, refusal(s, err)
		}
		if d.Type == "none" {
			return info, prefix.Errorf("%w: %s", ErrNoKey, strconv.Quote(name))
		}
		info = KeyInfo{KeyRow: i.keyRow(s, d.KeyRow), Bytes: max(d.Bytes, -1), Encoding: d.Encoding, Denied: deniedOf(d.Refused)}
		if !shown(family, d.Type) {
			return info, nil
		}
		contents, err := s.KeyContents(c, name, d.Type, mostContents, mostOfContents)
		for _, of := range contents {
			info.Contents = append(info.Contents, KeyContent{of.Field, string(of.Text), of.Size})
		}
		if resque.IsWrongType(err) { // another program has replaced the key meanwhile
			err = nil
		}
		return info, refusal(s, err)
	})
}

// shown reports whether the elements of a key may be shown.
func shown(f resque.Family, kind string) bool {
	switch f.Contents {
	case resque.Payloads:
		return kind == "list" || kind == "hash"
	case resque.Names:
		return kind == "set"
	}
	return false
}
