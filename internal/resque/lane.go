package resque

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Lane holds the jobs of a queue that have the same limits and the same key, in their order. It is
// a list of jobs, and a member of a sorted set that says when each lane may be looked at next. The
// set of lanes names the queues whose jobs are sorted into lanes; other queues cost nothing.
type Lane struct {
	Queue  string
	Shared string // the limits it shares with other lanes of the queue, as text
	Own    string // its own limits and its key
}

// LimitKind says what a limit counts.
type LimitKind string

const (
	LimitRunning     LimitKind = "c" // jobs that run in the whole fleet
	LimitRunningHere LimitKind = "p" // jobs that run in one process
	LimitStarts      LimitKind = "r" // jobs that the fleet starts in a period
	LimitStartsHere  LimitKind = "q" // jobs that one process starts in a period
	LimitNone        LimitKind = "f" // counts nothing: it only partitions by key (Fair)
	LimitUnknown     LimitKind = "u" // counts nothing: the process that sorted did not know the class
)

// Limit names a limit that jobs are held to. Redis has its numbers under its kind and
// name, so that a process which does not know them keeps them too.
type Limit struct {
	Kind  LimitKind
	Name  string
	Keyed bool   // each key has its own count
	Key   string // the key, if Keyed
}

// Spec names a limit's numbers.
func (l Limit) Spec() string { return string(l.Kind) + ":" + url.QueryEscape(l.Name) }

func (l Limit) String() string {
	if !l.Keyed {
		return l.Spec()
	}
	return l.Spec() + "=" + url.QueryEscape(l.Key)
}

// ParseLimit reads what String wrote.
func ParseLimit(text string) Limit {
	spec, key, keyed := strings.Cut(text, "=")
	kind, name, _ := strings.Cut(spec, ":")
	l := Limit{Kind: LimitKind(kind), Keyed: keyed}
	l.Name, _ = url.QueryUnescape(name)
	l.Key, _ = url.QueryUnescape(key)
	return l
}

func (l Limit) running() bool { return l.Kind == LimitRunning || l.Kind == LimitRunningHere }
func (l Limit) here() bool    { return l.Kind == LimitRunningHere || l.Kind == LimitStartsHere }

// putsOff reports whether the limit is a rate of one lane only. It puts off the lane's turn
// until the next start.
func (l Limit) putsOff() bool { return l.Kind == LimitStarts && l.Keyed }

// NewLane returns the lane of a queue's jobs that are held to these limits.
func NewLane(queue string, limits ...Limit) Lane {
	if len(limits) == 1 && limits[0].Kind != LimitUnknown { // as of most jobs
		l := Lane{Queue: queue, Shared: limits[0].sign()}
		if limits[0].Keyed {
			l.Own = limits[0].String()
		}
		return l
	}
	var shared, own []string
	for _, l := range limits {
		if l.Keyed {
			own = append(own, l.String())
		}
		if l.Kind != LimitUnknown {
			shared = append(shared, l.sign())
		}
	}
	slices.Sort(shared)
	slices.Sort(own)
	return Lane{queue, strings.Join(slices.Compact(shared), ","), strings.Join(slices.Compact(own), ",")}
}

// KeyedLanes returns what gives the lanes of a queue's jobs that are held to one limit, by its key. What their names share is written once.
func KeyedLanes(queue string, limit Limit) func(key string) Lane {
	limit.Keyed, limit.Key = true, ""
	of := NewLane(queue, limit)
	return func(key string) Lane {
		lane := of
		lane.Own += url.QueryEscape(key)
		return lane
	}
}

// sign is the text of a limit in Lane.Shared. A keyed limit leaves only its name there: the lanes
// share that this limit sorted them.
func (l Limit) sign() string {
	if l.Keyed {
		l = Limit{Kind: LimitNone, Name: l.Name}
	}
	return l.Spec()
}

// Limits returns the limits of the lane's jobs, shared ones first.
func (l Lane) Limits() (limits []Limit) {
	for _, names := range []string{l.Shared, l.Own} {
		for text := range strings.SplitSeq(names, ",") {
			switch kind, _, _ := strings.Cut(text, ":"); LimitKind(kind) {
			case LimitNone, LimitUnknown, "":
			default:
				limits = append(limits, ParseLimit(text))
			}
		}
	}
	return limits
}

