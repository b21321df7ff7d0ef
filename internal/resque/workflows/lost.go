package workflows

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// This file finds sent steps that will not end by themselves, and has them end or run again.

var (
	stallScript  = load("stall")
	resendScript = load("resend")
)

// StalledKey is the sorted set of the workflows that have lost steps: since when, in ms.
func (s Store) StalledKey() resque.Key { return s.ZSetKey("stalled") }

// Template is a job that a workflow keeps to send a step, or to send it again.
type Template struct {
	Text    string // "": there is none
	Queue   string
	Payload []byte
	Place   string // the payload's field
}

// parseTemplate reads a template: 'letter mode of delay ttl cut last record'.
func parseTemplate(text []byte) (t Template) {
	words := bytes.SplitN(text, []byte(" "), 8)
	if len(words) < 8 {
		return t
	}
	queue, raw, ok := resque.CutPrefix(words[7])
	if !ok {
		return t
	}
	place, _ := fieldsOf(raw)
	return Template{Text: string(text), Queue: queue, Payload: raw, Place: place}
}

// fieldsOf returns the place and the id of a step's job.
func fieldsOf(raw []byte) (place, id string) {
	raw = payload.JSON(raw)
	p := payload.Tail(raw)
	if value := p.Field(Field); len(value) > 1 && p.ID != "" {
		return string(value[1 : len(value)-1]), p.ID
	}
	parsed, err := payload.Parse(raw)
	if err != nil {
		return "", ""
	}
	if value := parsed.Field(Field); len(value) > 1 {
		place = string(value[1 : len(value)-1])
	}
	return place, parsed.ID
}

// StepOf returns the workflow and the step of a job; ok is false for a job that is no step.
func StepOf(raw []byte) (workflow string, step int, ok bool) {
	place, id := fieldsOf(raw)
	if place == "" {
		return "", 0, false
	}
	return SplitID(id)
}

// mostFields is how many fields one command reads.
const mostFields = 500

// Templates reads the templates that a workflow keeps for steps.
func (s Store) Templates(c redis.Conn, id string, steps []int) (map[int]Template, error) {
	all := make(map[int]Template, len(steps))
	values, err := s.stepFields(c, id, "s", steps)
	for n, text := range values {
		all[n] = parseTemplate(text)
	}
	return all, err
}

// stepFields reads the fields of steps: a letter and the number.
func (s Store) stepFields(c redis.Conn, id, letter string, steps []int) (map[int][]byte, error) {
	all := make(map[int][]byte)
	for page := range slices.Chunk(steps, mostFields) {
		args := []any{s.WorkflowKey(id).String()}
		for _, n := range page {
			args = append(args, letter+strconv.Itoa(n))
		}
		values, err := redis.ByteSlices(c.Do("HMGET", args...))
		if err == nil && len(values) != len(page) {
			err = resque.ErrAnswer
		}
		if err != nil {
			return nil, fmt.Errorf("reading workflow %s: %w", id, resque.Explain(err))
		}
		for i, n := range page {
			if values[i] != nil {
				all[n] = values[i]
			}
		}
	}
	return all, nil
}

// letterPage is how many letters one command reads.
const letterPage = 1 << 16

// ReadLetters reads all letters of a workflow.
func (s Store) ReadLetters(c redis.Conn, id string) (letters []byte, err error) {
	for {
		page, err := redis.Bytes(c.Do("GETRANGE", s.LettersKey(id).String(), len(letters), len(letters)+letterPage-1))
		if err != nil {
			return nil, fmt.Errorf("reading the letters of workflow %s: %w", id, resque.Explain(err))
		}
		if letters = append(letters, page...); len(page) < letterPage {
			return letters, nil
		}
	}
}

// Waiting is a step that ends by a reply from outside.
type Waiting struct {
	Step   int
	Until  time.Time // zero: without end
	Within time.Duration
	until  string
	place  string
}

// Outside reads which steps of a workflow wait for a reply.
func (s Store) Outside(c redis.Conn, id string, letters []byte) (waits []Waiting, err error) {
	var steps []int
	for n, l := range letters {
		if l == Outside {
			steps = append(steps, n)
		}
	}
	until, err := s.stepFields(c, id, "y", steps)
	if err != nil {
		return nil, err
	}
	tokens, err := s.stepFields(c, id, "k", steps)
	for _, n := range steps {
		w := Waiting{Step: n, Until: timeOf(string(until[n])), until: string(until[n])}
		if words := strings.SplitN(string(tokens[n]), " ", 3); len(words) == 3 {
			w.Within, w.place = time.Duration(wholeOf(words[1]))*time.Millisecond, words[2]
		}
		waits = append(waits, w)
	}
	return waits, err
}

// Lost is a sent step that ends because nothing else ends it.
type Lost struct {
	Step    int
	Letter  byte   // Failed or NotRun
	Failure []byte // JSON
	Waiting *Waiting
	Place   string // of a job that is nowhere
	Again   string
	Queue   string // where what follows it may go
}

