package results_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// This file says what a document is after each step. It is written after the words of docs, not after the scripts.

const listed = 20 // tries

const pendingTTL = 7 * 24 * time.Hour

// model is all documents, by id, and what goes with them.
type model struct {
	docs     map[string]*document
	progress map[string]*text
	wanted   map[string]bool // false: the set of cancelled jobs has it
	other    map[string]bool // keys that are another program's
	done     map[string]bool // a job of the id was done since its document began
	orphans  map[string]bool // an operator removed the ticket of a job of the id
	soft     []resque.KeyError
}

// document is a hash: times are checked by themselves.
type document struct {
	fields map[string]string // "*" stands for a time
	tries  []attempt
	life   time.Duration // its TTL as it was set last
	due    time.Time     // of the field due
	logs   []string      // the captured lines
	run    string        // of the latest of them
	seen   int           // how many that run has written
}

// log adds lines of a run that follow others of it.
func (d *document) log(run string, before int, lines []string) {
	if len(lines) == 0 {
		return
	}
	if d.run != run {
		d.run, d.seen = run, 0
	}
	if next := d.seen - before; next < len(lines) {
		d.logs = append(d.logs, lines[max(0, next):]...)
	}
	d.seen = max(d.seen, before+len(lines))
	d.fields["logged"] = fmt.Sprint(run, " ", d.seen)
	d.fields["log_bytes"] = strconv.Itoa(len(strings.Join(d.logs, "")))
}

type text struct {
	value string
	life  time.Duration // 0: not known
}

// attempt is a try as a document lists it.
type attempt struct {
	Attempt                                  int
	State, Process, Worker, Exception, Error string
}

func newModel() *model {
	return &model{docs: map[string]*document{}, progress: map[string]*text{}, wanted: map[string]bool{}, other: map[string]bool{},
		done: map[string]bool{}, orphans: map[string]bool{}}
}

// ended is the end of a run, as a commit or a reaper writes it.
type ended struct {
	state    outcome.State
	dead     bool
	started  bool
	err      error
	value    any
	next     outcome.Next
	progress string // that nothing has written yet
	unwanted bool   // its process knew that it was cancelled
	run      string // its name
	before   int    // how many of its log lines were written, as far as its process knows
	lines    []string
	job      job
	process  string
	worker   string
}

var names = map[outcome.State]string{
	outcome.Done: "done", outcome.Failed: "failed", outcome.Retried: "retrying", outcome.Snoozed: "snoozed", outcome.Returned: "pending",
	outcome.Discarded: "discarded", outcome.Expired: "expired", outcome.Cancelled: "cancelled",
}

