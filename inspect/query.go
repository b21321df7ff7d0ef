package inspect

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Condition is one condition of a search. ParseQuery makes them; a program may also set them itself. Names that
// it does not know, and values that mean nothing, are errors of the call that searches.
type Condition struct {
	// Not turns the condition around: jobs are meant that do not fulfil it. A job of which nobody knows whether it
	// does is not meant in either case.
	Not bool

	// Name is what the condition is about: "class", "queue", "error", "exception", "group", "id", "ref", "worker", "version",
	// "state", "args", "arg.<number>" and "arg.<number>.<key>…", "meta.<key>", "since", "until", "due", "retried",
	// and "text" for a text without a name. A key with a dot, a colon, a blank or a quote in it stands in double quotes.
	Name string

	// Value is what it is compared with. A * in it stands for any text, unless Literal is set, as for a value in quotes.
	Value   string
	Literal bool

	// Time is that of since, until and due, which have no other Value than the < or > of due.
	Time time.Time
}

// The names of conditions that are not followed by a path.
const (
	onClass     = "class"
	onQueue     = "queue"
	onError     = "error"
	onException = "exception"
	onGroup     = "group"
	onID        = "id"
	onRef       = "ref"
	onWorker    = "worker"
	onVersion   = "version"
	onState     = "state"
	onArgs      = "args"
	onArg       = "arg"
	onMeta      = "meta"
	onFor       = "for"
	onSince     = "since"
	onUntil     = "until"
	onDue       = "due"
	onRetried   = "retried"
	onText      = "text"
)

// conditionNames are those that a search may have before a colon.
var conditionNames = []string{
	onClass, onQueue, onError, onException, onGroup, onID, onRef, onWorker, onVersion, onState, onArgs, onArg, onMeta, onFor, onSince, onUntil, onDue,
}

// states are the words of state, each with the places that it means.
var states = map[string][]Place{
	"waiting":  {Queued, InLane},
	"queued":   {Queued},
	"lane":     {InLane},
	"delayed":  {Delayed},
	"retrying": {Delayed},
	"running":  {Running, Leased},
	"leased":   {Leased},
	"failed":   {Failed},
}

const retryingState = "retrying"

// String is the search as a text that ParseQuery reads. Its times are absolute, so it means the same tomorrow. A Class of the
// query becomes a condition, which also means jobs of Rails whose own class that is.
func (q Query) String() string {
	var parts []string
	add := func(c Condition) { parts = append(parts, c.String()) }
	for _, field := range []Condition{{Name: onQueue, Value: q.Queue}, {Name: onClass, Value: q.Class}, {Name: onID, Value: q.ID}, {Name: onRef, Value: q.Ref}} {
		if field.Literal = strings.Contains(field.Value, "*"); field.Value != "" {
			add(field)
		}
	}
	if q.Args != nil {
		text, _ := json.Marshal(q.Args)
		add(Condition{Name: onArgs, Value: string(text)})
	}
	if len(q.Places) > 0 {
		var names []string
		for _, p := range q.Places {
			names = append(names, string(p))
		}
		add(Condition{Name: onState, Value: strings.Join(names, ",")})
	}
	for _, c := range q.Where {
		add(c)
	}
	return strings.Join(parts, " ")
}

// String is the condition as ParseQuery reads it.
func (c Condition) String() string {
	not := ""
	if c.Not {
		not = "-"
	}
	switch c.Name {
	case onRetried:
		return not + onRetried
	case onText:
		if bareText(c.Value) && !c.Literal {
			return not + c.Value
		}
		return not + quoted(c.Value)
	case onSince, onUntil, onDue:
		return not + c.Name + ":" + c.Value + c.Time.UTC().Format(time.RFC3339Nano)
	}
	value := c.Value
	if c.Literal || !bareValue(value) {
		value = quoted(value)
	}
	return not + c.Name + ":" + value
}

// bareValue reports whether a value needs no quotes behind a colon, and bareText whether a text needs none.
func bareValue(value string) bool {
	return value != "" && !strings.ContainsFunc(value, func(r rune) bool { return isBlank(r) || r == '"' })
}

func bareText(text string) bool {
	return bareValue(text) && !strings.ContainsAny(text, ":") && text[0] != '-' && text != onRetried
}

func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// narrow reports whether the query says of which jobs it speaks, and not only where they are or since when.
func (q Query) narrow() bool {
	return q.Queue != "" || q.Class != "" || q.ID != "" || q.Ref != "" || slices.ContainsFunc(q.Where, func(c Condition) bool {
		name, _, _ := strings.Cut(c.Name, ".")
		return !c.Not && strings.Trim(c.Value, "*") != "" &&
			slices.Contains([]string{onClass, onQueue, onError, onException, onGroup, onID, onRef, onWorker, onArgs, onArg, onMeta, onText}, name)
	})
}

// hangs reports whether the query means only jobs that have been running for a time, whatever they are.
func (q Query) hangs() bool {
	waits := func(p Place) bool { return p != Running && p != Leased }
	return len(q.Places) > 0 && !slices.ContainsFunc(q.Places, waits) && slices.ContainsFunc(q.Where, func(c Condition) bool { return !c.Not && c.Name == onUntil })
}
