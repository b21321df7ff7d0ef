package main

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// delivery is one time that a job was given to a consumer over HTTP. Leases are ms by Redis's clock.
type delivery struct {
	process string
	at      int64  // ns, by the consumer's clock
	attempt int    // which one the server says it is
	id      string // the server's
	begun   int64  // when its lease began
	ends    int64  // when its last lease ended
	over    bool   // its consumer nacked it
	says    string // "ack" or "nack", while no answer to it is noted
}

// leasedStory is all that consumers noted about one job.
type leasedStory struct {
	given   []delivery
	acked   []int64 // ns, when each ack was answered
	refused int     // ends that came too late
}

// unheard reports whether an ack or nack was never answered, because the consumer was killed or its servers were.
func (s *leasedStory) unheard(how string) bool {
	return slices.ContainsFunc(s.given, func(d delivery) bool { return d.says == how })
}

// addLeased reads one line of a consumer: an event that is a capital letter.
func (l ledgers) addLeased(process string, event byte, name string, at int64, more []string) {
	s := l.leased[name]
	if s == nil {
		s = new(leasedStory)
		l.leased[name] = s
	}
	of := func(lease string) *delivery {
		for i, d := range slices.Backward(s.given) {
			if d.process == process && d.ends == leaseEnds(lease) {
				return &s.given[i]
			}
		}
		return new(delivery)
	}
	switch event {
	case 'D':
		d := delivery{process: process, at: at}
		if len(more) > 3 {
			d.attempt, _ = strconv.Atoi(more[0])
			d.ends, d.id = leaseEnds(more[1]), more[2]
			ttr, _ := strconv.ParseInt(more[3], 10, 64)
			d.begun = d.ends - ttr
		}
		s.given = append(s.given, d)
	case 'T':
		if len(more) > 1 {
			d := of(more[0])
			d.ends = max(d.ends, leaseEnds(more[1]))
		}
	case 'B':
		if len(more) > 1 {
			of(more[1]).says = more[0]
		}
	case 'N':
		if len(more) > 0 {
			d := of(more[0])
			d.over, d.says = true, ""
		}
	case 'K':
		s.acked = append(s.acked, at)
		if len(more) > 0 {
			of(more[0]).says = ""
		}
	case 'L':
		s.refused++
		if len(more) > 0 {
			of(more[0]).says = ""
		}
	}
}

// leaseEnds reads a lease: when it ends, and a half more where the job's end has effects.
func leaseEnds(lease string) int64 {
	ms, _, _ := strings.Cut(lease, ".")
	n, _ := strconv.ParseInt(ms, 10, 64)
	return n
}

// webJob is a job that was published over HTTP.
type webJob struct {
	tries int
	push  byte // 'a' acknowledged, 'u' unknown, 'r' refused
}

// webLoss is what a fault allows beyond what always holds, and what it does not.
type webLoss struct {
	clock bool // Redis's clock jumped: leases are compared by the consumers' clock
	whole bool // not allowed: no process died, so no try is used up that no consumer had
	safe  bool // not allowed: a replica had each job when its publish was answered, so Redis lost none of them
}

