package doctor

import (
	"time"
)

// idFaults are those of checks 24 to 27: what other programs have written of workers, and ends Ruby's.
var idFaults = []fault{
	{number: 24, name: "two parts", expect: `"job7:88" names no queues (its id has fewer`, remedy: `SREM ns`, plant: func(w *world) {
		w.do("SADD", "~workers", "job7:88")
	}, mended: func(w *world) { w.gone("SISMEMBER", "~workers", "job7:88") }},
	{number: 24, name: "no queues", expect: `"h:1:" names no queues:`, plant: func(w *world) { w.do("SADD", "~workers", "h:1:") }},
	{number: 24, name: "commas", expect: `"h:1:,,"`, plant: func(w *world) { w.do("SADD", "~workers", "h:1:,,") }},
	{number: 24, name: "exclusions", expect: "but those that it excludes", remedy: `'h:1:!a,!b'`, plant: func(w *world) { w.do("SADD", "~workers", "h:1:!a,!b") }},
	{number: 24, name: "heartbeat only", expect: `"h"`, remedy: "HDEL ns", plant: func(w *world) {
		w.do("HSET", "~workers:heartbeat", "h", w.now(0))
	}, mended: func(w *world) { w.gone("HEXISTS", "~workers:heartbeat", "h") }},
	{number: 24, name: "with a job", expect: `"h:1"`, plant: func(w *world) {
		w.do("SADD", "~workers", "h:1")
		w.do("HSET", "~workers:heartbeat", "h:1", w.now(time.Hour))
		w.do("SET", "~worker:h:1", `{"queue":"mail","run_at":"2020-01-01T00:00:00Z","payload":{"class":"A","args":[]}}`)
	}, also: []int{28}, mended: func(w *world) {
		w.gone("EXISTS", "~worker:h:1")
		if failed, _ := w.do("LLEN", "~failed").(int64); failed != 1 {
			w.t.Errorf("the job that it had in hand is among %d failures", failed)
		}
	}},
	{number: 24, name: "escape", expect: `"evil\x1b[2J:1"`, remedy: "goworker doctor --fix 24", plant: func(w *world) {
		w.do("SADD", "~workers", "evil\x1b[2J:1")
	}},
	{number: 25, name: "no JSON", expect: "is no JSON", remedy: "DEL ns", plant: func(w *world) {
		w.do("SADD", "~workers", "h:1:mail")
		w.do("SET", "~worker:h:1:mail", "busy")
	}, mended: func(w *world) { w.gone("EXISTS", "~worker:h:1:mail") }},
	{number: 25, name: "no payload", expect: "has no payload", plant: func(w *world) {
		w.do("SADD", "~workers", "h:1:mail")
		w.do("SET", "~worker:h:1:mail", `{"queue":"mail","payload":null}`)
	}},
	{number: 26, name: "word", expect: `is "yesterday", which is no time`, plant: func(w *world) {
		w.do("SADD", "~workers", "h:1:mail")
		w.do("HSET", "~workers:heartbeat", "h:1:mail", "yesterday")
	}, mended: func(w *world) { w.gone("HEXISTS", "~workers:heartbeat", "h:1:mail") }},
	{number: 26, name: "seconds", expect: `"1700000000"`, plant: func(w *world) {
		w.do("HSET", "~workers:heartbeat", "h:1:mail", "1700000000")
	}, also: []int{28}},
	{number: 27, expect: `ahead of the clock of Redis`, remedy: `"h"`, plant: func(w *world) {
		w.do("SADD", "~workers", "h:1:mail")
		w.do("HSET", "~workers:heartbeat", "h:1:mail", w.now(-time.Hour))
	}},
}

// gone asks whether something is there, and it must not be.
func (w *world) gone(command string, args ...any) {
	w.t.Helper()
	if n, _ := w.do(command, args...).(int64); n != 0 {
		w.t.Errorf("%s %v: it is there", command, args)
	}
}
