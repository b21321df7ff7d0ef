package leases

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"pgregory.net/rapid"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// held is a job that a client has, in the model.
type held struct{ payload, lease string }

// mark is what the model knows of a job that went back.
type mark struct {
	what    What
	payload string
}

// peer is a server of the model.
type peer struct {
	id     string
	number int64 // of its last turn
	seeds  int
}

// model is what Redis has to contain: each job in one place.
type model struct {
	*rapid.T
	c     redis.Conn
	s     Store
	ready map[string][]string
	later map[string]int64 // members of the schedule
	held  map[string]held
	marks map[string]mark
	dead  map[string][]string
	acked int // jobs that turns have ended

	peers   []*peer
	made    int // jobs that were published
	killed  int
	seen    []Job  // that a client had once; it may acknowledge each at any time
	delayed []*lag // turns that Redis has not heard yet
}

// lag is a request that is still on its way.
type lag struct {
	turn Turn
	peer *peer
}

var modelQueues = []string{"a", "b"}

// TestModel plays random histories of two servers. After each step Redis has what the model says: no job is lost, none is in
// two places, and no answer differs from what the model expects.
func TestModel(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := server.Dial(t)
	rapid.Check(t, func(t *rapid.T) {
		if _, err := c.Do("FLUSHALL"); err != nil {
			t.Fatal(err)
		}
		m := &model{T: t, c: c, s: New(resque.New("")), ready: map[string][]string{}, later: map[string]int64{}, held: map[string]held{}, marks: map[string]mark{}, dead: map[string][]string{}}
		m.peers = []*peer{m.newPeer(), m.newPeer()}
		t.Repeat(map[string]func(*rapid.T){
			"":         func(t *rapid.T) { m.T = t; m.check() },
			"publish":  m.publish,
			"publish ": m.publish,
			"turn":     m.turn,
			"turn ":    m.turn,
			"lost":     m.lost,
			"late":     m.late,
			"nack":     func(*rapid.T) { m.giveBack(true, true) },
			"release":  func(*rapid.T) { m.giveBack(false, true) },
			"fail":     m.fail,
			"touch":    m.touch,
			"sweep":    m.sweep,
			"cancel":   m.cancel,
			"respawn":  m.respawn,
			"pump":     m.pump,
			"daemon":   m.daemon,
			"kill":     m.kill,
			"destroy":  m.destroy,
		})
	})
}

func (m *model) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *model) do(command string, args ...any) any {
	m.Helper()
	reply, err := m.c.Do(command, args...)
	m.must(err)
	return reply
}

func (m *model) now() int64 {
	now, err := m.s.Now(m.c)
	m.must(err)
	return now.UnixMilli()
}

func (m *model) newPeer() *peer {
	p := &peer{id: fmt.Sprint("server", m.killed)}
	m.killed++
	m.open(p, 0)
	return p
}

// open opens a server's record, and returns what Redis says of its last turn.
func (m *model) open(p *peer, number int64) (int64, []Job) {
	last, jobs, err := m.s.Served(m.c, p.id, number)
	m.must(err)
	return last, jobs
}

func (m *model) pick(what string) *peer {
	return rapid.SampledFrom(m.peers).Draw(m.T, what)
}

// payload makes a job. Few ids are in use, so jobs of one id meet.
func (m *model) payload() string {
	m.made++
	p := fmt.Sprintf(`{"class":"C","args":[%d]`, m.made)
	switch rapid.IntRange(0, 5).Draw(m.T, "kind") {
	case 0:
		return p + "}"
	case 1:
		return p + fmt.Sprintf(`,"expires_at":%d,"id":"%s"}`, m.now()-1, m.id())
	case 2:
		return p + fmt.Sprintf(`,"unique":"u","id":"%s"}`, m.id())
	}
	return p + fmt.Sprintf(`,"id":"%s"}`, m.id())
}

func (m *model) id() string { return rapid.SampledFrom([]string{"x", "y", "z"}).Draw(m.T, "id") }

func (m *model) queue() string { return rapid.SampledFrom(modelQueues).Draw(m.T, "queue") }