// LimitTexts returns what Limits does, each as Limit.String has it. It is so small that the compiler has the texts of a caller
// who does not keep them in no memory of their own.
func (l Lane) LimitTexts() []string { return l.AppendLimitTexts(make([]string, 0, 4)) }

// AppendLimitTexts appends them.
func (l Lane) AppendLimitTexts(texts []string) []string {
	for _, names := range [2]string{l.Shared, l.Own} {
		for text := range strings.SplitSeq(names, ",") {
			if text != "" && countsOf(text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// countsOf reports whether a limit, as text, counts jobs.
func countsOf(text string) bool {
	kind, _, _ := strings.Cut(text, ":")
	return kind != "" && kind != string(LimitNone) && kind != string(LimitUnknown)
}

// Key returns the key by which the lane's jobs take turns, or "".
func (l Lane) Key() string {
	for text := range strings.SplitSeq(l.Own, ",") {
		if limit := ParseLimit(text); limit.Kind == LimitNone {
			return limit.Key
		}
	}
	return ""
}

// Known returns the lane without LimitUnknown: as a process sorts that knows the class.
func (l Lane) Known() Lane {
	if !strings.Contains(l.Own, string(LimitUnknown)+":") {
		return l
	}
	own := slices.DeleteFunc(strings.Split(l.Own, ","), func(text string) bool { return ParseLimit(text).Kind == LimitUnknown })
	l.Own = strings.Join(own, ",")
	return l
}

// Lanes are those lanes of a queue that share the same limits.
type Lanes struct{ Queue, Shared string }

// Lanes returns the set to which the lane belongs.
func (l Lane) Lanes() Lanes { return Lanes{l.Queue, l.Shared} }

// SortedBy reports whether the jobs were sorted by this limit.
func (l Lanes) SortedBy(limit Limit) bool {
	return slices.Contains(strings.Split(l.Shared, ","), limit.sign())
}

func (l Lanes) member() string { return JobPrefix(l.Queue) + l.Shared }

// Member is the text of the set among the lanes.
func (l Lanes) Member() string { return l.member() }

func (s Store) lanes() string          { return s.ns + "go:lanes" }
func (s Store) paused() string         { return s.ns + "go:paused" }
func (s Store) limits() string         { return s.ns + "go:limits" }
func (s Store) turns(l Lanes) string   { return s.ns + "go:lanes:" + l.member() }
func (s Store) lane(l Lane) string     { return s.ns + "go:lane:" + laneText(l) }
func (s Store) clock() string          { return s.ns + "go:clock" }
func (s Store) slots(l string) string  { return s.ns + "go:slots:" + l }
func (s Store) tokens(l string) string { return s.ns + "go:rate:" + l }

// LimitsKey is the hash of the numbers of limits, by Limit.Spec, and PausedKey the set of the paused queues.
func (s Store) LimitsKey() Key { return hashKey(s.limits()) }
func (s Store) PausedKey() Key { return setKey(s.paused()) }

// limitKey returns the key under which a limit is counted. A limit of each process is counted
// under the process.
func (s Store) limitKey(l Limit, process string) string {
	_, key, _ := s.countedAt(l.String(), process)
	return key
}

// countedAt returns of a limit, as text, how take.lua counts it, the key where it does, and the name of its numbers.
func (s Store) countedAt(limit, process string) (kind, key, spec string) {
	spec, _, keyed := strings.Cut(limit, "=")
	of, _, _ := strings.Cut(spec, ":")
	l := Limit{Kind: LimitKind(of), Keyed: keyed}
	text := limit
	if l.here() {
		text += "@" + process
	}
	switch {
	case l.running():
		return "slots", s.slots(text), spec
	case l.putsOff():
		return "wait", s.tokens(text), spec
	}
	return "rate", s.tokens(text), spec
}

// laneOf returns the lane whose jobs are under a key.
func (s Store) laneOf(key string) (l Lane, ok bool) {
	text, ok := strings.CutPrefix(key, s.ns+"go:lane:")
	if !ok {
		return l, false
	}
	return ParseLane([]byte(text))
}

// ParseLane reads a lane as the name of its key has it: queue and shared limits with their lengths, and its own.
func ParseLane(rest []byte) (l Lane, ok bool) {
	if l.Queue, rest, ok = CutPrefix(rest); !ok {
		return l, false
	}
	if l.Shared, rest, ok = CutPrefix(rest); !ok {
		return l, false
	}
	l.Own = string(rest)
	return l, true
}

func laneText(l Lane) string { return JobPrefix(l.Queue) + JobPrefix(l.Shared) + l.Own }

// laneBefore is what stands before the lane's own in the keys of a set.
func (s Store) laneBefore(l Lanes) string { return s.lane(Lane{Queue: l.Queue, Shared: l.Shared}) }

// prefix stands before the payload in the in-flight record. For a job from a lane it begins with
// the lane, "+0:12:f:Mail=acme3:low{…}": the job goes back there, and its slots are freed by it.
// A leased job has none.
func (j Reserved) prefix() string {
	switch {
	case j.Ticket == LeasedTicket:
		return ""
	case j.Lane == nil:
		return JobPrefix(j.Queue)
	}
	return lanePrefix(*j.Lane)
}

// PrefixSize is how many bytes of the in-flight record stand before the payload.
func (j Reserved) PrefixSize() int { return len(j.prefix()) }

func lanePrefix(l Lane) string {
	return "+" + JobPrefix(l.Shared) + JobPrefix(l.Own) + JobPrefix(l.Queue)
}

// parseReserved reads a value of the in-flight record.
func parseReserved(ticket int64, value []byte) (j Reserved, ok bool) {
	j.Ticket = ticket
	if len(value) == 0 || value[0] != '+' {
		j.Queue, j.Payload, ok = CutPrefix(value)
		return j, ok
	}
	var l Lane
	rest := value[1:]
	for _, part := range []*string{&l.Shared, &l.Own, &l.Queue} {
		if *part, rest, ok = CutPrefix(rest); !ok {
			return j, false
		}
	}
	j.Queue, j.Lane, j.Payload = l.Queue, &l, rest
	return j, true
}

// FreeLost frees the slots of a limit whose holders have no such job any more. Redis writes and
// removes slot and job in one step, and no ticket is used twice. So if a holder still has a slot
// and no job a moment later, the record was lost.
func (s Store) FreeLost(c redis.Conn, l Limit, process string) (freed int, err error) {
	key := s.limitKey(l, process)
	holders, err := redis.Strings(c.Do("SMEMBERS", key))
	if err != nil {
		return 0, fmt.Errorf("reading who holds limit %s: %w", l, Explain(err))
	}
	for _, h := range holders {
		by, ticket := h, ""
		if at := strings.LastIndexByte(h, '/'); at >= 0 {
			by, ticket = h[:at], h[at+1:]
		}
		held, err := redis.Bool(c.Do("HEXISTS", s.inflight(by), ticket))
		if err == nil && !held {
			var n int
			n, err = redis.Int(c.Do("SREM", key, h))
			freed += n
		}
		if err != nil {
			return freed, fmt.Errorf("freeing limit %s: %w", l, Explain(err))
		}
	}
	return freed, nil
}

// ToLane puts a job in front of all others of a lane of its queue, byte for byte, and the lane
// in front of the other lanes.
func (s Store) ToLane(j Reserved, lane Lane) []Effect {
	lanes := lane.Lanes()
	return []Effect{
		effect("head", listKey(s.lane(lane)), len(j.prefix())),
		effect("SADD", setKey(s.lanes()), lanes.member()),
		effect("ZADD", zsetKey(s.turns(lanes)), "NX", 0, lane.Own),
	}
}

// What ReceiveChanges reports about lanes.
const (
	PolicyChanged = "\x00policy" // queues were paused, or there are new lanes
	LaneChanged   = "\x00lane"   // of a queue
	SlotFreed     = "\x00slot"   // perhaps, of a limit
)

// aboutLanes returns what a changed key means, in the form that AboutLanes reads.
func (s Store) aboutLanes(key string) string {
	if key == s.lanes() || key == s.paused() {
		return PolicyChanged
	}
	if member, ok := strings.CutPrefix(key, s.lanes()+":"); ok {
		queue, _, _ := CutPrefix([]byte(member))
		return LaneChanged + queue
	}
	if limit, ok := strings.CutPrefix(key, s.slots("")); ok {
		limit, _, _ = strings.Cut(limit, "@")
		return SlotFreed + limit
	}
	return ""
}

// AboutLanes reads what a name returned by ReceiveChanges says about lanes: one of
// the constants, and the queue or limit. Any other name is returned as it is.
func AboutLanes(name string) (kind, what string) {
	for _, kind := range []string{PolicyChanged, LaneChanged, SlotFreed} {
		if what, ok := strings.CutPrefix(name, kind); ok {
			return kind, what
		}
	}
	return name, ""
}

// Policy is what the fleet has agreed on about queues.
type Policy struct {
	Paused []string // queues from which no process takes
	Lanes  []Lanes  // the sorted queues, and the lanes of each

	NoLanes        bool // Redis refused to return Lanes
	NumbersRefused bool // Redis refused the numbers of a limit
}

var numbersScript = script("numbers")

// WriteNumbers writes the numbers of limits, by Limit.Spec, but for those that operators have set.
func (s Store) WriteNumbers(c redis.Conn, numbers map[string]string) error {
	if len(numbers) == 0 {
		return nil
	}
	_, err := c.Do("EVAL", s.numbers(numbers, false)...)
	return err
}

func (s Store) numbers(of map[string]string, onlyMissing bool) []any {
	var a Call
	a.Key(s.limits())
	a.Key(s.HashKey("rules").String())
	a.Arg(onlyMissing)
	for _, spec := range slices.Sorted(maps.Keys(of)) {
		a.Arg(spec, of[spec])
	}
	return append([]any{numbersScript.Text()}, a.Args()...)
}

// sendPolicy asks for the policy, and registers the numbers of this process's limits.
func (s Store) sendPolicy(c redis.Conn, x *Exchange) error {
	if len(x.Limits) > 0 {
		if err := c.Send("EVAL", s.numbers(x.Limits, x.Registered)...); err != nil {
			return err
		}
	}
	for _, key := range []string{s.paused(), s.lanes()} {
		if x.TrackPolicy {
			if err := c.Send("CLIENT", "CACHING", "YES"); err != nil {
				return err
			}
		}
		if err := c.Send("SMEMBERS", key); err != nil {
			return err
		}
	}
	return nil
}

// receivePolicy reads the answers, and returns those that Redis refused as broken.
func (s Store) receivePolicy(c redis.Conn, x *Exchange) (p *Policy, broken []KeyError, err error) {
	receive := func(key string) any {
		reply, refused := c.Receive()
		if _, ok := refused.(redis.Error); ok {
			broken = append(broken, KeyError{key, refused.Error()})
		} else if err == nil {
			err = refused
		}
		return reply
	}
	if len(x.Limits) > 0 {
		receive(s.limits())
	}
	untold := len(broken) > 0
	var sets [2][]string
	for i, key := range []string{s.paused(), s.lanes()} {
		if x.TrackPolicy {
			receive(key)
		}
		sets[i], _ = redis.Strings(receive(key), nil)
	}
	p = &Policy{Paused: sets[0], Lanes: parseLanes(sets[1]), NumbersRefused: untold}
	p.NoLanes = slices.ContainsFunc(broken, func(e KeyError) bool { return e.Key == s.lanes() })
	return p, broken, err
}

// lanesOf reads the sets of lanes of a queue.
func (s Store) lanesOf(c redis.Conn, queue string) ([]Lanes, error) {
	members, err := redis.Strings(c.Do("SMEMBERS", s.lanes()))
	if err != nil {
		return nil, fmt.Errorf("reading which queues are sorted: %w", Explain(err))
	}
	return slices.DeleteFunc(parseLanes(members), func(l Lanes) bool { return l.Queue != queue }), nil
}

func parseLanes(members []string) (lanes []Lanes) {
	for _, m := range members {
		if queue, shared, ok := CutPrefix([]byte(m)); ok {
			lanes = append(lanes, Lanes{queue, string(shared)})
		}
	}
	return lanes
}
