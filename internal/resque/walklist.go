package resque

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
)

var (
	lookScript = script("look")
	moveScript = script("move")
)

// A walk through a list reads it in pages of about a MiB, while other programs change the list. In
// either direction it misses no element that is there all the time, and may return one twice. Only
// towards the head it misses elements if more than a page of jobs is put in front meanwhile.
const (
	firstPage = 100
	mostPage  = 1000
	pageBytes = 1 << 20
)

// PageSize is how many elements the next page has, after one of so many elements and bytes.
func PageSize(before int64, elements int, bytes int64) int64 {
	if before == 0 {
		before = firstPage
	}
	if elements == 0 {
		return before
	}
	return min(max(1, int64(elements)*pageBytes/max(bytes, 1)), 4*before, mostPage)
}

// ListPlace is how far a walk through a list has come.
type ListPlace struct {
	At   int64    `json:"a"`           // towards the tail: of the first element not seen; else behind it
	Seen []string `json:"s,omitempty"` // digests of the elements next to it, the nearest first
	Size int64    `json:"n,omitempty"` // of the next page
}

// Element is an element of a list and its position when it was read.
type Element struct {
	Index int64
	Raw   []byte
}

// ListPage is what a step of a walk found.
type ListPage struct {
	Found  []Element
	Looked int        // elements that were looked at
	Next   *ListPlace // nil: that was the last one
}

// WalkList reads a page of a list, from the head or from the tail, and returns at most so many of the
// elements that contain all texts and fit. from is nil at the beginning.
func (s Store) WalkList(c redis.Conn, key string, ahead bool, from *ListPlace, most int, texts [][]byte, fits func(raw []byte) bool) (ListPage, error) {
	place := ListPlace{At: -1}
	if from != nil {
		place = *from
	}
	var a Call
	a.Key(key)
	direction := ""
	if ahead {
		direction = "1"
	}
	size := place.Size
	if size <= 0 || size > mostPage { // a place may come from a user
		size = firstPage
	}
	a.Arg(direction, place.At, size, len(place.Seen))
	for _, digest := range place.Seen {
		a.Arg(digest)
	}
	for _, text := range texts {
		a.Arg(text)
	}
	r, err := redis.Values(a.Do(c, lookScript))
	if err != nil {
		return ListPage{}, err
	}
	var numbers [4]int64 // first, how many, bytes, length
	if len(r) < len(numbers) {
		return ListPage{}, ErrAnswer
	}
	for i := range numbers {
		if numbers[i], err = redis.Int64(r[i], nil); err != nil {
			return ListPage{}, ErrAnswer
		}
	}
	first, read := numbers[0], numbers[1]
	seen := int(min(read, 3))
	if seen < 0 || len(r) < len(numbers)+seen {
		return ListPage{}, ErrAnswer
	}
	page := ListPage{Looked: int(read)}
	next := ListPlace{At: first, Size: PageSize(size, int(read), numbers[2])}
	if ahead {
		next.At += read
	}
	for _, digest := range r[len(numbers) : len(numbers)+seen] {
		text, _ := redis.String(digest, nil)
		next.Seen = append(next.Seen, text)
	}
	rest := r[len(numbers)+seen:]
	for i := 0; i+1 < len(rest); i += 2 {
		index, _ := redis.Int64(rest[i], nil)
		raw, _ := redis.Bytes(rest[i+1], nil)
		if !fits(raw) {
			continue
		}
		if len(page.Found) == most { // the rest is for the next page
			last := page.Found[most-1]
			page.Looked = int(last.Index - first + 1)
			next.At, next.Seen = last.Index, []string{ElementDigest(last.Raw)}
			if ahead {
				next.At++
			} else {
				page.Looked = int(first + read - last.Index)
			}
			page.Next = &next
			return page, nil
		}
		page.Found = append(page.Found, Element{index, raw})
	}
	if ahead && next.At < numbers[3] && read > 0 || !ahead && next.At > 0 {
		page.Next = &next
	}
	return page, nil
}

// ElementDigest is the digest by which look.lua knows an element.
func ElementDigest(raw []byte) string {
	sum := sha1.Sum(raw)
	return hex.EncodeToString(sum[:])[:16]
}

// Target is where jobs go that are taken out of a list.
type Target struct {
	Queue string // the zero Target is nowhere
	Lane  *Lane  // a lane of that queue, as the next one; nil: the queue itself
	Head  bool
	Here  bool          // they stay where they are, as other bytes
	Later bool          // in a schedule, each at its Move.At
	Plain bool          // of Later: resque-scheduler's; else our own
	Style payload.Style // of Plain
}

// Move is a job to take out of a list.
type Move struct {
	Element
	As       []byte // the bytes as which it goes on
	Lock, ID string // the lock of a unique job; "": it has none
	At       Stamp  // of Target.Later
}

