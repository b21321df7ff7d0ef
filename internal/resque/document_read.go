package resque

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
)

// Document is what the document of a job says. What is missing in it, or damaged, is zero here.
type Document struct {
	ID        string
	State     string // one of the States, or the word of another version
	Was       string // the state before it was cancelled
	Workflow  string // the name of a workflow, or "-"; "": it is that of a job
	Class     string
	Queue     string
	Enqueued  time.Time
	Due       time.Time
	TTL       time.Duration // how long the document stays after the end
	Attempt   int           // of the latest run; 0 before the first
	Process   string
	Worker    string
	Began     time.Time
	Ended     time.Time
	Result    string // JSON; "": there is none
	Left      string // why the result was not kept
	Exception string
	Error     string
	Tries     []DocumentTry // the oldest first; a done run is none
	Progress  *DocumentProgress
}

// DocumentTry is a run that ended otherwise than done.
type DocumentTry struct {
	Attempt   int
	State     string
	Began     time.Time
	Ended     time.Time
	Process   string
	Worker    string
	Exception string
	Error     string
}

// DocumentProgress is how far a job says that it is.
type DocumentProgress struct {
	Done, Total int64
	Note        string
	At          time.Time
}

// endStates are the states of a job that is over.
var endStates = []string{"done", "failed", "discarded", "expired", "cancelled"}

// Over reports whether a job in this state has ended.
func Over(state string) bool { return slices.Contains(endStates, state) }

// documentOf reads the fields of a document. There is none if there are no fields.
func documentOf(id string, fields map[string]string) (d Document, there bool) {
	if len(fields) == 0 {
		return Document{}, false
	}
	at := func(name string) time.Time { return timeOf(wholeOf(fields[name])) }
	d = Document{
		ID: id, State: fields["state"], Was: fields["was"], Workflow: fields["workflow"], Class: fields["class"], Queue: fields["queue"],
		Enqueued: at("enqueued"), Due: at("due"), TTL: durationOf(wholeOf(fields["ttl"])),
		Attempt: countOf(wholeOf(fields["attempt"])), Process: fields["process"], Worker: fields["worker"],
		Began: at("began"), Ended: at("ended"), Result: fields["result"], Left: fields["left"],
		Exception: fields["exception"], Error: fields["error"],
	}
	type numbered struct {
		n   int64
		try DocumentTry
	}
	var tries []numbered
	for name, text := range fields {
		if digits, ok := strings.CutPrefix(name, "t"); ok {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n > 0 {
				if try, ok := tryOf(text); ok {
					tries = append(tries, numbered{n, try})
				}
			}
		}
	}
	slices.SortFunc(tries, func(a, b numbered) int { return cmp.Compare(a.n, b.n) })
	for _, t := range tries {
		d.Tries = append(d.Tries, t.try)
	}
	return d, true
}

// tryOf reads a try. A text that is no JSON object is none.
func tryOf(text string) (DocumentTry, bool) {
	var t struct {
		Attempt   whole
		State     string
		Began     whole
		Ended     whole
		Process   string
		Worker    string
		Exception string
		Error     string
	}
	if !object(text, &t) {
		return DocumentTry{}, false
	}
	return DocumentTry{
		Attempt: countOf(t.Attempt), State: t.State, Began: timeOf(t.Began), Ended: timeOf(t.Ended),
		Process: t.Process, Worker: t.Worker, Exception: t.Exception, Error: t.Error,
	}, true
}

// ProgressOf reads the text of a progress key; nil: it is none.
func ProgressOf(text string) *DocumentProgress {
	var p struct {
		Done, Total, At whole
		Note            string
	}
	if !object(text, &p) {
		return nil
	}
	return &DocumentProgress{Done: int64(p.Done), Total: int64(p.Total), Note: p.Note, At: timeOf(p.At)}
}