func (m *model) publish(*rapid.T) {
	var all []Publish
	for range rapid.IntRange(1, 3).Draw(m.T, "publishes") {
		p := Publish{Queue: m.queue(), Payloads: texts(m.payload())}
		if rapid.Bool().Draw(m.T, "two") {
			p.Payloads = append(p.Payloads, []byte(m.payload()))
		}
		if rapid.IntRange(0, 3).Draw(m.T, "later") == 0 {
			p.At = m.now() + 1000
		} else {
			p.Most = rapid.IntRange(0, 6).Draw(m.T, "most")
		}
		all = append(all, p)
	}
	got, err := m.s.Publish(m.c, all)
	m.must(err)
	// Publishes without a bound are one row for a queue, at the place of the first; so the order of rows is the script's.
	merged := make(map[string]int)
	rows := [][]int{}
	for i, p := range all {
		key := p.Queue
		if p.At != 0 {
			key = "later"
		}
		if row := merged[key]; row > 0 && (p.At != 0 || p.Most == 0) {
			rows[row-1] = append(rows[row-1], i)
			continue
		}
		rows = append(rows, []int{i})
		if merged[key] = len(rows); p.At == 0 && p.Most > 0 {
			merged[key] = 0
		}
	}
	for _, i := range slices.Concat(rows...) {
		p := all[i]
		full := p.At == 0 && p.Most > 0 && len(m.ready[p.Queue])+len(p.Payloads) > p.Most
		if full != (got.Errors[i] != nil) {
			m.Fatalf("publish %d: %v, and the queue has %d of %d", i, got.Errors[i], len(m.ready[p.Queue]), p.Most)
		}
		for _, raw := range p.Payloads {
			if p.At != 0 {
				m.later[resque.JobPrefix(p.Queue)+string(raw)] = p.At
			} else if !full {
				m.ready[p.Queue] = append(m.ready[p.Queue], string(raw))
			}
		}
	}
}

// compose draws a turn of a server.
func (m *model) compose(p *peer) Turn {
	p.number++
	p.seeds++
	t := Turn{Server: p.id, Number: p.number, Jobs: rapid.IntRange(1, 5).Draw(m.T, "jobs"), Bytes: 1 << 20, Texts: []string{`"wf":`, `"unique":`}}
	t.Seed = fmt.Sprintf("%s%0*d", p.id, seedSize-len(p.id), p.seeds)
	for range rapid.IntRange(0, 2).Draw(m.T, "asks") {
		a := Ask{Queues: modelQueues, TTR: time.Hour, Count: rapid.IntRange(0, 3).Draw(m.T, "count")}
		if rapid.Bool().Draw(m.T, "one queue") {
			a.Queues = []string{m.queue()}
		}
		t.Asks = append(t.Asks, a)
	}
	for range rapid.IntRange(0, 2).Draw(m.T, "acks") {
		if len(m.seen) > 0 {
			j := rapid.SampledFrom(m.seen).Draw(m.T, "ack")
			a := Ack{j.Queue, j.ID, ""}
			if rapid.Bool().Draw(m.T, "with its lease") {
				a.Lease = j.Lease
			}
			t.Acks = append(t.Acks, a)
		}
	}
	return t
}

// play does in the model what a turn does in Redis. got is the answer: ids that Redis made are taken from it.
func (m *model) play(t *Turn, got Answer) {
	for i, a := range t.Acks {
		place, want := Place(a.Queue, a.ID), Acked
		h, there := m.held[place]
		switch mark := m.marks[place]; {
		case !there && mark.what == "":
			want = Unknown
		case !there:
			if want = mark.what; want == Back {
				m.marks[place] = mark_(Late, mark.payload)
			}
		case a.Lease != "" && a.Lease != h.lease:
			want = Changed
		case HasEffects(h.lease):
			want = Effects
		default:
			defer func() { // a second ack of the turn finds it too
				if _, left := m.held[place]; left && m.held[place] == h {
					delete(m.held, place)
					m.acked++
				}
			}()
		}
		if got.Acks[i] != want {
			m.Fatalf("ack of %s with %q is %s, want %s", place, a.Lease, got.Acks[i], want)
		}
	}
}