const (
	moveTogether = 500
	moveBytes    = 4 << 20
	// moveSearch is how many elements one call may compare to find jobs that have moved.
	moveSearch = 1_000_000
)

// MoveJobs takes jobs out of the list of a queue or lane, in pieces of at most 500, and puts them
// elsewhere or nowhere. It returns which of them were there. A job that goes nowhere gives up its
// lock; else its lock follows it.
func (s Store) MoveJobs(c redis.Conn, from Lane, lane bool, jobs []Move, to Target) (there []bool, err error) {
	there = make([]bool, len(jobs))
	for start := 0; start < len(jobs); {
		n, size := 0, 0
		for start+n < len(jobs) && n < moveTogether && (n == 0 || size < moveBytes) {
			size += len(jobs[start+n].Raw) + len(jobs[start+n].As)
			n++
		}
		piece := make([]int, n)
		for i := range piece {
			piece[i] = start + i
		}
		for len(piece) > 0 { // again for those that were not looked for
			answer, err := s.movePiece(c, from, lane, jobs, piece, to)
			if err != nil {
				return there, err
			}
			var again []int
			for _, number := range answer {
				switch {
				case number > 0 && number <= len(piece):
					there[piece[number-1]] = true
				case number < 0 && -number <= len(piece):
					again = append(again, piece[-number-1])
				}
			}
			if len(again) == len(piece) {
				return there, ErrAnswer
			}
			piece = again
		}
		start += n
	}
	return there, nil
}

func (s Store) movePiece(c redis.Conn, from Lane, lane bool, jobs []Move, piece []int, to Target) ([]int, error) {
	some := make([]Move, len(piece))
	for n, i := range piece {
		some[n] = jobs[i]
	}
	a := s.MoveCall(from, lane, some, to)
	r, err := redis.Ints(a.Do(c, moveScript))
	if err != nil {
		return nil, fmt.Errorf("moving %s of queue %s: %w", Plural(len(piece), "job"), from.Queue, Explain(err))
	}
	return r, nil
}

// MoveCall is the call of move.lua, or of the same in a step of an operation. It answers with the numbers, from 1, of the jobs
// that were there and, negative, of those that were not looked for. As bytes they go on by their As; nil: their own.
func (s Store) MoveCall(from Lane, lane bool, jobs []Move, to Target) Call {
	source := s.KeyOfQueue(from.Queue)
	if lane {
		source = s.lane(from)
	}
	return s.moveCall(source, from, jobs, to)
}

// MoveOutCall is the call for jobs of any list that go nowhere.
func (s Store) MoveOutCall(list Key, jobs []Move) Call {
	return s.moveCall(list.String(), Lane{}, jobs, Target{})
}

func (s Store) moveCall(source string, from Lane, jobs []Move, to Target) (a Call) {
	a.Key(source)
	a.Key(s.KeyOfNames(to.Queue))
	mode, queue, member, own := "tail", to.Queue, "", ""
	switch {
	case to.Here:
		mode = "here"
	case to.Later && to.Plain:
		mode, queue = "plain", ""
	case to.Later:
		mode, queue = "own", ""
	case to.Queue == "":
		mode = ""
	case to.Head:
		mode = "head"
	}
	goes, turns := s.KeyOfQueue(to.Queue), s.lanes() // any key; the script does not read it
	switch {
	case to.Later && to.Plain:
		goes = s.KeyOfSeconds()
	case to.Later:
		goes = s.KeyOfSchedule()
	case to.Lane != nil:
		goes, turns = s.lane(*to.Lane), s.turns(to.Lane.Lanes())
		queue, member, own = "", to.Lane.Lanes().member(), to.Lane.Own
	}
	a.Key(goes)
	a.Key(s.lanes())
	a.Key(turns)
	a.Arg(mode, queue, member, own, moveSearch)
	after := to.Queue
	if to.Here || to.Later {
		after = from.Queue
	}
	for _, j := range jobs {
		lock := 0
		if j.Lock != "" {
			lock = a.Key(s.KeyOfLock(j.Lock))
		}
		as := j.As
		if as == nil {
			as = j.Raw
		}
		if !queues.IsOwn(after) { // only goworker's own queues hold MessagePack
			as = payload.JSON(as)
		}
		ends, next := "", ""
		if lock > 0 {
			ends, next = JobPrefix(from.Queue)+string(j.Raw), JobPrefix(after)+string(as)
		}
		time, bucket, stamps := "", 0, 0
		switch {
		case to.Later && to.Plain:
			as = payload.Item(as, from.Queue, to.Style)
			time = j.At.Second()
			bucket, stamps = a.Key(s.KeyOfSecond(time)), a.Key(s.KeyOfJobSeconds(string(as)))
		case to.Later:
			as = append([]byte(JobPrefix(from.Queue)), as...)
			time = strconv.FormatInt(j.At.MS, 10)
		}
		a.Arg(j.Index, j.Raw, as, lock, j.ID, ends, next, time, bucket, stamps)
	}
	return a
}