// object reads a JSON object. A field of another type than expected stays zero.
func object(text string, into any) bool {
	err := json.Unmarshal([]byte(text), into)
	misfit := new(json.UnmarshalTypeError)
	return strings.HasPrefix(strings.TrimSpace(text), "{") && (err == nil || errors.As(err, &misfit))
}

// whole is a number of a document; 0: the text there is none.
type whole int64

func wholeOf(text string) whole {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return whole(n)
}

// UnmarshalJSON takes any JSON, so that one damaged field leaves the fields beside it readable.
func (w *whole) UnmarshalJSON(text []byte) error {
	*w = wholeOf(string(text))
	return nil
}

const mostMillis = whole(math.MaxInt64 / int64(time.Millisecond))

// timeOf returns a time in milliseconds; zero for one that no clock shows.
func timeOf(ms whole) time.Time {
	if ms <= 0 || ms > mostMillis {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms))
}

func durationOf(ms whole) time.Duration {
	if ms <= 0 || ms > mostMillis {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

func countOf(n whole) int {
	if n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int(n)
}

// DocumentAsk asks for the document of a job.
type DocumentAsk struct {
	ID       string
	Progress bool // and how far the job is
}

// DocumentRead is the answer to a DocumentAsk.
type DocumentRead struct {
	Document
	There bool  // there is a document
	Err   error // why Redis refused to read this one; nil: it did not
}

// ReadDocuments reads documents in one round trip and calls take for each, in their order, as it arrives. If the
// connection tracks what it reads, Redis notifies of changes of exactly these keys from then on. The
// error is one that concerns all of them.
func (s Store) ReadDocuments(c redis.Conn, asks []DocumentAsk, take func(i int, r DocumentRead)) error {
	for _, a := range asks {
		if err := c.Send("HGETALL", s.KeyOfResult(a.ID)); err != nil {
			return err
		}
		if a.Progress {
			if err := c.Send("GET", s.KeyOfProgress(a.ID)); err != nil {
				return err
			}
		}
	}
	if err := c.Flush(); err != nil {
		return err
	}
	var fatal error // the other answers are still received
	for i, a := range asks {
		fields, err := redis.StringMap(c.Receive())
		var progress string
		if a.Progress && (err == nil || c.Err() == nil) {
			var perr error
			if progress, perr = redis.String(c.Receive()); perr != nil && !errors.Is(perr, redis.ErrNil) && err == nil {
				err = perr
			}
		}
		if err != nil && concernsAll(c, err) {
			fatal = cmp.Or(fatal, err)
			if c.Err() != nil {
				return fatal
			}
			continue
		}
		if err != nil {
			take(i, DocumentRead{Err: s.refused(a.ID, err)})
			continue
		}
		d, there := documentOf(a.ID, fields)
		if there && a.Progress {
			d.Progress = ProgressOf(progress)
		}
		take(i, DocumentRead{Document: d, There: there})
	}
	return fatal
}

// concernsAll reports whether an error says something of the server or the connection, and not of one key.
func concernsAll(c redis.Conn, err error) bool {
	kind := conn.Classify(err)
	return c.Err() != nil || kind == conn.KindConn || kind == conn.KindWait || conn.MustRedial(err)
}

// refused explains why a document was not read.
func (s Store) refused(id string, err error) error {
	if IsWrongType(err) {
		return &KeyTypeError{Key: s.KeyOfResult(id), Want: "hash", Err: err}
	}
	return fmt.Errorf("reading what becomes of job %s: %w", id, Explain(err))
}

// ReadDocument reads the document of one job, and how far it is.
func (s Store) ReadDocument(c redis.Conn, id string) (d Document, there bool, err error) {
	var read DocumentRead
	if err := s.ReadDocuments(c, []DocumentAsk{{ID: id, Progress: true}}, func(_ int, r DocumentRead) { read = r }); err != nil {
		return Document{}, false, err
	}
	return read.Document, read.There, read.Err
}

// DocumentFilter chooses documents: those that fit every field that is set.
type DocumentFilter struct {
	State, Class, Queue string
	Workflows           bool // only those of workflows
}

func (f DocumentFilter) fits(state, class, queue, workflow string) bool {
	return (f.State == "" || f.State == state) && (f.Class == "" || f.Class == class) && (f.Queue == "" || f.Queue == queue) &&
		(!f.Workflows || workflow != "")
}

// DocumentPage is a part of the documents.
type DocumentPage struct {
	Found []Document
	Next  string // the cursor to go on from; "0": there are no more
}

// scanTogether is about how many keys Redis looks at in one step of ScanDocuments.
const scanTogether = 1000

// ScanDocuments returns the documents that fit among about a thousand keys of the whole Redis. The
// first cursor is "0". A document may come twice in a walk if Redis's table of keys grows meanwhile. Of documents that do
// not fit only the fields are read that say so: a result may be large.
func (s Store) ScanDocuments(c redis.Conn, cursor string, f DocumentFilter) (page DocumentPage, err error) {
	prefix := s.KeyOfResult("")
	reply, err := redis.Values(c.Do("SCAN", cursor, "MATCH", globText(prefix)+"*", "COUNT", scanTogether))
	var keys []string
	if err == nil {
		_, err = redis.Scan(reply, &page.Next, &keys)
	}
	if err != nil {
		return DocumentPage{}, fmt.Errorf("looking for documents of jobs: %w", Explain(err))
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if f != (DocumentFilter{}) {
		if keys, err = s.fitting(c, keys, f); err != nil {
			return DocumentPage{}, err
		}
	}
	asks := make([]DocumentAsk, len(keys))
	for i, key := range keys {
		asks[i] = DocumentAsk{ID: strings.TrimPrefix(key, prefix), Progress: true}
	}
	err = s.ReadDocuments(c, asks, func(_ int, r DocumentRead) {
		if r.There && r.Err == nil && f.fits(r.State, r.Class, r.Queue, r.Workflow) { // a key of another type is no document
			page.Found = append(page.Found, r.Document)
		}
	})
	return page, err
}

// fitting returns those keys whose documents fit.
func (s Store) fitting(c redis.Conn, keys []string, f DocumentFilter) (fit []string, err error) {
	err = readHashes(c, keys, []string{"state", "class", "queue", "workflow"}, func(i int, reply any, err error) {
		said, refused := redis.Strings(reply, err)
		if refused == nil && len(said) == 4 && f.fits(said[0], said[1], said[2], said[3]) {
			fit = append(fit, keys[i])
		}
	})
	if err != nil {
		return nil, fmt.Errorf("looking for documents of jobs: %w", Explain(err))
	}
	return fit, nil
}

// globText returns a pattern that matches a text and nothing else.
func globText(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// ForgetDocument removes the document of a job with what belongs to it, and reports whether there was any of it.
func (s Store) ForgetDocument(c redis.Conn, id string) (bool, error) {
	n, err := redis.Int(c.Do("DEL", s.KeyOfResult(id), s.KeyOfProgress(id), s.KeyOfJobLogs(id)))
	if err != nil {
		return false, fmt.Errorf("forgetting what became of job %s: %w", id, Explain(err))
	}
	return n > 0, nil
}

// JobLogs returns the captured log lines of a job, the oldest first. There says whether the job has a
// document or lines.
func (s Store) JobLogs(c redis.Conn, id string) (lines []string, there bool, err error) {
	b := Batch{Conn: c}
	b.Send("LRANGE", s.KeyOfJobLogs(id), 0, -1)
	b.Send("EXISTS", s.KeyOfResult(id))
	replies, err := b.Receive()
	if err == nil {
		if lines, err = redis.Strings(Answer(replies[0])); err == nil {
			there, err = redis.Bool(Answer(replies[1]))
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading the log lines of job %s: %w", id, Explain(err))
	}
	return lines, there || len(lines) > 0, nil
}