func mark_(what What, payload string) mark { return mark{what, payload} }

// reserve does in the model what the asks of a turn do.
func (m *model) reserve(t *Turn, got Answer) {
	n := 0
	next := func(ask int, q, raw string) (given bool) {
		if n == len(got.Jobs) {
			m.Fatalf("after %d jobs %q is to be reserved", n, raw)
		}
		j := got.Jobs[n]
		n++
		tail := payload.Tail([]byte(raw))
		fate, natural := Given, Place(q, tail.ID)
		if tail.ID == "" {
			natural = Place(q, j.ID)
		}
		back, known := m.marks[natural]
		same := known && back.payload == raw
		switch ends := string(tail.Field("expires_at")); {
		case same && back.what == Late:
			fate = Done
		case ends != "" && ends <= fmt.Sprint(got.Now):
			fate = Expired
		case same:
			delete(m.marks, natural)
		}
		if _, taken := m.held[natural]; (taken || tail.ID == "") != strings.HasPrefix(j.ID, t.Seed) || !strings.HasPrefix(j.ID, t.Seed) && j.ID != tail.ID {
			m.Fatalf("%q is reserved as %q; another one has its place: %v", raw, j.ID, taken)
		}
		if _, taken := m.held[j.Place()]; taken {
			m.Fatalf("%q overwrites another job at %s", raw, j.Place())
		}
		effects := strings.Contains(raw, `"unique":`)
		if string(j.Payload) != raw || j.Queue != q || j.Fate != fate || fate == Given && j.Ask != ask || j.Effects != effects || HasEffects(j.Lease) != effects {
			m.Fatalf("reserved is %+v, %q, want %q of queue %s for ask %d with fate %d", j, j.Payload, raw, q, ask, fate)
		}
		m.held[j.Place()] = held{raw, j.Lease}
		if fate == Given {
			m.seen = append(m.seen, j)
		}
		return fate == Given
	}
	dry := make(map[string]bool)
	for i, a := range t.Asks {
		want := a.Count
		for _, q := range a.Queues {
			for want > 0 && n < t.Jobs && !dry[q] {
				if len(m.ready[q]) == 0 {
					dry[q] = true
					break
				}
				raw := m.ready[q][0]
				m.ready[q] = m.ready[q][1:]
				if next(i, q, raw) {
					want--
				}
			}
		}
	}
	if n != len(got.Jobs) {
		m.Fatalf("%d jobs were reserved, want %d", len(got.Jobs), n)
	}
	for _, q := range got.Empty {
		if len(m.ready[q]) > 0 {
			m.Fatalf("queue %s is not empty: %q", q, m.ready[q])
		}
	}
}

func (m *model) turn(*rapid.T) {
	p := m.pick("server")
	t := m.compose(p)
	got, err := m.s.Turn(m.c, &t)
	m.must(err)
	m.play(&t, got)
	m.reserve(&t, got)
	m.settle(got.Jobs)
}

// settle commits what a turn has reserved for its end alone.
func (m *model) settle(jobs []Job) {
	for _, j := range jobs {
		if j.Fate != Given {
			m.end(j, m.s.Forget(j.Place()))
			delete(m.marks, j.Place())
		}
	}
}

// end commits the end of a job, if it still has its lease.
func (m *model) end(j Job, effects ...resque.Effect) bool {
	out, err := m.s.CommitLeased(m.c, []resque.Ended{{Place: j.Place(), Effects: append(effects, m.s.EndLease(j.Place(), j.Lease)...)}})
	m.must(err)
	h, there := m.held[j.Place()]
	if ends := there && h.lease == j.Lease; ends != (len(out.Refused)+out.Missing == 0) {
		m.Fatalf("the commit of %s says %+v, and it has the lease %q", j.Place(), out, h.lease)
	} else if !ends {
		return false
	}
	delete(m.held, j.Place())
	return true
}