// check counts every job that was published over HTTP.
func (w *web) check(allowed webLoss) func(ledgers, *result) {
	return func(l ledgers, r *result) {
		a, beyond, lost := w.a, 0, 0
		dead := a.deadLetters(webNamespace + "." + webQueue)
		for name, j := range w.jobs {
			s, u := l.leased[name], w.undone[name]
			if s == nil {
				s = new(leasedStory)
			}
			if u == nil {
				u = new(undone)
			}
			if s.ids() > 1 {
				w.keyLost(u, s.given)
			}
			if j.push == 'r' {
				r.refused++
				if len(s.given) > 0 {
					a.problem("the publish of job %s was refused, and yet it was delivered", name)
				}
				continue
			}
			if j.push == 'u' {
				r.unknown++
				if len(s.given)+dead[name] == 0 {
					continue // it never reached Redis
				}
			}
			r.pushed++
			r.retried += max(0, len(s.given)-1)
			switch {
			case dead[name] > 0:
				r.failed++
				if dead[name] > 1 {
					a.problem("job %s is %d dead letters", name, dead[name])
				}
				if len(s.acked) > 0 && len(u.at) == 0 {
					a.problem("job %s was acknowledged and is a dead letter", name)
				}
			case len(s.acked) > 0, s.unheard("ack"):
				r.done++
			case u.gone:
				if r.undone++; u.known {
					lost++
				}
			default:
				r.lost = append(r.lost, name)
			}
			if u.known && allowed.safe {
				a.problem("the publish of job %s was acknowledged, and no replica had it", name)
			}
			more, wrong := u.deliveredTooOften(s.given, j.tries)
			if beyond += more; wrong > 0 {
				a.problem("job %s of %d tries was delivered %d times", name, j.tries, len(s.given))
			}
			s.checkLeases(a, name, allowed, u)
		}
		if left := append(a.list("HKEYS", "resque:go:leased"), a.list("ZRANGE", "resque:go:leases", 0, -1)...); len(left) > 0 {
			a.problem("leases are left: %.3q", left)
		}
		if n := w.losses; n != (losses{}) {
			a.note("Redis itself lost %d jobs, of which %d were acknowledged and not done, %d ends and %d moves of jobs; %d deliveries were beyond the tries for that", n.jobs, lost, n.ends, n.moves, beyond)
		}
	}
}

// ids is how many jobs of a name there were. There is more than one if Redis lost the key under which it was published.
func (s *leasedStory) ids() int {
	ids := map[string]bool{}
	for _, d := range s.given {
		ids[d.id] = true
	}
	return len(ids)
}

// checkLeases looks at what consumers noted of a job: they had it one after the other, and none had it after its ack.
func (s *leasedStory) checkLeases(a *arena, name string, allowed webLoss, u *undone) {
	if len(s.given) == 0 {
		return
	}
	slices.SortFunc(s.given, func(x, y delivery) int {
		if allowed.clock {
			return cmp.Compare(x.at, y.at)
		}
		return cmp.Or(cmp.Compare(x.begun, y.begun), cmp.Compare(x.attempt, y.attempt)) // a server that stood still gives a job late
	})
	if allowed.whole && s.given[0].attempt > 1 {
		a.problem("job %s used up a try before a consumer got it", name)
	}
	if len(u.at) > 0 { // of leases and ends some were lost
		return
	}
	if len(s.acked) > 0 {
		last := s.given[len(s.given)-1]
		after := time.Duration(last.begun*int64(time.Millisecond) - s.acked[0])
		if allowed.clock {
			after = time.Duration(last.at - s.acked[0])
		}
		if after > 0 {
			a.problem("job %s was delivered %v after its ack", name, after)
		}
	}
	for i := 1; i < len(s.given); i++ {
		first, second := s.given[i-1], s.given[i]
		if first.over || first.says == "nack" || first.id != second.id {
			continue
		}
		early := first.ends - second.begun
		if allowed.clock { // a consumer notes a job a little later than Redis
			early = (first.at-second.at)/int64(time.Millisecond) + webTTR.Milliseconds()/2
		}
		if early > 0 {
			a.problem("job %s was delivered again %d ms before its lease ended", name, early)
		}
	}
}

// deadLetters counts the failure records of a queue by the names of their jobs.
func (a *arena) deadLetters(queue string) map[string]int {
	dead := map[string]int{}
	for _, text := range a.list("LRANGE", "resque:"+queue+"_failed", 0, -1) {
		var record struct {
			Payload struct {
				Args []string `json:"args"`
			} `json:"payload"`
		}
		if err := json.Unmarshal([]byte(text), &record); err != nil || len(record.Payload.Args) != 1 {
			a.problem("a dead letter is not as Resque writes it: %.100q, %v", text, err)
			continue
		}
		name, _, _ := strings.Cut(record.Payload.Args[0], " ")
		dead[name]++
	}
	return dead
}
