package checks

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// limitChecks are about numbers of limits, and about locks and slots that nothing gives back.
var limitChecks = []*Check{{
	Number: 44, Name: "limit-numbers", Severity: Warning, Uses: Doctor, Title: "limits that let nothing run",
	Sentence: "limit {limit} is {number}, {what}",
	Remedy:   "give it a number, or have its programs write theirs again",
	Command:  "goworker limits reset -- {limit}",
	look: func(l *look) error {
		return eachLimit(l, func(spec, text string, n float64, ok bool, _ []string) {
			switch {
			case !ok:
				l.find(values{"limit": spec, "number": text, "what": words("which is no number: one job runs at a time, or one starts each second")})
			case n == 0 && isRunning(spec):
				l.find(values{"limit": spec, "number": text, "what": words("so no job of it runs")})
			}
		})
	},
}, {
	Number: 45, Name: "limit-by-hand", Severity: Warning, Uses: Doctor, Title: "limits that were set by hand",
	Sentence: "limit {limit} is {number}, and its programs say {theirs}: it was set by hand, and has no end but the next start of a program",
	Remedy:   "reset it when the reason for it is over",
	Command:  "goworker limits reset -- {limit}",
	look: func(l *look) error {
		return eachLimit(l, func(spec, text string, n float64, ok bool, theirs []string) {
			if ok && (n > 0 || !isRunning(spec)) && len(theirs) == 1 && theirs[0] != text {
				l.find(values{"limit": spec, "number": text, "theirs": theirs[0]})
			}
		})
	},
}, {
	Number: 46, Name: "limits-differ", Severity: Warning, Uses: Doctor, Title: "programs with different numbers for a limit",
	Sentence: "the programs of the fleet have different numbers for limit {limit}: {theirs}; the one that started last counts",
	Remedy:   "give it the same number in all programs, or two names",
	look: func(l *look) error {
		return eachLimit(l, func(spec, _ string, _ float64, _ bool, theirs []string) {
			if len(theirs) > 1 {
				l.find(values{"limit": spec, "theirs": some(theirs)})
			}
		})
	},
}, {
	Number: 47, Name: "lost-locks", Severity: Warning, Uses: Doctor, Title: "locks whose jobs are nowhere",
	Bound:    Bound{time.Minute.Seconds(), "s"},
	Sentence: "the lock {lock} is held by job {id} of queue {queue}, which is nowhere: equal jobs are refused until the lock ends, in {left}",
	Remedy:   "release it",
	Command:  "goworker locks release -- {lock}",
	look:     lostLocks,
	fix: func(f *fixing) (bool, error) {
		lock, held, err := f.store.ReadLock(f.conn, f.text("lock"))
		if err != nil || !held || lock.ID != f.text("id") {
			return false, err
		}
		where, err := f.store.SeekHolder(f.conn, lock, true)
		return where == resque.HolderNowhere, err
	},
}, {
	Number: 48, Name: "lost-slots", Severity: Warning, Uses: Doctor, Title: "slots of limits that no job holds",
	Sentence: "{slots} of the {all} jobs that count as running under limit {limit} are nowhere, and other jobs wait for them",
	Remedy:   "wait a minute: the next process that finds the limit used up frees them; without a process nothing needs them",
	look:     lostSlots,
}}

// isRunning reports whether a limit counts jobs that run: 0 lets none run. A rate of 0 has no time between two starts.
func isRunning(spec string) bool {
	limit, _ := resque.ParseSpec(spec)
	return limit.Kind == resque.LimitRunning || limit.Kind == resque.LimitRunningHere
}

// eachLimit calls each for the limits in Redis: their text there, its number, and which numbers the programs that live have.
func eachLimit(l *look, each func(spec, text string, n float64, ok bool, theirs []string)) error {
	f, err := fleetOf(l)
	if err != nil {
		return err
	}
	numbers, err := read(l, "limits", func() (map[string]string, error) { return l.store.LimitNumbers(l.conn) })
	if err != nil {
		return err
	}
	theirs := make(map[string]map[string]bool)
	for _, p := range f.processes {
		var has map[string]string
		if !p.alive || json.Unmarshal([]byte(p.Fields["limits"]), &has) != nil {
			continue
		}
		for spec, text := range has {
			if theirs[spec] == nil {
				theirs[spec] = make(map[string]bool)
			}
			theirs[spec][text] = true
		}
	}
	for _, spec := range sortedKeys(numbers) {
		n, _, ok := resque.ParseNumbers(numbers[spec])
		each(spec, numbers[spec], n, ok, sortedKeys(theirs[spec]))
	}
	return nil
}

// lostLocks looks for the jobs that hold locks. A search may cost Redis as much as the queue is long.
func lostLocks(l *look) error {
	found, err := keys(l, resque.LockKey)
	if err != nil {
		return err
	}
	now, err := l.store.Now(l.conn)
	if err != nil {
		return err
	}
	until := l.shareOf(3)
	for n, name := range found {
		if l.over() || !l.before(until) {
			l.saw(n, len(found))
			return nil
		}
		lock, held, err := l.store.ReadLock(l.conn, name)
		if err != nil && !resque.IsWrongType(err) {
			return err
		}
		if !held || lock.Hold == resque.HoldTime || now.Sub(lock.Since) < l.check.Bound.Duration() {
			continue
		}
		switch where, err := l.store.SeekHolder(l.conn, lock, false); {
		case err != nil && !resque.IsWrongType(err):
			return err
		case where == resque.HolderResting, where == resque.HolderMoving:
			l.saw(n, len(found))
		case where == resque.HolderNowhere:
			left := words("an unknown time")
			if lock.Left > 0 {
				left = words(duration(lock.Left))
			}
			l.find(values{"lock": name, "id": lock.ID, "queue": lock.Queue, "left": left})
		}
	}
	return nil
}

// lostSlots looks for the jobs that count as running. A job may end between the two looks, so what is lost is looked at twice.
func lostSlots(l *look) error {
	limits, err := keys(l, resque.SlotsKey)
	if err != nil {
		return err
	}
	for n, limit := range limits {
		if l.over() {
			l.saw(n, len(limits))
			return nil
		}
		lost, all, err := slotsOf(l, limit)
		if err != nil || len(lost) == 0 {
			if err != nil && !resque.IsWrongType(err) {
				return err
			}
			continue
		}
		again, _, err := slotsOf(l, limit)
		if err != nil {
			return err
		}
		stay := 0
		for holder := range lost {
			if again[holder] {
				stay++
			}
		}
		if stay > 0 {
			name, _, _ := strings.Cut(limit, "@")
			l.find(values{"limit": name, "slots": stay, "all": all})
		}
	}
	return nil
}

// slotsOf returns the holders of slots that have no such job, and how many holders there are.
func slotsOf(l *look, limit string) (lost map[string]bool, all int, err error) {
	lost = make(map[string]bool)
	var refused error
	err = pages(l, func(cursor uint64) (resque.Page, error) { return l.store.SlotPage(l.conn, limit, cursor) }, func(holders []string) bool {
		all += len(holders)
		var gone []string
		if gone, refused = l.store.LostSlots(l.conn, holders); refused != nil {
			return false
		}
		for _, holder := range gone {
			lost[holder] = true
		}
		return len(lost) < mostIDs
	})
	return lost, all, errors.Join(err, refused)
}