// lost has the answer of a turn get lost: Redis may have heard it, or hears it later, or never.
func (m *model) lost(*rapid.T) {
	p := m.pick("server")
	t := m.compose(p)
	heard := rapid.Bool().Draw(m.T, "heard")
	var got Answer
	if heard {
		var err error
		got, err = m.s.Turn(m.c, &t)
		m.must(err)
		m.play(&t, got)
		before := len(m.seen)
		m.reserve(&t, got)
		m.seen = m.seen[:before] // no client has them
	} else {
		m.delayed = append(m.delayed, &lag{t, p})
	}
	p.number++
	last, jobs := m.open(p, p.number)
	if rapid.Bool().Draw(m.T, "that answer is lost too") {
		p.number++
		last, jobs = m.open(p, p.number)
	}
	if !heard {
		jobs = nil // they are of an earlier turn, whose answer the server got
	}
	if heard != (last == t.Number) || len(jobs) != len(got.Jobs) {
		m.Fatalf("the last turn is %d and reserved %d jobs; %d was heard (%v) and reserved %d", last, len(jobs), t.Number, heard, len(got.Jobs))
	}
	for i := range slices.Backward(jobs) {
		j := jobs[i]
		h := m.held[j.Place()]
		if m.end(j, m.s.LeasedHead(j.Queue)...) {
			m.ready[j.Queue] = append([]string{h.payload}, m.ready[j.Queue]...)
		}
	}
}

// late has Redis hear a turn that its server gave up long ago: it does nothing.
func (m *model) late(*rapid.T) {
	for _, l := range m.delayed {
		if _, err := m.s.Turn(m.c, &l.turn); !errors.Is(err, ErrStale) && !errors.Is(err, ErrGone) {
			m.Fatalf("a late turn says %v", err)
		}
	}
	m.delayed = nil
}

// one draws a job that a client holds.
func (m *model) one() (j Job, ok bool) {
	places := slices.Sorted(maps.Keys(m.held))
	if len(places) == 0 {
		return j, false
	}
	place := rapid.SampledFrom(places).Draw(m.T, "held")
	j.Queue, j.ID, _ = ParsePlace(place)
	j.Lease = m.held[place].lease
	if rapid.IntRange(0, 4).Draw(m.T, "with an old lease") == 0 {
		j.Lease = "1234567890123"
	}
	return j, true
}

// giveBack sends a job back: to the tail and changed, as after a try, or to the head as it is.
func (m *model) giveBack(try, noted bool) {
	if j, ok := m.one(); ok {
		m.back(j, try, noted)
	}
}

func (m *model) back(j Job, try, noted bool) {
	h := m.held[j.Place()]
	raw, effects := h.payload, m.s.LeasedHead(j.Queue)
	if try {
		raw = strings.Replace(raw, `"class":"C`, `"class":"CC`, 1)
		effects = m.s.PushTail(j.Queue, []byte(raw))
	}
	if noted {
		effects = append(effects, m.s.WentBack(j.Place(), []byte(raw), m.now()))
	}
	if !m.end(j, effects...) {
		return
	}
	if noted {
		m.marks[j.Place()] = mark_(Back, raw)
	}
	if try {
		m.ready[j.Queue] = append(m.ready[j.Queue], raw)
	} else {
		m.ready[j.Queue] = append([]string{raw}, m.ready[j.Queue]...)
	}
}

func (m *model) fail(*rapid.T) {
	j, ok := m.one()
	if !ok {
		return
	}
	h := m.held[j.Place()]
	record := payload.Failure{Payload: []byte(h.payload), Queue: j.Queue}.Encode()
	if m.end(j, append(m.s.FileFailure(j.Queue, record, true), m.s.Filed(j.Place(), []byte(h.payload), m.now()))...) {
		m.dead[j.Queue] = append(m.dead[j.Queue], string(record))
		m.marks[j.Place()] = mark_(Dead, h.payload)
	}
}

func (m *model) touch(*rapid.T) {
	j, ok := m.one()
	if !ok {
		return
	}
	h := m.held[j.Place()]
	lease, err := m.s.Touch(m.c, j.Queue, j.ID, j.Lease, 2*time.Hour)
	m.must(err)
	if (lease != "") != (j.Lease == h.lease) || lease != "" && HasEffects(lease) != HasEffects(h.lease) {
		m.Fatalf("touched by %s it has %q, and had %s", j.Lease, lease, h.lease)
	}
	if lease != "" {
		m.held[j.Place()] = held{h.payload, lease}
	}
}

// sweep lets leases end, and ends those jobs.
func (m *model) sweep(*rapid.T) {
	want := make(map[string]bool)
	for place, h := range m.held {
		if rapid.Bool().Draw(m.T, place+" ends") {
			lease := leaseAt(1000, HasEffects(h.lease))
			m.do("ZADD", m.s.KeyOfLeases(), lease, place)
			m.held[place], want[place] = held{h.payload, lease}, true
		}
	}
	_, _, jobs, err := m.s.Expired(m.c, 100)
	m.must(err)
	if len(jobs) != len(want) {
		m.Fatalf("%d leases have ended, want %d", len(jobs), len(want))
	}
	for _, j := range jobs {
		back := m.marks[j.Place()]
		done := back.what == Late && back.payload == string(j.Payload)
		if !want[j.Place()] || string(j.Payload) != m.held[j.Place()].payload || done != (j.Fate == Done) {
			m.Fatalf("ended is %+v, %q; done is %v", j, j.Payload, done)
		}
		if done {
			m.settle([]Job{j})
		} else {
			m.back(j, true, true)
		}
	}
}

// cancel reserves a job that waits, and ends it.
func (m *model) cancel(*rapid.T) {
	q := m.queue()
	if len(m.ready[q]) > 0 {
		i := rapid.IntRange(0, len(m.ready[q])-1).Draw(m.T, "waiting")
		m.seize(q, m.ready[q][i], false)
		m.ready[q] = slices.Delete(slices.Clone(m.ready[q]), i, i+1)
	}
	for member := range m.later {
		queue, raw, _ := resque.CutPrefix([]byte(member))
		m.seize(queue, string(raw), true)
		delete(m.later, member)
		break
	}
	if _, there, err := m.s.Seize(m.c, q, []byte("none"), false, seed); err != nil || there {
		m.Fatalf("a job that is not there: %v, %v", there, err)
	}
}

func (m *model) seize(queue, raw string, delayed bool) {
	j, there, err := m.s.Seize(m.c, queue, []byte(raw), delayed, seed)
	m.must(err)
	if _, taken := m.held[j.Place()]; !there || taken || string(j.Payload) != raw {
		m.Fatalf("seized is %+v, %v; its place was taken: %v", j, there, taken)
	}
	m.held[j.Place()] = held{raw, j.Lease}
	m.end(j)
}

func (m *model) respawn(*rapid.T) {
	q := m.queue()
	n := min(len(m.dead[q]), 2)
	records, err := m.s.DeadHead(m.c, q, 2)
	m.must(err)
	var payloads [][]byte
	for _, r := range records {
		f, err := payload.ParseFailure(r)
		m.must(err)
		payloads = append(payloads, f.Payload)
		if id := payload.Tail(f.Payload).ID; id != "" {
			delete(m.marks, Place(q, id))
		}
		m.ready[q] = append(m.ready[q], string(f.Payload))
	}
	moved, err := m.s.Respawn(m.c, q, records, payloads)
	m.must(err)
	if moved != n {
		m.Fatalf("%d of %d failures run again", moved, n)
	}
	m.dead[q] = m.dead[q][n:]
}

// pump moves a delayed job to its queue.
func (m *model) pump(*rapid.T) {
	for _, member := range slices.Sorted(maps.Keys(m.later)) {
		queue, raw, _ := resque.CutPrefix([]byte(member))
		m.do("ZREM", m.s.KeyOfSchedule(), member)
		m.must(m.s.Push(m.c, queue, raw))
		delete(m.later, member)
		m.ready[queue] = append(m.ready[queue], string(raw))
		return
	}
}

