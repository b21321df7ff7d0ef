package resque

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

var (
	takeScript, takeText = script("take"), scriptText("take")
	sortScript           = script("sort")
	relaneScript         = script("relane")
)

// Take asks for jobs from lanes, and which lanes to ask for next.
type Take struct {
	Want   int      // take at most this many
	Lanes  []Lane   // by turn, the next one first
	Limits []Limit  // report also whether these are used up
	Look   []Look   // report which of these are next
	Queues []string // report how many jobs of these are not sorted yet
	Arm    bool     // track all of this, so that Redis notifies us of changes; there are no Lanes then

	// Numbers are the numbers of limits that this process registered, by Limit.Spec. They apply
	// where Redis has lost a limit's numbers, and the script writes them back.
	Numbers map[string]string
}

// Look asks for the first lanes of a set, at most that many.
type Look struct {
	Lanes
	Show int
}

// Taken is Redis's answer to a Take. The jobs are among those of the exchange.
type Taken struct {
	Now     int64            // Redis's time in µs
	Full    map[string]int64 // limits, as text, that are used up; until when in µs, 0: until a job ends
	Shown   []Shown          // in the order of Look
	Waiting []int64          // in the order of Queues
	Broken  []KeyError       // also limits whose numbers are wrong
}

// Shown is the state of the lanes of a queue.
type Shown struct {
	Lanes int         // how many there are
	Ready []ReadyLane // of those shown: the lanes whose turn has come, the first one first
	Next  int64       // when the next lane's turn comes, in µs; 0: unknown
}

// ReadyLane is a lane and when its turn came, in µs.
type ReadyLane struct {
	Own  string
	Turn int64
}

func (s Store) takeArgs(x *Exchange, script string) []any {
	t := x.Take
	c := Call{keys: make([]any, 2, 16+4*len(t.Lanes)), before: 2}
	c.Key(s.inflight(x.Process))
	c.Key(s.process(x.Process))
	c.Key(s.processes())
	c.Key(s.reaped(x.Process))
	c.Key(s.pauseAll())
	c.Key(s.recovered())
	c.Key(s.limits())
	c.Key(s.clock())
	c.Arg(x.Process, x.Epoch, x.Last, t.Want, MaxExchangeBytes)

	limits := t.limits()
	c.Arg(len(limits))
	place := make(map[string]int, len(limits))
	for i, l := range limits {
		kind := "rate"
		switch {
		case l.running():
			kind = "slots"
		case l.putsOff():
			kind = "wait"
		}
		c.Arg(kind, c.Key(s.limitKey(l, x.Process)), l.Spec(), t.Numbers[l.Spec()])
		place[l.String()] = i + 1
	}
	turns := make(map[Lanes]int)
	turnsKey := func(l Lanes) int {
		if turns[l] == 0 {
			turns[l] = c.Key(s.turns(l))
		}
		return turns[l]
	}
	c.Arg(len(t.Lanes))
	for _, l := range t.Lanes {
		held := l.Limits()
		c.Arg(c.Key(s.lane(l)), turnsKey(l.Lanes()), l.Own, lanePrefix(l), len(held))
		for _, limit := range held {
			c.Arg(place[limit.String()])
		}
	}
	c.Arg(len(t.Look))
	for _, l := range t.Look {
		c.Arg(turnsKey(l.Lanes), l.Show)
	}
	c.Arg(len(t.Queues))
	for _, q := range t.Queues {
		c.Arg(c.Key(s.KeyOfQueue(q)))
	}
	c.keys[0], c.keys[1] = script, len(c.keys)-c.before
	return append(c.keys, c.argv...)
}

// limits returns the limits of all the lanes, each once.
func (t *Take) limits() (limits []Limit) {
	seen := make(map[Limit]bool)
	add := func(all []Limit) {
		for _, l := range all {
			if !seen[l] {
				seen[l] = true
				limits = append(limits, l)
			}
		}
	}
	add(t.Limits)
	for _, lane := range t.Lanes {
		add(lane.Limits())
	}
	return limits
}

// armTake makes Redis track what the look will read, and so must precede it. The script itself
// is not tracked: that would cost Redis time for each key it reads.
func (s Store) armTake(c redis.Conn, x *Exchange) error {
	if err := c.Send("CLIENT", "CACHING", "YES"); err != nil {
		return err
	}
	var keys []any
	for _, l := range x.Take.Look {
		keys = append(keys, s.turns(l.Lanes))
	}
	for _, q := range x.Take.Queues {
		keys = append(keys, s.KeyOfQueue(q))
	}
	for _, l := range x.Take.Limits {
		keys = append(keys, s.limitKey(l, x.Process))
	}
	return c.Send("EXISTS", keys...)
}

