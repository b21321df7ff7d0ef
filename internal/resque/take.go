package resque

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

var (
	takeScript   = script("take")
	relaneScript = script("relane")
)

// Take asks for jobs from lanes, and which lanes to ask for next.
type Take struct {
	Want    int      // take at most this many
	Ahead   int      // so many of them, the last ones, only where limits have room for all that are wanted: no worker is idle for them yet
	Largest int      // how many bytes the largest of the jobs has that were taken last from that queue; 0: unknown. Of such jobs 64 are popped at once
	Lanes   []Lane   // by turn, the next one first
	Limits  []Limit  // report also whether these are used up
	Look    []Look   // report which of these are next
	Turns   bool     // say the turn of each of them; else of the first one of a Look, and the others are shown as if theirs came right after it
	Queues  []string // report how many jobs of these are not sorted yet
	Heads   int      // return at most so many of those of the first one
	Arm     bool     // track all of this, so that Redis notifies us of changes; there are no Lanes then

	texts []string // of all limits, each once
	own   own
	frees frees

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
	Heads   [][]byte         // the first jobs that are not sorted
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

// takeCall is the first part of both scripts' arguments.
func (s Store) takeCall(x *Exchange, used *exchangeArgv, keys, args int) Call {
	t := x.Take
	c := Call{keys: make([]any, 2, keys+len(t.frees.keys)), argv: make([]any, 0, args+len(x.Done)+len(x.Ended)+t.Want), before: 2}
	c.Key(s.inflight(x.Process))
	c.Key(s.process(x.Process))
	c.Key(s.processes())
	c.Key(s.reaped(x.Process))
	c.Key(s.pauseAll())
	c.Key(s.recovered())
	c.Key(s.limits())
	c.Key(s.clock())
	c.Key(s.stat("processed"))
	limit, _ := x.limit()
	c.Arg(x.Process, x.Epoch, x.Last, t.Want, t.Want-t.Ahead, limit, t.Largest)
	var freed []byte
	if x.alone {
		c.Arg(len(x.Done) + len(x.Ended))
		for _, ticket := range x.Done {
			c.Arg(used.ticket(ticket))
		}
		for _, key := range t.frees.keys {
			c.Key(key)
		}
		freed = t.frees.freed(&c, used, x.Ended)
	} else {
		c.Arg(0)
	}
	for i := range t.Want {
		c.Arg(used.ticket(x.Last + int64(i) + 1))
	}
	c.Arg(freed)
	return c
}

func (s Store) takeArgs(x *Exchange, script string) []any {
	t := x.Take
	of := s.exchangeKeys(x.Process)
	used := of.used.Swap(nil)
	if used == nil {
		used = new(exchangeArgv)
	}
	defer of.used.Store(used)
	if t.own.used {
		return s.takeOwnArgs(x, used, script)
	}
	c := s.takeCall(x, used, 16+4*len(t.Lanes), 32)
	place := s.limitArgs(&c, x)
	turns := make(map[Lanes]int, 1)
	turnsKey := func(l Lanes) int {
		n := turns[l]
		if n == 0 {
			n = c.Key(s.turns(l))
			turns[l] = n
		}
		return n
	}
	at := len(c.argv)
	c.Arg(0)
	sets := 0
	for lanes := t.Lanes; len(lanes) > 0; sets++ { // neighbours of the same set go together
		set, n := lanes[0].Lanes(), 1
		for n < len(lanes) && lanes[n].Lanes() == set {
			n++
		}
		name := s.laneBefore(set)
		places := make([]byte, 0, 3*n)
		c.Arg(turnsKey(set), len(c.keys)-c.before+1, n, len(name), "+"+JobPrefix(set.Shared), JobPrefix(set.Queue))
		for _, l := range lanes[:n] {
			c.Key(name + l.Own)
			held := l.LimitTexts()
			places = append(places, byte(len(held)))
			for _, limit := range held {
				places = append(places, byte(place[limit]>>8), byte(place[limit]))
			}
		}
		c.Arg(places)
		lanes = lanes[n:]
	}
	c.argv[at] = sets
	c.Arg(len(t.Look))
	for _, l := range t.Look {
		c.Arg(turnsKey(l.Lanes), l.Show, t.Turns)
	}
	c.Arg(len(t.Queues))
	for _, q := range t.Queues {
		c.Arg(c.Key(s.KeyOfQueue(q)))
	}
	c.Arg(t.Heads)
	c.keys[0], c.keys[1] = script, len(c.keys)-c.before
	return append(c.keys, c.argv...)
}

// limitArgs adds the limits of all the lanes, those with the same numbers together. It returns the place of each.
func (s Store) limitArgs(c *Call, x *Exchange) (place map[string]int) {
	type alike struct{ kind, spec string }
	t := x.Take
	place = make(map[string]int, len(t.Lanes)+len(t.Limits))
	var groups []alike
	var texts [][]string // of each group
	var keys [][]string
	add := func(text string) {
		if place[text] > 0 {
			return
		}
		kind, key, spec := s.countedAt(text, x.Process)
		at := slices.Index(groups, alike{kind, spec})
		if at < 0 {
			at, groups, texts, keys = len(groups), append(groups, alike{kind, spec}), append(texts, nil), append(keys, nil)
		}
		texts[at], keys[at], place[text] = append(texts[at], text), append(keys[at], key), 1
	}
	for _, l := range t.Limits {
		add(l.String())
	}
	for _, lane := range t.Lanes {
		for _, text := range lane.LimitTexts() {
			add(text)
		}
	}
	t.texts = t.texts[:0]
	c.Arg(len(groups))
	for i, g := range groups {
		c.Arg(g.kind, g.spec, t.Numbers[g.spec], len(c.keys)-c.before+1, len(keys[i]))
		for n, key := range keys[i] {
			c.Key(key)
			t.texts = append(t.texts, texts[i][n])
			place[texts[i][n]] = len(t.texts)
		}
	}
	return place
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
	if err := statusError(firstText(r)); err != nil {
		return err
	}
	if len(r) != 10 {
		return fmt.Errorf("take: unexpected answer %v", reply)
	}
	flags, _ := redis.String(r[1], nil)
	out.Paused = out.Paused || strings.Contains(flags, "p")
	out.Fenced = out.Fenced || strings.Contains(flags, "f")
	out.Suspects = out.Suspects || strings.Contains(flags, "s")
	out.Removed = out.Removed || strings.Contains(flags, "r")
	missing, _ := redis.Int(r[9], nil)
	out.Missing += missing

	taken := &Taken{Full: make(map[string]int64)}
	out.Taken = taken
	taken.Now, _ = redis.Int64(r[2], nil)
	jobs, _ := r[3].([]any)
	if t.own.used {
		if err := x.takenInTurn(jobs, out); err != nil {
			return err
		}
		jobs = nil
	}
	out.Jobs = slices.Grow(out.Jobs, len(jobs)/2)
	for i := 0; i+1 < len(jobs); i += 2 { // lane and payload
		lane, _ := jobs[i].(int64)
		if lane < 1 || int(lane) > len(t.Lanes) {
			return fmt.Errorf("take: answer names lane %d of %d", lane, len(t.Lanes))
		}
		from := &t.Lanes[lane-1]
		payload, _ := jobs[i+1].([]byte)
		out.Jobs = append(out.Jobs, Reserved{Ticket: x.Last + int64(i/2) + 1, Queue: from.Queue, Payload: payload, Lane: from})
	}
	full, _ := redis.Int64s(r[4], nil)
	for i := 0; i+1 < len(full); i += 2 {
		if at := full[i]; at >= 1 && int(at) <= len(t.texts) {
			taken.Full[t.texts[at-1]] = full[i+1]
		}
	}
	looks, _ := r[5].([]any)
	if t.own.used { // which looks at one queue
		looks, r[6] = []any{r[5]}, []any{r[6]}
	}
	for _, look := range looks {
		if look == nil {
			taken.Shown = append(taken.Shown, x.shownInTurn(taken.Now))
		} else {
			taken.Shown = append(taken.Shown, shown(look, taken.Now))
		}
	}
	taken.Waiting, _ = redis.Int64s(r[6], nil)
	if len(taken.Shown) != len(t.Look) || len(taken.Waiting) != len(t.Queues) {
		return fmt.Errorf("take: unexpected answer %v", reply)
	}
	taken.Heads, _ = redis.ByteSlices(r[8], nil)
	broken, _ := redis.Strings(r[7], nil)
	for i := 0; i+1 < len(broken); i += 2 {
		taken.Broken = append(taken.Broken, KeyError{Key: broken[i], Reason: broken[i+1]})
	}
	return nil
}

func firstText(list []any) string {
	text, _ := redis.String(first(list), nil)
	return text
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
	if len(list) == 4 {
		s.Ready = make([]ReadyLane, len(turns))
		var all strings.Builder // one piece of memory for all names
		for i := range turns {
			own, _ := turns[i].([]byte)
			all.Write(own)
		}
		first, names := turn(list[2]), all.String()
		for i := range turns {
			own, _ := turns[i].([]byte)
			s.Ready[i], names = ReadyLane{names[:len(own)], first + int64(i)}, names[len(own):]
		}
		s.Next = turn(list[3])
		return s
	}
	for i := 0; i+1 < len(turns); i += 2 {
		own, _ := redis.String(turns[i], nil)
		turn := turn(turns[i+1])
		if turn > now+MaxExchangeJobs { // a lane just served has a turn a little later than now
			s.Next = turn
			break
		}
		s.Ready = append(s.Ready, ReadyLane{own, turn})
	}
	return s
}

// turn reads a score; 0: it is none.
func turn(score any) int64 {
	text, _ := redis.String(score, nil)
	at, _ := strconv.ParseFloat(text, 64)
	return int64(at)
}

// fewLanes is for how many lanes of a batch there is room at first.
const fewLanes = 64

func (s Store) sortArgs(queue string, payloads [][]byte, lanes []Lane) *Call {
	a := Call{keys: make([]any, 0, 3+len(lanes)), argv: make([]any, 0, 8+len(payloads))}
	a.Key(s.KeyOfQueue(queue))
	a.Key(s.lanes())
	a.Key(s.clock())
	place := make(map[Lane]int)
	var sets []Lanes
	var of [][]Lane // of each set, in the order in which sort.lua counts them
	for i, l := range lanes {
		if i > 0 && l == lanes[i-1] || place[l] > 0 {
			continue
		}
		at := slices.Index(sets, l.Lanes())
		if at < 0 {
			at, sets, of = len(sets), append(sets, l.Lanes()), append(of, nil)
		}
		of[at] = append(of[at], l)
		if len(place) == fewLanes { // there may be as many as jobs: growing step by step is twice the memory
			few := place
			place = make(map[Lane]int, len(lanes))
			maps.Copy(place, few)
		}
		place[l] = len(of[at])
	}
	a.Arg(len(sets))
	before := 0
	for i, set := range sets {
		name, turns := s.laneBefore(set), a.Key(s.turns(set))
		a.Arg(turns, set.member(), turns+1, len(of[i]), len(name))
		for _, l := range of[i] {
			a.Key(name + l.Own)
			place[l] += before
		}
		before += len(of[i])
	}
	places := make([]byte, 0, 2*len(lanes))
	for _, l := range lanes {
		n := place[l]
		places = append(places, byte(n>>8), byte(n))
	}
	a.Arg(places)
	for _, p := range payloads {
		a.Arg(p)
	}
	return &a
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
