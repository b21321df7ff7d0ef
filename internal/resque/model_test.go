package resque

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goworker/goworker/internal/payload"
	"pgregory.net/rapid"
)

// model is what Redis should hold, written once more in plain Go, with one method for each
// event. The property test in property_test.go runs both in parallel.
type model struct {
	names  map[string]bool // the set of queues
	queues map[string][]string
	procs  []*modelProc
	failed []string
	deaths map[string]modelDeaths // by payload
	stats  [2]int                 // processed, failed
	paused bool
	ruby   string // the payload that a dead Ruby worker has in hand

	pushed, done map[string]int // how often, by payload
}

type modelDeaths struct {
	count, charged, level int
	last                  string
}

// modelProc is a process both as Redis knows it and as it knows itself.
type modelProc struct {
	id          string
	epoch, last int64
	record      map[int64]Reserved // what Redis holds for it
	handed      string
	killed      bool // it will do nothing more
	fenced      bool
	left        bool // its keys are gone

	held  []Reserved // what it believes to hold
	spent []int64    // tickets of jobs that have ended, whose payloads may be in the record
}

// modelLimit is the cap on deaths that all recoveries of the test go by.
const modelLimit = 2

func newModel() *model {
	return &model{
		names: map[string]bool{}, queues: map[string][]string{}, deaths: map[string]modelDeaths{},
		pushed: map[string]int{}, done: map[string]int{},
	}
}

func (m *model) push(queue, payload string) {
	m.names[queue] = true
	m.queues[queue] = append(m.queues[queue], payload)
	m.pushed[payload]++
}

func (m *model) putBack(j Reserved) {
	m.names[j.Queue] = true
	m.queues[j.Queue] = append([]string{string(j.Payload)}, m.queues[j.Queue]...)
}

// exchange does what commit.lua and exchange.lua do, and returns the answer they should give. how
// says how the jobs of x.Ended ended, by ticket.
func (m *model) exchange(p *modelProc, x *Exchange, how map[int64]string) (jobs []Reserved, missing int) {
	counted := 0
	for _, e := range x.Ended {
		j, ok := p.record[e.Ticket]
		if !ok {
			missing++
			continue
		}
		switch how[e.Ticket] {
		case "failed":
			m.failed = append(m.failed, string(j.Payload))
			m.stats[1]++
			counted++
		case "done and forgiven":
			m.done[string(j.Payload)]++
			delete(m.deaths, string(j.Payload))
			counted++
		case "to the tail":
			m.names[j.Queue] = true
			m.queues[j.Queue] = append(m.queues[j.Queue], string(j.Payload))
		default:
			m.putBack(j)
		}
		delete(p.record, e.Ticket)
	}
	for _, ticket := range x.Done {
		if j, ok := p.record[ticket]; ok {
			m.done[string(j.Payload)]++
			counted++
			delete(p.record, ticket)
		} else {
			missing++
		}
	}
	m.stats[0] += counted // only what a tombstone explains is ever missing here
	if x.Handed != "" {
		p.handed = x.Handed
	}
	if m.paused || p.fenced {
		return nil, missing
	}
	return m.reserve(p, x), missing
}