// pushed begins a document.
func (m *model) pushed(j job, due time.Duration) {
	delete(m.wanted, j.id)
	if j.ttl == 0 {
		return
	}
	d := &document{life: max(pendingTTL, millis(j.ttl)) + due, fields: map[string]string{
		"state": "pending", "class": j.class, "queue": queue, "enqueued": "*", "ttl": strconv.FormatInt(j.ttl, 10)}}
	if due > 0 {
		d.fields["due"], d.due = "*", time.Now().Add(due)
	}
	m.docs[j.id] = d
	delete(m.progress, j.id)
	delete(m.other, j.id)
	delete(m.done, j.id)
	delete(m.orphans, j.id)
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// note is what a running job says, if its ticket stands.
func (m *model) note(n *resque.Note, process string) {
	d := m.docs[n.ID]
	if d == nil {
		return
	}
	life := millis(n.TTL)
	var lines []string
	for _, line := range n.Lines {
		lines = append(lines, string(line))
	}
	d.log(resque.RunName(process, n.Ticket), n.Before, lines)
	if n.Progress != nil {
		value, _, _ := strings.Cut(string(n.Progress), timed)
		m.progress[n.ID] = &text{value, life}
	}
	if n.Begun == nil {
		return
	}
	d.ran(n.Begun)
	if d.fields["state"] == "cancelled" {
		d.fields["was"] = "running"
	} else {
		d.fields["state"] = "running"
		d.remove("due", "ended", "result", "left")
	}
	d.life = life
	if p := m.progress[n.ID]; p != nil {
		p.life = life
	}
}

func (d *document) ttl() int64 {
	ms, _ := strconv.ParseInt(d.fields["ttl"], 10, 64)
	return ms
}

func (d *document) remove(fields ...string) {
	for _, f := range fields {
		delete(d.fields, f)
	}
}

func (d *document) ran(values []any) {
	for i := 0; i < len(values); i += 2 {
		d.fields[fmt.Sprint(values[i])] = fmt.Sprint(values[i+1])
	}
	d.fields["began"] = "*"
}

// end is the end of a run that was committed.
func (m *model) end(e ended) {
	id := e.job.id
	if e.state == outcome.Done {
		m.done[id] = true
	}
	if e.unwanted && e.state.Over() {
		delete(m.wanted, id)
	}
	back := e.state == outcome.Returned || e.state == outcome.Passed
	d := m.docs[id]
	if e.job.ttl == 0 || d == nil || back && !e.started {
		return
	}
	f := d.fields
	if e.started {
		f["attempt"], f["process"] = strconv.Itoa(e.job.attempt), e.process
		if e.worker != "" {
			f["worker"] = e.worker
		}
		if !e.dead && e.worker != "" {
			f["began"] = "*"
		}
	}
	exception, why := said(e.err, e.dead)
	d.remove("result", "left", "due", "ended")
	switch e.state {
	case outcome.Failed, outcome.Retried, outcome.Discarded:
		f["exception"], f["error"] = exception, why
	case outcome.Done:
		d.remove("exception", "error")
		switch v := e.value.(type) {
		case nil:
		case chan int:
			f["left"] = "*left"
		default:
			raw, _ := json.Marshal(v)
			f["result"] = string(raw)
		}
	}
	if e.started && e.state != outcome.Done {
		t := attempt{Attempt: e.job.attempt, State: names[e.state], Process: e.process, Worker: e.worker, Exception: exception, Error: why}
		switch {
		case e.dead:
			t.State = "lost"
		case back:
			t.State = "interrupted"
		}
		d.tries = append(d.tries, t)
	}
	life := millis(e.job.ttl)
	if !e.state.Over() {
		life = max(pendingTTL, life)
		if e.next.Place == outcome.Schedule {
			life += time.Until(e.next.At)
			f["due"], d.due = "*", e.next.At
		}
	}
	switch {
	case f["state"] == "cancelled" && !e.state.Over():
		f["was"] = names[e.state]
	case e.state.Over():
		f["ended"] = "*"
		d.remove("was") // nothing is to be taken back any more
		fallthrough
	default:
		f["state"] = names[e.state]
	}
	d.life = life
	if e.progress != "" {
		m.progress[id] = &text{e.progress, 0}
	}
	if p := m.progress[id]; p != nil {
		p.life = life
	}
	d.log(e.run, e.before, e.lines)
}

// cancelled is a cancel that was accepted.
func (m *model) cancelled(id string) {
	m.wanted[id] = true
	d := m.docs[id]
	if d == nil {
		return
	}
	switch state := d.fields["state"]; state {
	case "pending", "retrying", "snoozed":
		d.fields["state"], d.fields["was"], d.fields["ended"] = "cancelled", state, "*"
		d.life = millis(d.ttl())
		if p := m.progress[id]; p != nil {
			p.life = d.life
		}
	}
}

// lifted is a cancel that was taken back.
func (m *model) lifted(id string) {
	delete(m.wanted, id)
	d := m.docs[id]
	if d == nil || d.fields["state"] != "cancelled" || d.fields["was"] == "" {
		return
	}
	d.fields["state"] = d.fields["was"]
	d.remove("was", "ended")
	d.life = max(pendingTTL, millis(d.ttl()))
	if d.fields["due"] != "" {
		d.life += max(0, time.Until(d.due))
	}
	if p := m.progress[id]; p != nil {
		p.life = d.life
	}
}

// forget is what removes everything of an id, or one key.
func (m *model) forget(id string) {
	delete(m.docs, id)
	delete(m.progress, id)
}

// differs compares a document with what Redis has. It returns "" if they agree.
func (d *document) differs(got map[string]string, from, to time.Time) string {
	want := maps.Clone(d.fields)
	if n := len(d.tries); n > 0 {
		want["tries"] = strconv.Itoa(n)
	}
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	first := max(0, len(d.tries)-listed)
	for i, t := range d.tries[first:] {
		name := fmt.Sprint("t", first+i+1)
		var is attempt
		raw, there := got[name]
		if err := json.Unmarshal([]byte(raw), &is); !there || err != nil || is != t {
			say("%s is %q, want %+v", name, raw, t)
		}
		delete(got, name)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		is, there := got[name]
		delete(got, name)
		switch want := want[name]; {
		case want == "*left" && there:
		case want == "*" && there:
			ms, err := strconv.ParseInt(is, 10, 64)
			if at := time.UnixMilli(ms); err != nil || at.Before(from) || at.After(to) && name != "due" {
				say("%s is %s, which is no time of this history", name, is)
			}
		case is != want || !there:
			say("%s is %.80q, want %.80q", name, is, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		say("%s is %.80q, want none", name, got[name])
	}
	return strings.Join(wrong, "; ")
}

func (d *document) over() bool {
	switch d.fields["state"] {
	case "done", "failed", "discarded", "expired", "cancelled":
		return true
	}
	return false
}

// said is what a document says of an error.
func said(err error, dead bool) (exception, text string) {
	if err == nil {
		return "", ""
	}
	exception, text, _ = failure.Describe(err, nil)
	if !dead && failure.Is(err, failure.ErrCancelled) {
		exception = "Resque::DirtyExit"
	}
	return exception, text
}