// daemon takes a job, as a worker does, and runs it.
func (m *model) daemon(*rapid.T) {
	q := m.queue()
	if len(m.ready[q]) == 0 {
		return
	}
	raw, err := redis.String(m.do("LPOP", m.s.KeyOfQueue(q)), nil)
	m.must(err)
	if raw != m.ready[q][0] {
		m.Fatalf("at the head is %q, want %q", raw, m.ready[q][0])
	}
	m.ready[q] = m.ready[q][1:]
}

// kill ends a server without a word. Clients keep their jobs.
func (m *model) kill(*rapid.T) {
	i := rapid.IntRange(0, len(m.peers)-1).Draw(m.T, "killed")
	m.peers[i] = m.newPeer()
}

func (m *model) destroy(*rapid.T) {
	if rapid.IntRange(0, 5).Draw(m.T, "really") > 0 {
		return
	}
	q := m.queue()
	step := 0
	for from := ""; ; step++ {
		d, err := m.s.Destroy(m.c, q, from, []string{`"unique":`}, fmt.Sprintf("D%015d", step))
		m.must(err)
		for _, j := range d.Jobs {
			m.held[j.Place()] = held{string(j.Payload), j.Lease}
			m.end(j)
		}
		if from = d.Next; from == "" {
			break
		}
	}
	delete(m.ready, q)
	maps.DeleteFunc(m.later, func(member string, _ int64) bool { return strings.HasPrefix(member, resque.JobPrefix(q)) })
	for place := range m.held {
		if strings.HasPrefix(place, resque.JobPrefix(q)) {
			m.Fatalf("%s is still held", place)
		}
	}
}

// check compares Redis with the model.
func (m *model) check() {
	lists := func(key string) []string {
		all, err := redis.Strings(m.do("LRANGE", key, 0, -1), nil)
		m.must(err)
		return all
	}
	for _, q := range modelQueues {
		if got := lists(m.s.KeyOfQueue(q)); !slices.Equal(got, m.ready[q]) {
			m.Fatalf("queue %s has %q, want %q", q, got, m.ready[q])
		}
		if got := lists(m.s.deadList(q)); !slices.Equal(got, m.dead[q]) {
			m.Fatalf("the failures of queue %s are %q, want %q", q, got, m.dead[q])
		}
	}
	leased, err := redis.StringMap(m.do("HGETALL", m.s.KeyOfLeased()), nil)
	m.must(err)
	leases, err := redis.StringMap(m.do("ZRANGE", m.s.KeyOfLeases(), 0, -1, "WITHSCORES"), nil)
	m.must(err)
	if len(leased) != len(m.held) || len(leases) != len(m.held) {
		m.Fatalf("held are %q with the leases %q, want %+v", leased, leases, m.held)
	}
	for place, h := range m.held {
		if leased[place] != h.payload || leases[place] != h.lease {
			m.Fatalf("%s is %q until %s, want %+v", place, leased[place], leases[place], h)
		}
	}
	later, err := redis.Strings(m.do("ZRANGE", m.s.KeyOfSchedule(), 0, -1), nil)
	m.must(err)
	if slices.Sort(later); !slices.Equal(later, slices.Sorted(maps.Keys(m.later))) {
		m.Fatalf("delayed are %q, want %v", later, m.later)
	}
	marks, err := redis.StringMap(m.do("HGETALL", m.s.ReturnedKey().String()), nil)
	m.must(err)
	if len(marks) != len(m.marks) {
		m.Fatalf("marked are %v, want %v", marks, m.marks)
	}
	for place, k := range m.marks {
		if want := string(k.what) + " " + digest([]byte(k.payload)) + " "; !strings.HasPrefix(marks[place], want) {
			m.Fatalf("%s is marked %q, want %q", place, marks[place], want)
		}
	}
	total, err := orNone(redis.Int(m.do("GET", "resque:stat:processed"), nil))
	m.must(err)
	if total != m.acked {
		m.Fatalf("%d jobs are counted as done, want %d", total, m.acked)
	}
}
