package resque

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Methods by which it is known since when the job at the head of a queue waits.
const (
	AgeUnknown = ""        // it is not known
	AgeCounted = "counted" // from how many jobs were pushed before it: see package depth
	AgeSeen    = "seen"    // it waits longer than that: since then it was seen at the head, or the queue was watched
)

// Depth is what the keeper of the fleet has found out about a queue. Its jobs in lanes are not in it.
type Depth struct {
	At      time.Time // when it looked, by Redis's clock
	Length  int64     // jobs in the list then
	Method  string    // AgeCounted, AgeSeen or AgeUnknown
	Oldest  time.Time // since when the job at the head waits, by that method; zero: there is none, or it is not known
	Pushed  int64     // a number that rises by one with each job that is pushed
	Removed int64     // how much more than go:taken says has left the queue

	// In and Out are how many jobs a second came and went in the last minute; negative: not known.
	In, Out float64

	// Trail is a few of the moments by which the jobs that wait were pushed, oldest first: for the next keeper.
	Trail []Passed
}

// Passed says that the number of a queue reached Pushed after From and at To at the latest.
type Passed struct {
	From, To time.Time
	Pushed   int64
}

// KeyOfTaken is the hash of how many jobs goworker has taken from each queue and not put back.
func (s Store) KeyOfTaken() string { return s.ns + "go:taken" }

// KeyOfDepths is the hash of what the keeper knows of each queue: see Depth.
func (s Store) KeyOfDepths() string { return s.ns + "go:depths" }

// DepthsKey is that hash as an effect takes it.
func (s Store) DepthsKey() Key { return hashKey(s.KeyOfDepths()) }

// depthsStay is how long these keys stay after the last write, in seconds.
const depthsStay = 24 * 60 * 60

// String is the Depth as go:depths has it: times in ms, then the trail, in base 36, as times before the first.
func (d Depth) String() string {
	method, oldest := d.Method, int64(0)
	if method == AgeUnknown {
		method = "-"
	}
	if !d.Oldest.IsZero() {
		oldest = d.Oldest.UnixMilli()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %d %d %d %d %.3f %.3f", d.At.UnixMilli(), method, oldest, d.Length, d.Pushed, d.Removed, d.In, d.Out)
	for _, p := range d.Trail {
		for _, n := range []int64{d.At.Sub(p.From).Milliseconds(), d.At.Sub(p.To).Milliseconds(), d.Pushed - p.Pushed} {
			b.WriteString(" " + strconv.FormatInt(n, 36))
		}
	}
	return b.String()
}

// ParseDepth reads what String writes. What another program wrote is not ok.
func ParseDepth(text string) (d Depth, ok bool) {
	f := strings.Fields(text)
	if len(f) < 8 || len(f) > 8+3*64 || (len(f)-8)%3 != 0 {
		return Depth{}, false
	}
	var errs []error
	number := func(text string, base int) int64 {
		n, err := strconv.ParseInt(text, base, 64)
		errs = append(errs, err)
		return n
	}
	rate := func(text string) float64 {
		n, err := strconv.ParseFloat(text, 64)
		if errs = append(errs, err); n != n {
			n = -1
		}
		return n
	}
	at := number(f[0], 10)
	d = Depth{At: time.UnixMilli(at), Method: f[1], Length: number(f[3], 10), Pushed: number(f[4], 10), Removed: number(f[5], 10), In: rate(f[6]), Out: rate(f[7])}
	if d.Method == "-" {
		d.Method = AgeUnknown
	}
	if oldest := number(f[2], 10); oldest != 0 {
		d.Oldest = time.UnixMilli(oldest)
	}
	for i := 8; i < len(f); i += 3 {
		d.Trail = append(d.Trail, Passed{time.UnixMilli(at - number(f[i], 36)), time.UnixMilli(at - number(f[i+1], 36)), d.Pushed - number(f[i+2], 36)})
	}
	if errors.Join(errs...) != nil || d.Method != AgeCounted && d.Method != AgeSeen && d.Method != AgeUnknown {
		return Depth{}, false
	}
	return d, true
}

// Depths reads what the keeper knows of the queues. A Redis without a keeper has nothing.
func (s Store) Depths(c redis.Conn) (map[string]Depth, error) {
	all, err := redis.StringMap(c.Do("HGETALL", s.KeyOfDepths()))
	if err != nil {
		return nil, fmt.Errorf("reading the ages of queues: %w", Explain(err))
	}
	return parseDepths(all), nil
}

func parseDepths(all map[string]string) map[string]Depth {
	depths := make(map[string]Depth, len(all))
	for queue, text := range all {
		if d, ok := ParseDepth(text); ok {
			depths[queue] = d
		}
	}
	return depths
}
