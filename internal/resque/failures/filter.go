package failures

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/payload"
)

// Filter chooses failures. A zero field matches all; a failure must match all
// fields that are set.
type Filter struct {
	Class, Queue, Exception, Text string
	Since, Until                  time.Time
	Retried, Unretried            bool

	Fits func(record []byte) bool // nil: it does not choose
}

// all reports whether the filter chooses every record.
func (f Filter) all() bool {
	return f.Class == "" && f.Queue == "" && f.Exception == "" && f.Text == "" && f.Since.IsZero() && f.Until.IsZero() &&
		!f.Retried && !f.Unretried && f.Fits == nil
}

// activeJobWrapper is the class under which Rails enqueues every ActiveJob. The job's
// own class is in its argument.
const activeJobWrapper = "ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper"

// JobClass is the class of a job, for an ActiveJob its own; "" if the text is no job.
func JobClass(raw []byte) string {
	p, err := payload.Parse(raw)
	if err != nil {
		return ""
	}
	if p.Class == activeJobWrapper && len(p.Args) == 1 {
		var job struct {
			Class string `json:"job_class"`
		}
		if json.Unmarshal(p.Args[0], &job) == nil && job.Class != "" {
			return job.Class
		}
	}
	return p.Class
}

// matcher is a filter prepared for many records.
type matcher struct {
	Filter
	needles [][]byte // a record that matches holds all of these
	text    string   // in lower case
	local   *time.Location
}

func (f Filter) matcher() *matcher {
	m := &matcher{Filter: f, text: strings.ToLower(f.Text), local: time.Local}
	for _, text := range []string{f.Class, f.Queue, f.Exception} {
		if text != "" && payload.PlainText(text) {
			m.needles = append(m.needles, []byte(text))
		}
	}
	if f.Retried {
		m.needles = append(m.needles, []byte("retried_at"))
	}
	return m
}

// fits reports whether a record matches. Text that is no record matches only the filter
// that chooses all.
func (m *matcher) fits(raw []byte) bool {
	if m.all() {
		return len(raw) > 0
	}
	for _, needle := range m.needles {
		if !bytes.Contains(raw, needle) && !bytes.Contains(raw, []byte(`\u00`)) {
			return false
		}
	}
	var f payload.FailureFields
	if !f.Scan(raw) {
		return false
	}
	retried := payload.Text(f.RetriedAt) != ""
	switch {
	case m.Retried && !retried, m.Unretried && retried,
		m.Queue != "" && payload.Text(f.Queue) != m.Queue,
		m.Exception != "" && payload.Text(f.Exception) != m.Exception,
		m.Class != "" && JobClass(f.Payload) != m.Class,
		m.text != "" && !strings.Contains(strings.ToLower(payload.Text(f.Error)), m.text):
		return false
	}
	if !m.Since.IsZero() || !m.Until.IsZero() {
		at, _ := failureTime(payload.Text(f.FailedAt), m.local)
		if at.IsZero() || at.Before(m.Since) || !m.Until.IsZero() && !at.Before(m.Until) {
			return false
		}
	}
	return m.Fits == nil || m.Fits(raw)
}

// Group counts failures of one kind.
type Group struct {
	Class, Exception string
	Count            int64
	First, Last      time.Time // when such jobs failed; zero if no record has a readable time
}

type failureKind struct{ class, exception string }

// groups counts records by kind.
type groups map[failureKind]*Group

func (g groups) add(raw []byte, local *time.Location) {
	var f payload.FailureFields
	f.Scan(raw)
	kind := failureKind{JobClass(f.Payload), payload.Text(f.Exception)}
	group := g[kind]
	if group == nil {
		group = &Group{Class: kind.class, Exception: kind.exception}
		g[kind] = group
	}
	group.Count++
	at, _ := failureTime(payload.Text(f.FailedAt), local)
	if at.IsZero() {
		return
	}
	if group.First.IsZero() || at.Before(group.First) {
		group.First = at
	}
	if at.After(group.Last) {
		group.Last = at
	}
}