// EndOutside ends steps for which no reply came in time.
func (s Store) EndOutside(c redis.Conn, id string, late []Waiting) ([]int, error) {
	steps := make([]int, len(late))
	for i, w := range late {
		steps[i] = w.Step
	}
	templates, err := s.Templates(c, id, steps)
	if err != nil {
		return nil, err
	}
	all := make([]Lost, len(late))
	for i, w := range late {
		t := templates[w.Step]
		f := StepFailure{Step: w.Step, ID: StepID(id, w.Step), Queue: t.Queue, Class: t.Class(), State: "failed", Exception: "Timeout"}
		f.Error = "no reply within " + w.Within.String()
		all[i] = Lost{Step: w.Step, Letter: Failed, Failure: f.JSON(), Waiting: &late[i], Again: t.Text}
		if p, ok := ParsePlace(w.place); ok {
			all[i].Queue = p.Queue
		}
	}
	return s.Lose(c, id, all)
}

// Class returns the class of the template's job.
func (t Template) Class() string {
	p, err := payload.Parse(t.Payload)
	if err != nil {
		return ""
	}
	return p.Class
}

// Lose ends lost steps and returns which of them had not ended meanwhile.
func (s Store) Lose(c redis.Conn, id string, steps []Lost) (ended []int, err error) {
	for page := range slices.Chunk(steps, 100) {
		queue := page[0].Queue
		var args []any
		for _, l := range page {
			was, until, place := byte(Sent), "", l.Place
			if l.Waiting != nil {
				was, until, place = Outside, l.Waiting.until, l.Waiting.place
			}
			if place == "" {
				place = Place{}.String()
			}
			args = append(args, l.Step, string(was), until, string(l.Letter), place, l.Failure, l.Again)
		}
		r, err := s.run(c, loseScript, id, queue, args...)
		if err != nil {
			return ended, fmt.Errorf("ending lost steps of workflow %s: %w", id, err)
		}
		for _, text := range r[1:] {
			n, _ := strconv.Atoi(text)
			ended = append(ended, n)
		}
	}
	return ended, nil
}

// Stall says which sent steps of a workflow are lost, and why it stands still. Without a sentence it stands still no longer.
// It does nothing if letters have moved since bits of them were set. News says that this was not known.
func (s Store) Stall(c redis.Conn, id string, steps []int, why string, bits int64) (news bool, err error) {
	text := ""
	if why != "" {
		text = stalled(steps, why)
	}
	r, err := s.run(c, stallScript, id, "", text, bits)
	if err != nil {
		return false, fmt.Errorf("naming the lost steps of workflow %s: %w", id, err)
	}
	return r[0] == "ok", nil
}

// Stalled returns how many workflows have lost steps.
func (s Store) Stalled(c redis.Conn) (int64, error) {
	n, err := redis.Int64(c.Do("ZCARD", s.StalledKey().String()))
	if err != nil {
		err = fmt.Errorf("counting the workflows with lost steps: %w", resque.Explain(err))
	}
	return n, err
}

// TrimStalled removes the entries of workflows that have ended or were removed. It looks at up to 1,000.
func (s Store) TrimStalled(c redis.Conn) error {
	ids, err := redis.Strings(c.Do("ZRANGE", s.StalledKey().String(), 0, 999))
	if err != nil || len(ids) == 0 {
		return resque.Explain(err)
	}
	b := resque.Batch{Conn: c}
	for _, id := range ids {
		b.Send("HMGET", s.WorkflowKey(id).String(), "state", "stalled")
	}
	replies, err := b.Receive()
	if err != nil {
		return err
	}
	gone := []any{s.StalledKey().String()}
	for i, id := range ids {
		fields, err := redis.Strings(resque.Answer(replies[i]))
		if err == nil && len(fields) == 2 && (fields[0] == "" || fields[0] == StateDone || fields[1] == "") {
			gone = append(gone, id)
		}
	}
	if len(gone) > 1 {
		_, err = c.Do("ZREM", gone...)
	}
	return resque.Explain(err)
}

// mostRuns bounds the field stalled. Lost steps beyond it are found again once these were sent.
const mostRuns = 10_000