// taken adds the answer to that of the exchange.
func (x *Exchange) taken(reply any, out *Exchanged) error {
	t := x.Take
	r, err := redis.Values(reply, nil)
	if err != nil || len(r) == 0 {
		return fmt.Errorf("take: unexpected answer %v", reply)
	}
	status, _ := redis.String(r[0], nil)
	if err := statusError(status); err != nil {
		return err
	}
	if len(r) != 8 {
		return fmt.Errorf("take: unexpected answer %v", reply)
	}
	flags, _ := redis.String(r[1], nil)
	out.Paused = out.Paused || strings.Contains(flags, "p")
	out.Fenced = out.Fenced || strings.Contains(flags, "f")
	out.Suspects = out.Suspects || strings.Contains(flags, "s")

	taken := &Taken{Full: make(map[string]int64)}
	out.Taken = taken
	taken.Now, _ = redis.Int64(r[2], nil)
	groups, _ := r[3].([]any)
	for _, g := range groups {
		group, _ := g.([]any)
		lane, _ := redis.Int(first(group), nil)
		if lane < 1 || lane > len(t.Lanes) {
			return fmt.Errorf("take: answer names lane %d of %d", lane, len(t.Lanes))
		}
		from := &t.Lanes[lane-1]
		for i := 1; i+1 < len(group); i += 2 {
			ticket, _ := redis.Int64(group[i], nil)
			payload, _ := group[i+1].([]byte)
			out.Jobs = append(out.Jobs, Reserved{Ticket: ticket, Queue: from.Queue, Payload: payload, Lane: from})
		}
	}
	slices.SortFunc(out.Jobs, func(a, b Reserved) int { return int(a.Ticket - b.Ticket) })
	limits := t.limits()
	full, _ := redis.Int64s(r[4], nil)
	for i := 0; i+1 < len(full); i += 2 {
		if at := full[i]; at >= 1 && int(at) <= len(limits) {
			taken.Full[limits[at-1].String()] = full[i+1]
		}
	}
	looks, _ := r[5].([]any)
	for _, look := range looks {
		taken.Shown = append(taken.Shown, shown(look, taken.Now))
	}
	taken.Waiting, _ = redis.Int64s(r[6], nil)
	if len(taken.Shown) != len(t.Look) || len(taken.Waiting) != len(t.Queues) {
		return fmt.Errorf("take: unexpected answer %v", reply)
	}
	broken, _ := redis.Strings(r[7], nil)
	for i := 0; i+1 < len(broken); i += 2 {
		taken.Broken = append(taken.Broken, KeyError{Key: broken[i], Reason: broken[i+1]})
	}
	return nil
}

func first(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func shown(look any, now int64) (s Shown) {
	list, _ := look.([]any)
	s.Lanes, _ = redis.Int(first(list), nil)
	var turns []any
	if len(list) > 1 {
		turns, _ = list[1].([]any)
	}
	for i := 0; i+1 < len(turns); i += 2 {
		own, _ := redis.String(turns[i], nil)
		score, _ := redis.String(turns[i+1], nil)
		turn, _ := strconv.ParseFloat(score, 64)
		if int64(turn) > now+MaxExchangeJobs { // a lane just served has a turn a little later than now
			s.Next = int64(turn)
			break
		}
		s.Ready = append(s.Ready, ReadyLane{own, int64(turn)})
	}
	return s
}

// Sort moves jobs that were read from the head of a queue into their lanes, as many
// of them as are still there. It returns how many.
func (s Store) Sort(c redis.Conn, queue string, payloads [][]byte, lanes []Lane) (int, error) {
	var a Call
	a.Key(s.KeyOfQueue(queue))
	a.Key(s.lanes())
	a.Key(s.clock())
	place := make(map[Lane]int)
	turns := make(map[Lanes]int)
	var rows []any
	for _, l := range lanes {
		if place[l] != 0 {
			continue
		}
		place[l] = len(place) + 1
		if turns[l.Lanes()] == 0 {
			turns[l.Lanes()] = a.Key(s.turns(l.Lanes()))
		}
		rows = append(rows, a.Key(s.lane(l)), turns[l.Lanes()], l.Own, l.Lanes().member())
	}
	a.Arg(len(place))
	a.Arg(rows...)
	for i, p := range payloads {
		a.Arg(place[lanes[i]], p)
	}
	moved, err := redis.Int(a.Do(c, sortScript))
	if err != nil {
		return 0, fmt.Errorf("sorting the jobs of queue %s by their limits: %w", queue, Explain(err))
	}
	return moved, nil
}

// Relane puts lanes that have jobs back among those that jobs are taken from, and sets of lanes that
// have lanes. The keys that named them were removed. It returns how many.
func (s Store) Relane(c redis.Conn, lanes map[Lanes][]Lane) (int, error) {
	if len(lanes) == 0 {
		return 0, nil
	}
	var a Call
	a.Key(s.lanes())
	a.Key(s.clock())
	for set, of := range lanes {
		a.Arg(a.Key(s.turns(set)), set.member(), len(of))
		for _, l := range of {
			a.Arg(a.Key(s.lane(l)), l.Own)
		}
	}
	n, err := redis.Int(a.Do(c, relaneScript))
	if err != nil {
		return 0, fmt.Errorf("putting back lanes that Redis has lost the names of: %w", Explain(err))
	}
	return n, nil
}
