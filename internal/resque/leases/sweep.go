package leases

import (
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

var (
	expiredScript = resque.LoadScript(scriptFiles, "expired")
	adoptScript   = resque.LoadScript(scriptFiles, "adopt")
	jumpScript    = resque.LoadScript(scriptFiles, "jump")
)

// expiredBytes is about how many bytes of payloads Expired reads at once.
const expiredBytes = 4 << 20

// adopted is the lease of a job whose own one was removed: how long its client needs is not known.
const adopted = time.Minute

// Expired returns jobs whose leases have ended, at most so many, the first lease first. Their Fate is Over, or Done if a
// client acknowledged the same bytes after they went back before. now is Redis's time, and first is when the first lease
// ends of those that it has not returned, both in ms; 0: there is none. first may be before now: then there are more.
//
// If go:leases was removed, it gives the jobs a lease of a minute.
func (s Store) Expired(c redis.Conn, most int) (now, first int64, jobs []Job, err error) {
	var a resque.Call
	for _, key := range []string{s.KeyOfLeases(), s.KeyOfLeased(), s.ReturnedKey().String(), s.JumpKey().String()} {
		a.Key(key)
	}
	a.Arg(min(most, MostJobs), expiredBytes)
	now, first, missing, jobs, err := readExpired(redis.Values(a.Do(c, expiredScript)))
	if err == nil && missing > 0 {
		var ends int64
		if ends, err = s.adopt(c, now); err == nil && ends > 0 && (first == 0 || ends < first) {
			first = ends
		}
	}
	if err != nil {
		return 0, 0, nil, s.explain(c, err, "", "reading which jobs clients hold too long")
	}
	return now, first, jobs, nil
}

// ReadHeld has a renewal read whether clients hold jobs, and whether there are marks of jobs that went back. It calls none where
// there is neither.
func (s Store) ReadHeld(c *resque.Cargo, none func()) {
	held := 0
	count := func(reply any, err error) {
		n, err := redis.Int(reply, err)
		if held += n; err != nil {
			held++ // the look says what is wrong
		}
	}
	c.Read(count, "HLEN", s.HashKey("leased"))
	c.Read(func(reply any, err error) {
		if count(reply, err); held == 0 {
			none()
		}
	}, "HLEN", s.ReturnedKey())
}

func readExpired(r []any, err error) (now, first, missing int64, jobs []Job, _ error) {
	if err == nil && (len(r) < 3 || len(r)%4 != 3) {
		err = resque.ErrAnswer
	}
	if err != nil {
		return 0, 0, 0, nil, err
	}
	now, err1 := redis.Int64(r[0], nil)
	text, err2 := redis.String(r[1], nil)
	missing, err3 := redis.Int64(r[2], nil)
	if text != "" && err2 == nil {
		first, err2 = strconv.ParseInt(text, 10, 64)
	}
	if err1 != nil || err2 != nil || err3 != nil {
		return 0, 0, 0, nil, resque.ErrAnswer
	}
	for row := range slices.Chunk(r[3:], 4) {
		place, err1 := redis.String(row[0], nil)
		lease, err2 := redis.String(row[1], nil)
		payload, err3 := redis.Bytes(row[2], nil)
		mark, err4 := redis.String(row[3], nil)
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
			return 0, 0, 0, nil, resque.ErrAnswer
		}
		j := Job{Fate: Over, Lease: lease, Effects: HasEffects(lease), Payload: payload}
		if mark != "" {
			j.Fate = Done
		}
		j.Queue, j.ID, _ = ParsePlace(place)
		jobs = append(jobs, j)
	}
	return now, first, missing, jobs, nil
}

// adopt gives leases to jobs that have none, and returns when those end, 0 if there was none.
func (s Store) adopt(c redis.Conn, now int64) (ends int64, err error) {
	places, err := redis.Strings(c.Do("HKEYS", s.KeyOfLeased()))
	if err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(places, MostJobs) {
		var a resque.Call
		a.Key(s.KeyOfLeases())
		a.Key(s.KeyOfLeased())
		a.Arg(adopted.Milliseconds())
		for _, place := range chunk {
			a.Arg(place)
		}
		n, err := redis.Int(a.Do(c, adoptScript))
		if err != nil {
			return ends, err
		}
		if n > 0 {
			ends = now + adopted.Milliseconds()
		}
	}
	return ends, nil
}

// mostJump is the longest time for which leases end later after a jump of Redis's clock.
const mostJump = 12 * time.Hour

// Jump notes that Redis's clock has jumped ahead: until as much time is over, leases end so much later. So one that was
// given before keeps its time. A longer jump that is noted stays: several servers note the same one.
func (s Store) Jump(c redis.Conn, by time.Duration) error {
	ms := min(by, mostJump).Milliseconds()
	if ms <= 0 {
		return nil
	}
	var a resque.Call
	a.Key(s.JumpKey().String())
	a.Arg(ms)
	_, err := a.Do(c, jumpScript)
	return s.explain(c, err, "", "noting that Redis's clock jumped ahead by %v", by)
}
