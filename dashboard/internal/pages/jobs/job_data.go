package jobs

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
)

// Job is the page /jobs/{id}. Its texts are masked.
type Job struct {
	ID      string          `json:"id"`
	Ref     string          `json:"ref,omitempty"`
	Class   string          `json:"class"`
	Queue   string          `json:"queue"`
	State   string          `json:"state"` // of a job without a result: delayed, retrying, waiting, held, running, leased or failed
	Kept    bool            `json:"kept"`  // it keeps a result
	Where   Where           `json:"where"`
	Attempt int             `json:"attempt"`
	Tries   int             `json:"tries,omitempty"` // that it has
	Args    site.Args       `json:"args"`
	ArgsCut bool            `json:"args_cut,omitempty"` // they are larger than what is shown
	Known   bool            `json:"args_known"`
	Blind   bool            `json:"texts_hidden,omitempty"` // its arguments are not known, so nothing says what is masked in its texts
	Size    int             `json:"size,omitempty"`         // bytes of the payload
	Invalid string          `json:"invalid,omitempty"`
	Meta    []Pair          `json:"meta,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Left    string          `json:"result_left,omitempty"`
	Expires site.Time       `json:"expires"`
	Ended   site.Time       `json:"ended"`
	Forgets site.Time       `json:"forgotten"` // when its result is over

	Progress *Progress   `json:"progress,omitempty"`
	Cursor   string      `json:"cursor,omitempty"`
	Once     []Pair      `json:"once,omitempty"`
	Lock     *Lock       `json:"lock,omitempty"`
	Limits   []Limit     `json:"limits,omitempty"`
	Workflow *Step       `json:"workflow,omitempty"`
	Failure  *Failure    `json:"failure,omitempty"`
	Events   []Event     `json:"timeline"`
	Life     *Life       `json:"life,omitempty"`
	Logs     []LogLine   `json:"logs,omitempty"`
	Like     *Like       `json:"class_hour,omitempty"`
	Links    []site.Link `json:"links,omitempty"`
	Search   *Unfinished `json:"search,omitempty"`
	Can      Can         `json:"-"`
}

// Where is where a job lies.
type Where struct {
	Place   string    `json:"place,omitempty"`
	Text    string    `json:"text"`
	Process string    `json:"process,omitempty"`
	Worker  string    `json:"worker,omitempty"`
	Host    string    `json:"host,omitempty"`
	Until   site.Time `json:"until"` // it is due, or its lease ends
	Began   site.Time `json:"began"`
	Limit   site.Span `json:"limit_ms,omitempty"` // its time limit, of one that is past it
	Held    []string  `json:"held_by,omitempty"`  // limits
	Shard   string    `json:"shard,omitempty"`
}

// Pair is a name and a value.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Progress is how far the job says that it is.
type Progress struct {
	Done  int64     `json:"done"`
	Total int64     `json:"total"`
	Note  string    `json:"note,omitempty"`
	At    site.Time `json:"at"`
}

// Share is the part that is done, of 1.
func (p Progress) Share() float64 {
	if p.Total <= 0 {
		return 0
	}
	return min(1, float64(p.Done)/float64(p.Total))
}

// Lock is the lock of a unique job.
type Lock struct {
	Name    string    `json:"name"`
	Hold    string    `json:"until"` // done, start or time
	Mine    bool      `json:"held_by_this"`
	Holder  string    `json:"holder,omitempty"`
	Since   site.Time `json:"since"`
	Refused int64     `json:"refused"`
}

// Limit is a limit that concerns the job.
type Limit struct {
	Name    string `json:"name"`
	Numbers string `json:"numbers"`
	Most    int    `json:"most,omitempty"`
	Running int64  `json:"running"`
	Waiting int64  `json:"waiting"`
}

// Step is a job's place in a workflow.
type Step struct {
	ID   string `json:"id"`
	Step int    `json:"step"`
}

// Failure is the record of a job that failed.
type Failure struct {
	ID        string   `json:"id"`
	At        string   `json:"failed_at"`
	Retried   string   `json:"retried_at,omitempty"`
	Text      string   `json:"error"`
	Backtrace []string `json:"backtrace,omitempty"`
	Worker    string   `json:"worker,omitempty"`
}

// LogLine is a line that the job logged.
type LogLine struct {
	At    site.Time `json:"at"`
	Level string    `json:"level"`
	Text  string    `json:"text"`
	Attrs []Pair    `json:"attrs,omitempty"`
}

// Like is how jobs of the class went within the last hour.
type Like struct {
	Done   int64     `json:"done"`
	Failed int64     `json:"failed"`
	Runs   int64     `json:"runs"`
	P50    site.Span `json:"p50_ms"`
	P95    site.Span `json:"p95_ms"`
}

// Unfinished says how far the search for where the job lies came.
type Unfinished struct {
	Looked int64  `json:"looked"`
	Of     int64  `json:"of"`
	Next   string `json:"next"`
}

// Can is what may be done with the job as it is.
type Can struct{ Run, Edit, Reschedule, Cancel, Lift, Retry, Forget, Again, Reveal bool }

// PageTitle names the job.
func (j *Job) PageTitle() string { return cmp.Or(j.ID, j.Ref) + " · " + j.Class }

// Key is what the page of the job is called by.
func (j *Job) Key() string { return cmp.Or(j.ID, j.Ref) }

// ArgsText is the arguments as a list in JSON, as the form has them.
func (j *Job) ArgsText() string {
	if j.Args == nil {
		return "[]"
	}
	text, _ := json.Marshal(j.Args)
	return string(text)
}

// ArgsShown is the beginning of the arguments.
func (j *Job) ArgsShown() string { return brief([]byte(j.ArgsText()), shown) }

// ResultText is the result as text.
func (j *Job) ResultText() string { return string(j.Result) }

func (j *Job) began() time.Time { return j.Where.Began.Time }

// stateClass is the colour of a state.
func stateClass(state string) string {
	switch state {
	case "failed", "discarded":
		return "bad"
	case "retrying", "expired":
		return "warn"
	case "running", "leased":
		return "run"
	case "done":
		return "ok"
	case "delayed", "snoozed":
		return "later"
	}
	return ""
}

// ChipClass is the colour of the state.
func (j *Job) ChipClass() string { return stateClass(j.State) }

// ChipText says the state, and of a retried job which try comes when.
func (j *Job) ChipText() string {
	if j.State == "retrying" && j.Attempt > 0 && j.Tries > 1 {
		return "retrying: try " + look.Whole(j.Attempt) + " of " + look.Whole(j.Tries)
	}
	return j.State
}

// Share is the part of the tries that failed.
func (l *Like) Share() string { return look.Share(l.Failed, l.Done+l.Failed) }