func (m *model) reserve(p *modelProc, x *Exchange) (jobs []Reserved) {
	want, taken := x.Want, make([][]string, len(x.Asks))
	for _, pass := range []bool{true, false} {
		for i, ask := range x.Asks {
			n := min(want, len(m.queues[ask.Queue]))
			if pass {
				n = min(n, ask.Quota)
			}
			taken[i] = append(taken[i], m.queues[ask.Queue][:n]...)
			m.queues[ask.Queue] = m.queues[ask.Queue][n:]
			want -= n
		}
	}
	ticket := x.Last
	for i, ask := range x.Asks {
		for _, payload := range taken[i] {
			ticket++
			j := Reserved{Ticket: ticket, Queue: ask.Queue, Payload: []byte(payload)}
			p.record[ticket] = j
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// recover moves the given tickets, highest first. A whole recovery forgets in
// the end the deaths of the jobs it has filed.
func (m *model) recover(p *modelProc, tickets []int64, whole bool) {
	h, over := parseHanded(p.handed), map[string]bool{}
	trial, onTrial := p.record[h.Trial]
	past := map[string]bool{}
	for _, ticket := range h.Past {
		if j, ok := p.record[ticket]; ok {
			past[string(j.Payload)] = true
		}
	}
	for _, ticket := range tickets {
		j, ok := p.record[ticket]
		if !ok {
			continue
		}
		delete(p.record, ticket)
		payload := string(j.Payload)
		if !h.running(ticket) {
			m.putBack(j)
			continue
		}
		d := m.deaths[payload]
		if d.last != p.id {
			d.count++
			d.last = p.id
			if onTrial && payload == string(trial.Payload) {
				d.charged++
			} else if past[payload] {
				d.level++
			}
		}
		m.deaths[payload] = d
		if d.count > modelLimit && d.charged >= 2 && 3*d.charged >= d.count {
			m.failed = append(m.failed, payload)
			over[payload] = true
		} else {
			m.putBack(j)
		}
	}
	if whole {
		maps.DeleteFunc(m.deaths, func(payload string, _ modelDeaths) bool { return over[payload] })
	}
}

func (m *model) prune() {
	if m.ruby != "" {
		m.failed = append(m.failed, m.ruby)
		m.ruby = ""
	}
}

// tickets are those in the record, highest first.
func (p *modelProc) tickets() []int64 {
	t := slices.Sorted(maps.Keys(p.record))
	slices.Reverse(t)
	return t
}

// keys is the model in the form of a dump.
func (m *model) keys(s Store) map[string]any {
	keys := map[string]any{}
	for queue, list := range m.queues {
		if len(list) > 0 {
			keys[s.KeyOfQueue(queue)] = list
		}
	}
	if len(m.names) > 0 {
		keys[s.KeyOfQueues()] = slices.Sorted(maps.Keys(m.names))
	}
	if len(m.failed) > 0 {
		keys[s.failed()] = m.failed
	}
	for i, stat := range []string{"processed", "failed"} {
		if m.stats[i] > 0 {
			keys[s.stat(stat)] = strconv.Itoa(m.stats[i])
		}
	}
	if m.paused {
		keys[s.pauseAll()] = "true"
	}
	if m.ruby != "" {
		keys[s.worker(rubyWorker)] = `{"queue":"low","payload":` + m.ruby + `}`
	}
	deaths := map[string]string{}
	for payload, d := range m.deaths {
		deaths[Digest([]byte(payload))] = fmt.Sprintf("%d %d %s %d %d", d.count, noon.UnixMilli(), d.last, d.charged, d.level)
	}
	if len(deaths) > 0 {
		keys[s.recovered()] = deaths
	}
	leases := map[string]float64{}
	for _, p := range m.procs {
		if p.fenced {
			keys[s.reaped(p.id)] = "1"
		}
		if p.left {
			continue
		}
		leases[p.id] = map[bool]float64{true: -1, false: 1}[p.fenced]
		keys[s.process(p.id)] = map[string]string{"epoch": strconv.FormatInt(p.epoch, 10), "handed": p.handed}
		record := map[string]string{markField: mark}
		for ticket, j := range p.record {
			record[strconv.FormatInt(ticket, 10)] = JobPrefix(j.Queue) + string(j.Payload)
		}
		keys[s.inflight(p.id)] = record
	}
	if len(leases) > 0 {
		keys[s.processes()] = leases
	}
	return keys
}

// actual is the dump of Redis in the same form: without the values of live leases, and of
// the failures only their payloads.
func actual(rt *rapid.T, s Store, dump map[string]any) map[string]any {
	delete(dump, s.heartbeats())
	for key, v := range dump {
		switch v := v.(type) {
		case map[string]float64:
			for p, score := range v {
				v[p] = max(-1, min(score, 1))
			}
		case map[string]string:
			if strings.HasPrefix(key, s.process("")) {
				dump[key] = map[string]string{"epoch": v["epoch"], "handed": v["handed"]}
			}
			if strings.HasPrefix(key, s.inflight("")) {
				dump[key] = joined(rt, v)
			}
		case []string:
			if key != s.failed() {
				continue
			}
			for i, record := range v {
				f, err := payload.ParseFailure([]byte(record))
				if err != nil {
					rt.Fatalf("failure %s: %v", record, err)
				}
				v[i] = string(f.Payload)
			}
		}
	}
	return dump
}

// joined is an in-flight record with all its payloads behind their prefixes, and without those of jobs that have ended.
func joined(rt *rapid.T, record map[string]string) map[string]string {
	one, payloads := make(map[string]string), 0
	for field, value := range record {
		ticket, own := strings.CutPrefix(field, "p")
		prefix, marked := strings.CutPrefix(value, "~")
		switch {
		case own:
			payloads++
			if of, ok := record[ticket]; ok && of[0] != '~' {
				rt.Fatalf("ticket %s has %q and a payload apart from it", ticket, of)
			}
		case field == apartField:
		case marked:
			payload, ok := record["p"+field]
			if !ok {
				rt.Fatalf("ticket %s has %q and no payload", field, value)
			}
			one[field] = prefix + payload
		default:
			one[field] = value
		}
	}
	if n, _ := strconv.Atoi(record[apartField]); n != payloads {
		rt.Fatalf("the record says that %q payloads are apart, and %d are", record[apartField], payloads)
	}
	return one
}

// whereabouts counts, from the keys alone, in how many places each payload lies.
func whereabouts(s Store, dump map[string]any) map[string]int {
	at := map[string]int{}
	for key, v := range dump {
		switch v := v.(type) {
		case []string: // a queue, or the failures
			if key == s.failed() || strings.HasPrefix(key, s.KeyOfQueue("")) {
				for _, payload := range v {
					at[payload]++
				}
			}
		case map[string]string:
			if strings.HasPrefix(key, s.inflight("")) {
				for field, value := range v {
					if field != markField {
						_, payload, _ := CutPrefix([]byte(value))
						at[string(payload)]++
					}
				}
			}
		case string:
			if key == s.worker(rubyWorker) {
				at[strings.TrimSuffix(strings.TrimPrefix(v, `{"queue":"low","payload":`), "}")]++
			}
		}
	}
	return at
}
