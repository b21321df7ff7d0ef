package main

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

const groupsKey = "resque:go:groups"

// flushes hears from MONITOR which groups Redis is given, until when each may wait, and when it goes: by Redis's clock, as
// its scripts wrote it.
type flushes struct {
	a    *arena
	quit chan struct{}
	done chan struct{}
	feed redis.Conn

	mu    sync.Mutex
	due   map[string]time.Time // of the groups that wait
	late  []lateness
	early int // flushed before their time: full, or quiet
	blind int // groups that went while nothing was heard
}

// lateness is how long after its time a group became a job.
type lateness struct {
	group   string
	due, at time.Time
}

// flushWithin is the time within which each group must become a job while Redis serves a process. The goal, 50 ms, needs a
// machine that is not busy.
const flushWithin = 5 * time.Second

const flushGoal = 50 * time.Millisecond

func (a *arena) watchFlushes() *flushes {
	f := &flushes{a: a, quit: make(chan struct{}), done: make(chan struct{}), due: map[string]time.Time{}}
	ready := make(chan struct{})
	go f.run(ready)
	<-ready
	return f
}

func (f *flushes) run(ready chan struct{}) {
	defer close(f.done)
	for first := true; ; first = false {
		feed, err := redis.Dial("unix", f.a.redis.Socket())
		if err == nil {
			_, err = feed.Do("MONITOR")
		}
		if err == nil {
			f.resume(feed)
		}
		if first {
			close(ready)
		}
		for err == nil {
			var line string
			if line, err = redis.String(feed.Receive()); err == nil {
				f.hear(line)
			}
		}
		if feed != nil {
			feed.Close()
		}
		select {
		case <-f.quit:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// resume compares what was known with what is there: what went meanwhile has no time.
func (f *flushes) resume(feed redis.Conn) {
	there, _ := redis.StringMap(f.a.ask("ZRANGE", groupsKey, 0, -1, "WITHSCORES"))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.feed = feed
	for group := range f.due {
		if _, waits := there[group]; !waits {
			delete(f.due, group)
			f.blind++
		}
	}
	for group, score := range there {
		f.due[group] = millis(score)
	}
}

func millis(score string) time.Time {
	ms, _ := strconv.ParseFloat(score, 64)
	return time.UnixMilli(int64(ms))
}

// hear reads a line of MONITOR: 1700000000.123456 [0 lua] "ZADD" "resque:go:groups" "1700000000400" "id".
func (f *flushes) hear(line string) {
	head, command, _ := strings.Cut(line, "] ")
	seconds, _, _ := strings.Cut(head, " ")
	words := unquoted(command)
	if len(words) < 3 || words[1] != groupsKey {
		return
	}
	at, _ := strconv.ParseFloat(seconds, 64)
	now := time.UnixMicro(int64(at * 1e6))
	f.mu.Lock()
	defer f.mu.Unlock()
	switch strings.ToUpper(words[0]) {
	case "ZADD":
		f.due[words[len(words)-1]] = millis(words[len(words)-2])
	case "ZREM":
		for _, group := range words[2:] {
			due, known := f.due[group]
			delete(f.due, group)
			switch {
			case !known: // was not there
			case now.Before(due):
				f.early++
			default:
				f.late = append(f.late, lateness{group, due, now})
			}
		}
	}
}

// unquoted splits the words of a command as MONITOR quotes them.
func unquoted(command string) (words []string) {
	for rest := []byte(command); len(rest) > 0; {
		quoted, err := strconv.QuotedPrefix(string(rest))
		if err != nil {
			return words
		}
		word, _ := strconv.Unquote(quoted)
		words = append(words, word)
		rest = bytes.TrimPrefix(rest[len(quoted):], []byte(" "))
	}
	return words
}

// ofFault says what went on when a group became a job late: 0 nothing, 1 a process had died, 2 Redis or the connections to it
// had broken down.
func (l lateness) ofFault(a *arena) int {
	const before = 2 * time.Second // a process that leads is followed by another one within this time
	from := l.due.Add(-before)
	if slices.ContainsFunc(a.outages, func(w window) bool { return w.from.Before(l.at) && from.Before(w.to) }) {
		return 2
	}
	if slices.ContainsFunc(a.fleet, func(p *process) bool { return !p.alive() && p.died.Before(l.at) && from.Before(p.died) }) {
		return 1
	}
	return 0
}

// check ends the watch, and says how late groups became jobs.
func (f *flushes) check() {
	close(f.quit)
	f.mu.Lock()
	feed := f.feed
	f.mu.Unlock()
	if feed != nil {
		feed.Close()
	}
	<-f.done
	over, most := 0, [3]time.Duration{}
	for _, l := range f.late {
		late := l.at.Sub(l.due) - shared(f.a.outages, l.due, l.at)
		fault := l.ofFault(f.a)
		if late > flushGoal && fault < 2 {
			over++
		}
		most[fault] = max(most[fault], late)
		if late > flushWithin {
			f.a.problem("group %s became a job %v after its time, %s", l.group, late, clock(l.due.UnixNano()))
		}
	}
	f.a.note("%d groups became jobs before their time and %d at it: at most %d ms late, %d ms after a death, %d ms after Redis or its connections broke down; without these %d later than %d ms; %d went unseen",
		f.early, len(f.late), most[0].Milliseconds(), most[1].Milliseconds(), most[2].Milliseconds(), over, flushGoal.Milliseconds(), f.blind)
}

// sever closes all connections but those that watch.
func (a *arena) sever() {
	clients, _ := redis.String(a.ask("CLIENT", "LIST"))
	for line := range strings.Lines(clients) {
		id, rest, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		if !strings.Contains(rest, "flags=O") {
			_, _ = a.ask("CLIENT", "KILL", "ID", id)
		}
	}
}
