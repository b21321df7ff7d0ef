package resque

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// This file is what the fleet remembers of jobs that were with a worker when a process died. It
// finds the poison, the job that kills its process, and spares the jobs that ran beside it.
//
//  1. After a death all jobs that were with a worker are suspects. None is charged.
//  2. A process starts one suspect at a time, beside ordinary jobs. That suspect is on trial for
//     some time after its start, or until its end; then the next one starts.
//  3. A death is charged to the suspect on trial. Suspects that still run after their trials get
//     longer ones the next time, because a poison may need a minute to kill. In HandedOut the
//     process makes two exceptions. While other suspects still run, a first trial is too short to
//     decide: none is charged, and all get longer trials. The others get no longer trials if the
//     suspect on trial is in its second one, or was charged before: that another one ended the
//     process just then would be a coincidence.
//  4. A job is filed as failed if it was in more deaths than the limit allows and was charged with
//     two of them, and with a third of all. A job that ends in any way is no suspect any more.

const (
	// deathsAge is how long Redis remembers a job that was in several deaths.
	deathsAge = 24 * time.Hour
	// suspicionAge is how long Redis remembers a job that was in one death and not charged with it.
	// It runs again within seconds, unless a worker without this memory takes it.
	suspicionAge = time.Hour

	chargesNeeded = 2 // one may be a coincidence
	chargesShare  = 3 // and many may be, if there are many more deaths without a charge
)

// Deaths are the counts of a payload that was found in dead processes.
type Deaths struct {
	Count   int // in how many of them it was with a worker
	Charged int // how many of them it is charged with
	Level   int // how often its trial was too short to decide

	last        string // the process in which it was found last
	digest, raw string
}

// Trial returns how long the job is on trial after its start while so many others wait for
// theirs. Short trials come first: after a death that no job caused, all jobs that it interrupted
// run again within seconds.
func (d Deaths) Trial(waiting int) time.Duration {
	switch share := time.Duration(waiting + 1); d.Level {
	case 0:
		return min(250*time.Millisecond, 2*time.Second/share)
	case 1:
		return min(3*time.Second, 30*time.Second/share)
	case 2:
		return 90 * time.Second
	case 3:
		return 15 * time.Minute
	}
	return 2 * time.Hour
}

// guilty reports whether the job is to be filed as failed. With limit 0 it never is.
func (d Deaths) guilty(limit int) bool {
	return limit > 0 && d.Count > limit && d.Charged >= min(limit, chargesNeeded) && chargesShare*d.Charged >= d.Count
}

const digestBytes = 16

// Digest names a payload in the counts of jobs found in dead processes.
func Digest(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:digestBytes])
}

func digests(jobs []Reserved) []string {
	d := make([]string, len(jobs))
	for i, j := range jobs {
		d[i] = Digest(j.Payload)
	}
	return d
}

// DeathsOf reads the counts of jobs, in their order.
func (s Store) DeathsOf(c redis.Conn, jobs []Reserved, now time.Time) ([]Deaths, error) {
	return s.Deaths(c, digests(jobs), now)
}

// Deaths reads the counts of the given digests, in their order. A count that
// has not risen for a day is zero.
func (s Store) Deaths(c redis.Conn, digests []string, now time.Time) ([]Deaths, error) {
	if len(digests) == 0 {
		return nil, nil
	}
	raw, err := redis.Strings(c.Do("HMGET", redis.Args{}.Add(s.recovered()).AddFlat(digests)...))
	if err == nil && len(raw) != len(digests) {
		err = ErrAnswer
	}
	if err != nil {
		return nil, fmt.Errorf("reading which jobs were found in dead processes: %w", err)
	}
	deaths := make([]Deaths, len(digests))
	for i, d := range digests {
		deaths[i] = parseDeaths(raw[i], now)
		deaths[i].digest = d
	}
	return deaths, nil
}

// parseDeaths reads "count milliseconds process charged level".
func parseDeaths(raw string, now time.Time) Deaths {
	none := Deaths{raw: raw}
	fields := strings.Fields(raw)
	if len(fields) < 2 {
		return none
	}
	d := none
	var err, err2 error
	d.Count, err = strconv.Atoi(fields[0])
	ms, err2 := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || err2 != nil {
		return none
	}
	if len(fields) > 2 {
		d.last = fields[2]
	}
	if len(fields) > 4 {
		d.Charged, _ = strconv.Atoi(fields[3])
		d.Level, _ = strconv.Atoi(fields[4])
	}
	age := suspicionAge
	if d.Count > 1 || d.Charged > 0 {
		age = deathsAge
	}
	if now.Sub(time.UnixMilli(ms)) > age {
		return none
	}
	return d
}

// ForgetDeaths removes counts past their age.
func (s Store) ForgetDeaths(c redis.Conn, now time.Time) error {
	all, err := redis.StringMap(c.Do("HGETALL", s.recovered()))
	if err != nil {
		return fmt.Errorf("reading which jobs were found in dead processes: %w", err)
	}
	old := redis.Args{}.Add(s.recovered())
	for digest, raw := range all {
		if parseDeaths(raw, now).Count == 0 {
			old = old.Add(digest)
		}
	}
	if len(old) == 1 {
		return nil
	}
	_, err = c.Do("HDEL", old...)
	return err
}
