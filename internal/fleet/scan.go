package fleet

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

const (
	// ScanEvery is how long after a scan of all keys the next one begins.
	ScanEvery = 20 * time.Second

	// scanPages is how many pages of keys a scan reads after each renewal, and sweepPages how
	// many a sweep reads, which is urgent. A page costs Redis a millisecond at most.
	scanPages  = 10
	sweepPages = 100
)

// scanner looks at all keys for records of processes that no lease protects, because leases were
// removed. A live process restores its lease at its next renewal; one that does not is dead. The
// scanner also restores the names of lanes and of groups in which jobs wait.
type scanner struct {
	base     part.Base
	members  *members
	troubles *troubles
	reap     func(redis.Conn, resque.Lease) error

	tracks atomic.Bool // there are orphans, which must be looked at after each renewal; written by scan
	sweeps atomic.Bool // all keys are to be looked at soon; scan ends it

	// These are for the reaper's goroutine.
	orphans  map[string]time.Time // records without a lease, and since when
	cursor   uint64               // the next page; 0: the scan is over
	sweeping bool                 // this scan began as a sweep
	scanned  time.Time            // the end of the last scan
	looked   time.Time            // when orphans were last looked at
}

func newScanner(r *reaper) *scanner {
	return &scanner{base: r.base, members: r.lease.members, troubles: &r.troubles, reap: r.reap, orphans: make(map[string]time.Time)}
}

// sweep has all keys looked at as soon as possible. It is safe for concurrent use, as wanted is.
func (s *scanner) sweep() { s.sweeps.Store(true) }

// wanted reports whether this process must scan even if it does not lead.
func (s *scanner) wanted() bool { return s.sweeps.Load() || s.tracks.Load() }

// scan reaps the orphans that have had no lease for LeasePeriod, and reads some pages of keys.
func (s *scanner) scan(c redis.Conn) error {
	now := s.base.Clock.Now()
	if now.Sub(s.looked) > renewalGap { // the orphans of then may have had a lease since
		clear(s.orphans)
	}
	s.looked = now
	defer func() { s.tracks.Store(len(s.orphans) > 0) }()
	if err := s.reapOrphans(c, now); err != nil {
		return err
	}
	pages := scanPages
	if s.sweeps.Load() {
		pages = sweepPages
		if !s.sweeping { // begin again: what was removed may have been on pages that were read before
			s.cursor, s.sweeping = 0, true
		}
	} else if s.cursor == 0 && now.Sub(s.scanned) < ScanEvery {
		return nil
	}
	for range pages {
		next, err := s.page(c, now)
		if err != nil {
			return err
		}
		if s.cursor = next; next == 0 {
			s.scanned, s.sweeping = now, false
			s.sweeps.Store(false)
			break
		}
	}
	return nil
}

// leased returns which of these processes have leases. Mostly the last renewal has shown it.
func (s *scanner) leased(c redis.Conn, processes []string) (map[string]bool, error) {
	members := s.members.Members()
	slices.Sort(members)
	leased := make(map[string]bool)
	var others []string
	for _, p := range processes {
		if _, leased[p] = slices.BinarySearch(members, p); !leased[p] {
			others = append(others, p)
		}
	}
	have, err := s.base.Store.HaveLeases(c, others)
	maps.Copy(leased, have)
	return leased, err
}

func (s *scanner) reapOrphans(c redis.Conn, now time.Time) error {
	leased, err := s.leased(c, slices.Collect(maps.Keys(s.orphans)))
	if err != nil {
		return err
	}
	for process, since := range s.orphans {
		switch {
		case leased[process]:
			delete(s.orphans, process)
		case now.Sub(since) >= LeasePeriod:
			delete(s.orphans, process)
			if err := s.reap(c, resque.Lease{Process: process}); err != nil {
				return err
			}
		}
	}
	return nil
}

// page reads one page of the keys: it finds records of processes without a lease, and lanes and groups
// with jobs whose names are lost.
func (s *scanner) page(c redis.Conn, now time.Time) (next uint64, err error) {
	found, next, err := s.base.Store.Strays(c, s.cursor)
	if err != nil {
		return 0, err
	}
	leased, err := s.leased(c, found.Processes)
	if err != nil {
		return 0, err
	}
	for _, p := range found.Processes {
		if _, known := s.orphans[p]; !known && !leased[p] {
			s.orphans[p] = now
		}
	}
	n, err := s.base.Store.Relane(c, found.Lanes)
	if refused := redis.Error(""); err == nil || errors.As(err, &refused) && !conn.MustRedial(err) {
		s.troubles.report("putting back lanes", err) // a broken key must not keep the scan from the others
		err = nil
	}
	if n > 0 {
		s.base.Log.Warn("Redis had lost the names of lanes in which jobs wait; they are put back", "lanes", n)
	}
	if err != nil {
		return next, err
	}
	n, err = s.base.Store.Regroup(c, found.Groups)
	if refused := redis.Error(""); err == nil || errors.As(err, &refused) && !conn.MustRedial(err) {
		s.troubles.report("putting back groups", err)
		err = nil
	}
	if n > 0 {
		s.base.Log.Warn("Redis had lost the times of groups in which jobs wait; they are put back", "groups", n)
	}
	return next, err
}
