package workflows

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// lettersPage is how many letters are read in one go.
const lettersPage = 65536

// Counts are the letters of a workflow.
type Counts struct {
	Waiting, Sent, Outside, Done, Failed, NotRun int64 // steps
	Armed, Called, Over                          int64 // handlers
}

// add counts letters.
func (n *Counts) add(letters []byte) {
	for _, l := range letters {
		switch l {
		case Waits:
			n.Waiting++
		case Sent:
			n.Sent++
		case Outside:
			n.Outside++
		case Done:
			n.Done++
		case Failed:
			n.Failed++
		case NotRun:
			n.NotRun++
		case Armed:
			n.Armed++
		case Called:
			n.Called++
		case Over:
			n.Over++
		}
	}
}

// Workflow is what Redis says of a workflow. What is missing there, or damaged, is zero here.
type Workflow struct {
	ID       string
	Name     string
	State    string
	Meta     string // JSON
	Began    time.Time
	Ended    time.Time
	Deadline time.Duration // from its start, and from each retry
	Until    time.Time     // when the deadline passes
	Open     bool          // more may be added to it
	Paused   bool
	Rest     bool   // after a failure the rest runs
	Stalled  string // why it stands still; "": it does not
	Lock     string // the name under which it is unique
	Error    string // the first failure that nothing bears, as JSON
	Result   string // JSON; "": there is none
	Left     string // why the result was not kept
	Counts   Counts // only of Read
}

var (
	hashFields     = []any{"state", "name", "meta", "began", "deadline", "until", "open", "paused", "rest", "stalled", "lock", "error"}
	documentFields = []any{"state", "workflow", "enqueued", "ended", "error", "result", "left"}
)

// ask adds the questions about a workflow. A result may be large.
func (s Store) ask(b *resque.Batch, id string, result bool) {
	b.Send("HMGET", append([]any{s.WorkflowKey(id).String()}, hashFields...)...)
	of := documentFields
	if !result {
		of = of[:5]
	}
	b.Send("HMGET", append([]any{s.KeyOfResult(id)}, of...)...)
}

// workflowOf reads the two answers. There is none if both are empty.
func workflowOf(id string, hash, document any) (w Workflow, there bool, err error) {
	of, err := redis.Strings(resque.Answer(hash))
	if err != nil || len(of) != len(hashFields) {
		return w, false, orAnswer(err)
	}
	d, err := redis.Strings(resque.Answer(document))
	if err != nil || len(d) < 5 {
		return w, false, orAnswer(err)
	}
	w = Workflow{ID: id, State: of[0], Name: of[1], Meta: of[2], Began: readTime(of[3]), Deadline: readDuration(of[4]),
		Until: readTime(of[5]), Open: of[6] != "", Paused: of[7] == "1", Rest: of[8] == "1", Stalled: of[9], Lock: of[10], Error: of[11]}
	if d[1] != "" { // that of a job has no name of a workflow
		if w.State == "" { // the hash was removed
			w.State = d[0]
		}
		if w.Name == "" && d[1] != "-" {
			w.Name = d[1]
		}
		if w.Began.IsZero() {
			w.Began = readTime(d[2])
		}
		w.Ended = readTime(d[3])
		if w.Error == "" {
			w.Error = d[4]
		}
		if len(d) == len(documentFields) {
			w.Result, w.Left = d[5], d[6]
		}
	}
	return w, w.State != "" && (of[0] != "" || d[1] != ""), nil
}

func orAnswer(err error) error {
	if err == nil {
		return resque.ErrAnswer
	}
	return resque.Explain(err)
}

func readTime(ms string) time.Time {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || n <= 0 || n > 1e15 {
		return time.Time{}
	}
	return time.UnixMilli(n)
}

