package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/httpjob"
)

// undone is what Redis lost of a job, by its data before and after.
type undone struct {
	at    []undo
	gone  bool // the job was there, and then nowhere
	known bool // by then its publish was acknowledged
}

// undo is one loss. After that a job may be delivered as often as the data says that are left. What was delivered in the same millisecond
// was before: no server had a connection any more.
type undo struct {
	at   int64 // ms
	used int   // tries
}

// deliveredTooOften returns how many deliveries of a job were beyond its tries, and how many of these no loss explains.
func (u *undone) deliveredTooOften(given []delivery, tries int) (beyond, wrong int) {
	beyond = max(0, len(given)-tries)
	for i := range len(u.at) + 1 {
		from, until, left := int64(0), int64(math.MaxInt64), tries
		if i > 0 {
			from, left = u.at[i-1].at, max(0, tries-u.at[i-1].used)
		}
		if i < len(u.at) {
			until = u.at[i].at
		}
		for _, d := range given {
			if from < d.begun && d.begun <= until {
				left--
			}
		}
		wrong += max(0, -left)
	}
	return beyond, wrong
}

// losses counts what Redis lost.
type losses struct {
	jobs  int // that are nowhere
	ends  int // of jobs that are there again
	moves int // reservations and returns of jobs, which are where they were before
}

// lose runs a fault in which Redis loses data. Nothing is written, and no server has a connection, from before the data is
// read until it is read again. So the difference is what Redis itself has lost.
func (w *web) lose(fault func()) {
	a := w.a
	a.outage(func() {
		a.must("CLIENT", "PAUSE", 600_000, "WRITE")
		at := time.Now().UnixMilli()
		for _, l := range w.wires {
			l.cut()
		}
		before, keys := w.places(), a.onceIDs()
		fault()
		w.compare(at, before, w.places())
		left := a.onceIDs()
		for id := range keys {
			if !left[id] {
				w.keyless[id] = at
			}
		}
		for _, l := range w.wires {
			l.redirect(a.redis.Addr)
			l.mend()
		}
	})
}

// onceIDs returns the ids of the jobs whose idempotency keys Redis has.
func (a *arena) onceIDs() map[string]bool {
	ids := map[string]bool{}
	if keys := a.list("KEYS", "resque:go:idem:*"); len(keys) > 0 {
		for _, text := range a.list("MGET", redis.Args{}.AddFlat(keys)...) {
			for _, id := range strings.Fields(text)[1:] { // behind the fingerprint
				ids[id] = true
			}
		}
	}
	return ids
}

// keyLost notes that Redis lost the key of a job that was delivered: its publish, if it had no answer yet, made another one.
func (w *web) keyLost(u *undone, given []delivery) {
	for _, d := range given {
		if at, lost := w.keyless[d.id]; lost && !slices.Contains(u.at, undo{at, 0}) {
			u.at = append(u.at, undo{at, 0})
		}
	}
	slices.SortStableFunc(u.at, func(a, b undo) int { return cmp.Compare(a.at, b.at) })
}

// compare notes what Redis lost of each job.
func (w *web) compare(at int64, before, after map[string]standing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, j := range w.jobs {
		was, is := before[name], after[name]
		if was == is {
			continue
		}
		u := w.undone[name]
		if u == nil {
			u = new(undone)
			w.undone[name] = u
		}
		u.at = append(u.at, undo{at, is.used})
		switch {
		case is.text == "":
			u.gone = true
			u.known = u.known || j.push == 'a'
			w.losses.jobs++
		case was.text == "":
			w.losses.ends++
		default:
			w.losses.moves++
		}
	}
}

// standing is where a job is in Redis, and what stands there of it. One that has ended is nowhere.
type standing struct {
	text string
	used int // tries
}

// places returns the places of all jobs by their names.
func (w *web) places() map[string]standing {
	a, queue, at := w.a, webNamespace+"."+webQueue, map[string]standing{}
	marks := a.fields("HGETALL", "resque:go:returned")
	note := func(where, payload string, begun int) {
		id, _ := httpjob.Tail([]byte(payload))
		var job struct {
			Args    []string `json:"args"`
			Attempt int      `json:"attempt"`
		}
		if err := json.Unmarshal([]byte(payload), &job); err != nil || len(job.Args) != 1 {
			a.problem("a job is not as it was published: %.100q, %v", payload, err)
			return
		}
		name, _, _ := strings.Cut(job.Args[0], " ")
		if at[name].text != "" {
			a.problem("job %s is in two places", name)
		}
		at[name] = standing{where + payload + marks[fmt.Sprintf("%d:%s%s", len(queue), queue, id)], max(1, job.Attempt) - 1 + begun}
	}
	for _, payload := range a.list("LRANGE", "resque:queue:"+queue, 0, -1) {
		note("ready", payload, 0)
	}
	ends := a.fields("ZRANGE", "resque:go:leases", 0, -1, "WITHSCORES")
	for place, payload := range a.fields("HGETALL", "resque:go:leased") {
		note("leased "+ends[place], payload, 1)
	}
	for name := range a.deadLetters(queue) {
		at[name] = standing{"dead", math.MaxInt32}
	}
	return at
}

// fields returns an answer of names and values.
func (a *arena) fields(command string, args ...any) map[string]string {
	fields, err := redis.StringMap(a.must(command, args...), nil)
	if err != nil {
		a.Fatalf("%s %v: %v", command, args, err)
	}
	return fields
}

// appendOnlyFile returns the file to which Redis appends, and how long it is.
func (a *arena) appendOnlyFile() (path string, size int64) {
	files, _ := filepath.Glob(filepath.Join(a.redis.Dir, "appendonlydir", "*.incr.aof"))
	if files = append(files, filepath.Join(a.redis.Dir, "appendonly.aof")); len(files) > 1 {
		files = files[len(files)-2:]
	}
	info, err := os.Stat(files[0])
	if err != nil {
		a.Fatalf("%v", err)
	}
	return files[0], info.Size()
}