// runsOf writes rising numbers as 'first+count' with commas.
func runsOf(steps []int) string {
	var b strings.Builder
	runs := 0
	for i := 0; i < len(steps) && runs < mostRuns; runs++ {
		first := i
		for i++; i < len(steps) && steps[i] == steps[i-1]+1; i++ {
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%d+%d", steps[first], i-first)
	}
	return b.String()
}

// stalled is the field: lost steps, or '-', and a sentence.
func stalled(steps []int, why string) string {
	return cmp.Or(runsOf(steps), "-") + " " + why
}

// LostSteps reads the field stalled: at most so many steps, in their order, and why the workflow stands still.
func LostSteps(stalled string, most int) (steps []int, why string) {
	runs, why, _ := strings.Cut(stalled, " ")
	for run := range strings.SplitSeq(runs, ",") {
		first, count, _ := strings.Cut(run, "+")
		n, err := strconv.Atoi(first)
		many, err2 := strconv.Atoi(count)
		if err != nil || err2 != nil {
			continue
		}
		for ; many > 0 && len(steps) < most; n, many = n+1, many-1 {
			steps = append(steps, n)
		}
	}
	return steps, why
}

// Resent is what Resend did.
type Resent struct {
	Sent []int  // steps that were sent again
	Lost []int  // steps of which the workflow keeps too little, and which failed
	Over string // the state of a workflow that is halted: nothing of it is sent
}

// Resend sends the lost steps of a workflow again. Those of which the workflow keeps no template, or not
// what the template needs, end as failed.
func (s Store) Resend(c redis.Conn, id string) (out Resent, err error) {
	for {
		said, err := redis.String(c.Do("HGET", s.WorkflowKey(id).String(), "stalled"))
		if errors.Is(err, redis.ErrNil) || err == nil && said == "" {
			return out, nil
		}
		if err != nil {
			return out, fmt.Errorf("reading workflow %s: %w", id, resque.Explain(err))
		}
		all, why := LostSteps(said, mostRuns*100)
		page := all[:min(len(all), 100)]
		templates, err := s.Templates(c, id, page)
		if err != nil {
			return out, err
		}
		queue := ""
		rest := ""
		if len(all) > len(page) {
			rest = stalled(all[len(page):], why)
		}
		args := []any{said, rest}
		for _, n := range page {
			if args = append(args, n); queue == "" {
				queue = templates[n].Queue
			}
		}
		r, err := s.run(c, resendScript, id, queue, args...)
		switch {
		case err != nil:
			return out, fmt.Errorf("sending lost steps of workflow %s again: %w", id, err)
		case r[0] == "changed":
			continue
		case r[0] != "ok":
			out.Over = r[0]
			return out, nil
		}
		var lost []int
		for _, text := range r[1:] {
			n, _ := strconv.Atoi(text)
			lost = append(lost, n)
		}
		for _, n := range page {
			if !slices.Contains(lost, n) {
				out.Sent = append(out.Sent, n)
			}
		}
		failed, err := s.fail(c, id, lost)
		if out.Lost = append(out.Lost, failed...); err != nil {
			return out, err
		}
	}
}

// Drop ends lost steps of a halted workflow as not run.
func (s Store) Drop(c redis.Conn, id string, steps []int) ([]int, error) {
	all, err := s.lost(c, id, steps)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Letter, all[i].Failure = NotRun, nil
	}
	return s.Lose(c, id, all)
}

// fail ends lost steps as failed.
func (s Store) fail(c redis.Conn, id string, steps []int) ([]int, error) {
	if len(steps) == 0 {
		return nil, nil
	}
	all, err := s.lost(c, id, steps)
	if err != nil {
		return nil, err
	}
	return s.Lose(c, id, all)
}

// lost says how steps whose jobs are nowhere fail.
func (s Store) lost(c redis.Conn, id string, steps []int) ([]Lost, error) {
	templates, err := s.Templates(c, id, steps)
	if err != nil {
		return nil, err
	}
	var places map[int]string
	all := make([]Lost, len(steps))
	for i, n := range steps {
		t := templates[n]
		if t.Place == "" && places == nil {
			if places, err = s.places(c, id, steps); err != nil {
				return nil, err
			}
		}
		f := StepFailure{Step: n, ID: StepID(id, n), Class: t.Class(), Queue: t.Queue, State: "lost", Exception: "Lost"}
		f.Error = "the job of this step is nowhere"
		all[i] = Lost{Step: n, Letter: Failed, Failure: f.JSON(), Place: cmp.Or(t.Place, places[n]), Again: t.Text}
		if p, ok := ParsePlace(all[i].Place); ok {
			all[i].Queue = p.Queue
		}
	}
	return all, nil
}

// About returns the class and the queue of a step's job, as far as the workflow keeps them.
func (s Store) About(c redis.Conn, id string, step int) (class, queue string, err error) {
	templates, err := s.Templates(c, id, []int{step})
	if class, queue = templates[step].Class(), templates[step].Queue; class == "" {
		class, queue = "class unknown", "unknown"
	}
	return class, queue, err
}

// places returns the places of steps that were sent first and have no template: the fields 'i<first>' hold 'count place' for steps
// in a row. A step that none names has no place.
func (s Store) places(c redis.Conn, id string, steps []int) (map[int]string, error) {
	places := make(map[int]string)
	for cursor := "0"; ; {
		fields, next, err := s.scanHash(c, id, cursor, "i[0-9]*")
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(fields); i += 2 {
			first, err := strconv.Atoi(string(fields[i][1:]))
			digits, place, ok := strings.Cut(string(fields[i+1]), " ")
			count, err2 := strconv.Atoi(digits)
			if err != nil || err2 != nil || !ok {
				continue
			}
			for _, n := range steps {
				if n >= first && n < first+count {
					places[n] = place
				}
			}
		}
		if cursor = next; cursor == "0" {
			return places, nil
		}
	}
}