func readDuration(ms string) time.Duration {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || n <= 0 || n > 9e12 {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// Exists reports whether there is a workflow with this id.
func (s Store) Exists(c redis.Conn, id string) (bool, error) {
	there, err := redis.Bool(c.Do("EXISTS", s.WorkflowKey(id).String()))
	if err != nil {
		return false, fmt.Errorf("looking for workflow %s: %w", id, resque.Explain(err))
	}
	return there, nil
}

// Count returns how many workflows the sweep looks at: those that go on, and those that failed or were stopped and are
// kept.
func (s Store) Count(c redis.Conn) (int, error) {
	n, err := redis.Int(c.Do("ZCARD", s.IndexKey().String()))
	if err != nil {
		return 0, fmt.Errorf("counting the workflows: %w", resque.Explain(err))
	}
	return n, nil
}

// Read reads a workflow and counts its letters. The error matches ErrNoWorkflow if there is none.
func (s Store) Read(c redis.Conn, id string) (w Workflow, err error) {
	b := resque.Batch{Conn: c}
	s.ask(&b, id, true)
	b.Send("GETRANGE", s.LettersKey(id).String(), 0, lettersPage-1)
	replies, err := b.Receive()
	if err != nil {
		return w, err
	}
	w, there, err := workflowOf(id, replies[0], replies[1])
	if err == nil && !there {
		err = ErrNoWorkflow
	}
	if err != nil {
		return w, s.about(c, id, err)
	}
	page, err := redis.Bytes(resque.Answer(replies[2]))
	for at := 0; err == nil; {
		w.Counts.add(page)
		if at += len(page); len(page) < lettersPage {
			return w, nil
		}
		page, err = redis.Bytes(c.Do("GETRANGE", s.LettersKey(id).String(), at, at+lettersPage-1))
	}
	return w, s.about(c, id, err)
}

// CountLetters counts the letters of workflows, of each at most the first 65,536, and calls give with the index of each.
func (s Store) CountLetters(c redis.Conn, ids []string, give func(i int, n Counts)) error {
	b := resque.Batch{Conn: c}
	for _, id := range ids {
		b.Send("GETRANGE", s.LettersKey(id).String(), 0, lettersPage-1)
	}
	replies, err := b.Receive()
	for i := 0; err == nil && i < len(ids); i++ {
		if page, damaged := redis.Bytes(resque.Answer(replies[i])); damaged == nil {
			var n Counts
			n.add(page)
			give(i, n)
		}
	}
	return err
}

// about names the workflow, or the key of another type, in an error.
func (s Store) about(c redis.Conn, id string, err error) error {
	if errors.Is(err, ErrNoWorkflow) {
		return err
	}
	return fmt.Errorf("reading workflow %s: %w", id, s.named(c, id, "", err))
}

// Listed is a page of workflows.
type Listed struct {
	Found []Workflow
	Next  string // the cursor to go on from; "0": there are no more
}

// ListIndexed returns the workflows among about a hundred entries of the index: those that have not ended and many that
// have. The first cursor is "0". One may come twice in a walk. The workflows of gone entries are left out.
func (s Store) ListIndexed(c redis.Conn, cursor string) (page Listed, err error) {
	reply, err := redis.Values(c.Do("ZSCAN", s.IndexKey().String(), cursor, "COUNT", 100))
	var entries []string
	if err == nil {
		_, err = redis.Scan(reply, &page.Next, &entries)
	}
	if err != nil {
		if resque.IsWrongType(err) {
			err = &resque.KeyTypeError{Key: s.IndexKey().String(), Want: "sorted set", Err: err}
		}
		return Listed{}, fmt.Errorf("listing workflows: %w", resque.Explain(err))
	}
	ids := make([]string, 0, len(entries)/2)
	for i := 0; i+1 < len(entries); i += 2 {
		ids = append(ids, entries[i])
	}
	page.Found, err = s.readAll(c, ids)
	return page, err
}

// readAll reads workflows without their results and counts. Those that are gone, or of another type, are left out.
func (s Store) readAll(c redis.Conn, ids []string) (found []Workflow, err error) {
	b := resque.Batch{Conn: c}
	for _, id := range ids {
		s.ask(&b, id, false)
	}
	replies, err := b.Receive()
	for i := 0; err == nil && i < len(ids); i++ {
		w, there, damaged := workflowOf(ids[i], replies[2*i], replies[2*i+1])
		if there && damaged == nil {
			found = append(found, w)
		}
	}
	return found, err
}

// ListDone returns the workflows that are done, and have left the index, among about a thousand keys of the whole Redis.
// The first cursor is "0".
func (s Store) ListDone(c redis.Conn, cursor string) (page Listed, err error) {
	documents, err := s.ScanDocuments(c, cursor, resque.DocumentFilter{State: StateDone, Workflows: true})
	if err != nil {
		return Listed{}, err
	}
	b := resque.Batch{Conn: c}
	for _, d := range documents.Found {
		b.Send("ZSCORE", s.IndexKey().String(), d.ID)
	}
	scores, err := b.Receive()
	if err != nil {
		return Listed{}, err
	}
	var ids []string
	for i, d := range documents.Found {
		if score, refused := resque.Answer(scores[i]); score == nil && refused == nil {
			ids = append(ids, d.ID)
		}
	}
	page.Next = documents.Next
	page.Found, err = s.readAll(c, ids)
	return page, err
}

// StepRead is what Redis says of a step.
type StepRead struct {
	Number  int
	Letter  byte
	Name    string
	Queue   string
	Payload []byte // of its job as it was planned, or as it failed; nil: it is not known
	Failure string // JSON; "": it did not fail
	Result  string // JSON; '!' before a failure that stands for it, '+' before the list of several; "": none is kept
	Until   time.Time
	Since   time.Time // when it was sent, if it ends by a token
}

// stepsTogether is how many steps are read in one go: their templates and results may be large.
const stepsTogether = 100

// Steps returns steps with one of these letters from a number on, some at a time, and the number to go on from; -1: there
// are no more.
func (s Store) Steps(c redis.Conn, id string, from int, letters string) (found []StepRead, next int, err error) {
	page, err := redis.Bytes(c.Do("GETRANGE", s.LettersKey(id).String(), from, from+lettersPage-1))
	if err != nil {
		return nil, -1, s.about(c, id, err)
	}
	next = from + len(page)
	if len(page) < lettersPage {
		next = -1
	}
	for i, l := range page {
		if strings.IndexByte(letters, l) < 0 {
			continue
		}
		if found = append(found, StepRead{Number: from + i, Letter: l}); len(found) == stepsTogether {
			next = from + i + 1
			break
		}
	}
	if err := s.fill(c, id, found); err != nil {
		return nil, -1, s.about(c, id, err)
	}
	return found, next, nil
}

// OneStep returns a step. The error matches ErrNoStep if there is none.
func (s Store) OneStep(c redis.Conn, id string, number int) (StepRead, error) {
	letter, err := redis.String(c.Do("GETRANGE", s.LettersKey(id).String(), number, number))
	if err != nil {
		return StepRead{}, s.about(c, id, err)
	}
	if number < 0 || letter == "" || strings.IndexByte(StepLetters, letter[0]) < 0 {
		return StepRead{}, ErrNoStep
	}
	one := []StepRead{{Number: number, Letter: letter[0]}}
	if err := s.fill(c, id, one); err != nil {
		return StepRead{}, s.about(c, id, err)
	}
	return one[0], nil
}

// StepLetters are the letters of steps.
const StepLetters = string(rune(Waits)) + string(rune(Sent)) + string(rune(Outside)) + string(rune(Done)) + string(rune(Failed)) + string(rune(NotRun))

// fill reads what there is of steps beside their letters.
func (s Store) fill(c redis.Conn, id string, steps []StepRead) error {
	key := s.WorkflowKey(id).String()
	b := resque.Batch{Conn: c}
	for _, step := range steps {
		n := strconv.Itoa(step.Number)
		b.Send("HMGET", key, "s"+n, "f"+n, "y"+n, "k"+n)
	}
	replies, err := b.Receive()
	if err != nil {
		return err
	}
	results := resque.Batch{Conn: c}
	for i := range steps {
		step := &steps[i]
		of, err := redis.Strings(resque.Answer(replies[i]))
		if err != nil || len(of) != 4 {
			return orAnswer(err)
		}
		t, _ := parsePlanned(of[0])
		number := strconv.Itoa(step.Number)
		if f, ok := parseFailed(of[1]); ok {
			step.Failure = f.failure
			if f.again.Payload != nil {
				t = f.again
			}
		}
		step.Queue, step.Payload, step.Until = t.Queue, t.Payload, readTime(of[2])
		if words := strings.SplitN(of[3], " ", 3); len(words) == 3 && !step.Until.IsZero() {
			if within := readDuration(words[1]); within > 0 {
				step.Since = step.Until.Add(-within)
			}
		}
		if p, ok := t.place(); ok && p.Result != "" {
			number = p.Result
		}
		results.Send("HGET", key, "r"+number)
	}
	if replies, err = results.Receive(); err != nil {
		return err
	}
	for i := range steps {
		steps[i].Result, err = redis.String(resque.Answer(replies[i]))
		if err != nil && !errors.Is(err, redis.ErrNil) {
			return err
		}
	}
	return nil
}

// mostNamed is how many fields a workflow may have for its steps' names to be looked up among them.
const mostNamed = 100_000

// Names returns the names of steps that have one. They are fields among all others, so of a workflow with very many fields
// none are returned.
func (s Store) Names(c redis.Conn, id string) (names map[int]string, err error) {
	key := s.WorkflowKey(id).String()
	fields, err := redis.Int(c.Do("HLEN", key))
	if err != nil || fields > mostNamed {
		return nil, err
	}
	names = make(map[int]string)
	for cursor := "0"; ; {
		reply, err := redis.Values(c.Do("HSCAN", key, cursor, "MATCH", "n:*", "COUNT", 1000))
		var found []string
		if err == nil {
			_, err = redis.Scan(reply, &cursor, &found)
		}
		if err != nil {
			return nil, s.about(c, id, err)
		}
		for i := 0; i+1 < len(found); i += 2 {
			if n, err := strconv.Atoi(found[i+1]); err == nil {
				names[n] = strings.TrimPrefix(found[i], "n:")
			}
		}
		if cursor == "0" {
			return names, nil
		}
	}
}

// Named returns the number of the step with a name.
func (s Store) Named(c redis.Conn, id, name string) (number int, err error) {
	text, err := redis.String(c.Do("HGET", s.WorkflowKey(id).String(), "n:"+name))
	if errors.Is(err, redis.ErrNil) {
		return 0, ErrNoStep
	} else if err != nil {
		return 0, s.about(c, id, err)
	}
	return strconv.Atoi(text)
}
