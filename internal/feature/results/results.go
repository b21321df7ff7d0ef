// Package results keeps what becomes of a job under its id: a document in Redis with its state, its times, its
// tries, and in the end its result or error. Jobs that run say there how far they are, and their log lines are
// captured on request.
//
// The end of a run is a row of its commit, so the document says done only of a job that is. What a running job
// says is written by a goroutine of this package, under a guard that ends with the commit.
package results

import (
	"errors"
	"time"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Field and LogsField are the fields of a payload that switch the feature on, and the capture of log lines.
const (
	Field     = resque.ResultField // the TTL in ms, a number
	LogsField = "logs"             // true
)

const (
	// DefaultTTL is how long a document stays after its job has ended.
	DefaultTTL = time.Hour

	// PendingTTL is how long a document stays while its job is not over: from each change of it, or from when
	// the job is due.
	PendingTTL = resque.PendingTTL

	// MaxResult is how many bytes a result has at most, as JSON.
	MaxResult = 1 << 20
)

// MaxTTL is the longest TTL, so that no sum of it overflows.
const MaxTTL = resque.MaxResultTTL

// TTL is the option of a job or a class whose documents are kept for so long after its end.
type TTL time.Duration

// Placed is the option of a job whose document has another name than the job's id: the function returns it for the id.
// So jobs of several queues may have one id and a document each.
type Placed func(id string) string

// Logs is the option of a job or a class whose log lines are captured.
type Logs bool

var errLogs = errors.New("CaptureLogs: the job's log lines stay as long as its result, and it keeps none; add WithResult")

// New makes the feature.
func New(d outcome.Deps) outcome.Feature {
	n := newNotes(d)
	return outcome.Feature{
		Name:    "results",
		Field:   Field,
		Enqueue: func(p *outcome.Push) error { return enqueue(d, p) },
		Open:    func(j *outcome.Job) outcome.Policy { return open(&d, n, j) },
		Close:   n.Close,
	}
}

// enqueue has the document start with the push, in the same step.
func enqueue(d outcome.Deps, p *outcome.Push) error {
	ttl, kept := outcome.Option[TTL](p)
	logs, _ := outcome.Option[Logs](p)
	if !kept {
		if logs {
			return errLogs
		}
		return nil
	}
	now, ms := millis(d.Time.Now()), time.Duration(ttl).Milliseconds()
	name, stays, field := p.MakeID(), max(PendingTTL.Milliseconds(), ms), payload.NumberField(Field, ms)
	if placed, ok := outcome.Get[Placed](p.Options); ok {
		name, field = placed(name), resque.PlacedResult(placed(name), ms)
	}
	p.Fields = append(p.Fields, field)
	if logs {
		p.Fields = append(p.Fields, payload.Field{Name: LogsField, Value: []byte("true")})
	}
	fields := []any{"state", pending, "class", p.Name, "queue", p.Queue, "enqueued", now, "ttl", ms}
	if !p.At.IsZero() {
		due := millis(p.At)
		fields = append(fields, "due", due)
		stays += max(0, due-now)
	}
	p.Begins = append(p.Begins, d.Store.StartDocument(name, p.Chosen, stays, fields...))
	return nil
}

// open returns the policy of a job with a document. Fields of another form are another program's.
func open(d *outcome.Deps, n *notes, j *outcome.Job) outcome.Policy {
	name, ttl, ok := resque.ResultOf(&j.Parsed)
	if !ok {
		return nil
	}
	j.Keep = true
	doc := &document{deps: d, name: name, ttl: ttl}
	doc.run = Run{wake: n.wake, now: n.now, captures: captures(j), doc: doc, job: j}
	return doc
}

// captures reports whether the log lines of a job with a document are captured.
func captures(j *outcome.Job) bool { return string(j.Parsed.Field(LogsField)) == "true" }

// millis is a time in a document. It rounds up, as schedules do.
func millis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }
