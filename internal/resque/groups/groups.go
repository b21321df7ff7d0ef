// Package groups knows the keys and the scripts of aggregated jobs: items of one key that are gathered until a job is made
// of all of them. The verb gather adds an item in the commit that ends its job, and a script makes jobs of the groups
// whose time has come. scripts/parts/group.lua says what a group is.
package groups

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Field is the field of a payload with how many items the job is made of.
const Field = "gathered"

//go:embed scripts
var scriptFiles embed.FS

var (
	dueScript   = resque.LoadScript(scriptFiles, "due")
	flushScript = resque.LoadScript(scriptFiles, "flush")
	gather      = resque.LoadVerb(scriptFiles, "gather")
)

// Scripts returns the scripts of this package by name, as they are sent to Redis.
func Scripts() map[string]string { return resque.ScriptsOf(scriptFiles) }

// Store is resque's Store with the words of groups.
type Store struct{ resque.Store }

// New returns the Store of groups in a namespace.
func New(s resque.Store) Store { return Store{s} }

// GroupKey is the list of a group: how its job begins, and its items.
func (s Store) GroupKey(id string) resque.Key { return s.ListKey("group:" + id) }

// GroupsKey is the sorted set of the groups: when to look at each next, in ms.
func (s Store) GroupsKey() resque.Key { return s.ZSetKey("groups") }

// ID is the id of the group of a class with these keys in a queue. It names the queue and the class, so any process can
// make a job of the group.
func ID(queue, class string, keys []byte) string {
	return resque.JobPrefix(queue) + resque.JobPrefix(class) + resque.Digest(keys)
}

// SplitID returns the queue and the class of a group.
func SplitID(id string) (queue, class string, ok bool) {
	queue, rest, ok := resque.CutPrefix([]byte(id))
	if ok {
		class, _, ok = resque.CutPrefix(rest)
	}
	return queue, class, ok
}

// Item is a job that becomes a part of its group.
type Item struct {
	Group string // the group's id
	Queue string
	Job   string // the id of the group's job, if the group begins with this item
	Head  []byte // how the payload of the group's job begins, up to the bracket of its items
	JSON  []byte // the item
	Most  int    // how many items a group has
	Bytes int    // how many bytes of items, a comma for each included
	Wait  time.Duration
	Quiet time.Duration // 0: off
}

// Tail is how many bytes the payload of a group's job has behind its items, at most.
const Tail = 64

// Gather returns the effect that adds an item to its group, and makes a job of the group if that is full.
func (s Store) Gather(i *Item) resque.Effect {
	keys := []resque.Key{s.AnyKey("group:" + i.Group), s.AnyKey("groups")} // the verb reads the group before it writes
	head := make([]byte, 0, len(i.Head)+len(i.Job)+32)
	head = append(strconv.AppendInt(head, i.Wait.Milliseconds(), 10), ' ')
	head = append(strconv.AppendInt(head, i.Quiet.Milliseconds(), 10), ' ')
	head = append(append(append(head, i.Job...), ' '), i.Head...)
	return gather.Effect(keys, i.Group, head, i.JSON, i.Most, i.Bytes, resque.KeyList{s.QueueKey(i.Queue), s.NamesKey(i.Queue)})
}

// Due returns groups whose time has come, and how long it is until that of the next one; resque.Never if there is none.
func (s Store) Due(c redis.Conn, most int) (now time.Time, ids []string, next time.Duration, err error) {
	return s.due(c, false, 0, most)
}

// All returns a page of all groups, those behind the first so many.
func (s Store) All(c redis.Conn, from, most int) (ids []string, err error) {
	_, ids, _, err = s.due(c, true, from, most)
	return ids, err
}

func (s Store) due(c redis.Conn, all bool, from, most int) (now time.Time, ids []string, next time.Duration, err error) {
	var a resque.Call
	a.Key(s.GroupsKey().String())
	a.Arg(all, from, most)
	r, err := redis.Strings(a.Do(c, dueScript))
	if err == nil && len(r) < 2 {
		err = resque.ErrAnswer
	}
	if err != nil {
		return now, nil, 0, fmt.Errorf("reading which groups of jobs are due: %w", resque.Explain(err))
	}
	ms, _ := strconv.ParseInt(r[0], 10, 64)
	next = resque.Never
	if at, err := strconv.ParseFloat(r[1], 64); err == nil && at-float64(ms) < float64(resque.Never/time.Millisecond) {
		next = time.Duration(max(at-float64(ms), 0)) * time.Millisecond
	}
	return time.UnixMilli(ms), r[2:], next, nil
}

// Flushed is what became of a group.
type Flushed struct {
	ID    string
	Items int   // of the job that was made of it; 0: none was made
	Err   error // why Redis does not take it; it is due again after ten seconds
}

// Flush makes jobs of groups: of those whose time has come, or of all. A group that waits for more is put off.
func (s Store) Flush(c redis.Conn, all bool, ids []string) (flushed []Flushed, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var a resque.Call
	a.Key(s.GroupsKey().String())
	a.Arg(all)
	for _, id := range ids {
		queue, _, _ := SplitID(id)
		a.Key(s.GroupKey(id).String())
		a.Key(s.QueueKey(queue).String())
		a.Key(s.NamesKey(queue).String())
		a.Arg(id)
	}
	r, err := redis.Strings(a.Do(c, flushScript))
	if err == nil && len(r) != len(ids) {
		err = resque.ErrAnswer
	}
	if err != nil {
		return nil, fmt.Errorf("making jobs of %s: %w", resque.Plural(len(ids), "group"), resque.Explain(err))
	}
	for i, said := range r {
		f := Flushed{ID: ids[i]}
		if n, ok := strings.CutPrefix(said, "flushed "); ok {
			f.Items, _ = strconv.Atoi(n)
		} else if said != "gone" && !strings.HasPrefix(said, "waits ") {
			f.Err = fmt.Errorf("group %s: %s", ids[i], said)
		}
		flushed = append(flushed, f)
	}
	return flushed, nil
}
