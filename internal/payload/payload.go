// Package payload reads and writes the texts that Resque keeps in Redis: jobs, as they are
// in queues and in resque-scheduler's lists, and failure records. It works on bytes
// only and knows no Redis. Bytes that it does not have to change stay as they are.
package payload

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/msgpack"
)

// MaxDepth is how many levels a payload may nest, its own braces included.
// Ruby reads a hundred, and a failure record or a worker's entry adds one.
const MaxDepth = 98

// Payload is a job as it is in a queue.
type Payload struct {
	Class string
	Args  []json.RawMessage // each argument's JSON text; they alias the parsed bytes
	ID    string            // top-level "id", as PHP's client sets it; "" if there is none
	// Attempt is 1 for a job's first run and 1 more for each run before this
	// one. It comes from the top-level "attempt", which a plain job does not have.
	Attempt int
	// Unique names the lock the job has, as LockField wrote it in the top-level
	// "unique"; "" if it has none.
	Unique string
	// ExpiresAt is until when the job may be run, in ms: the top-level
	// "expires_at". 0 is forever.
	ExpiresAt int64
	// PHP is set for a job that php-resque enqueued, by the top-level "id", "prefix" and
	// "queue_time".
	PHP *PHPJob
	// Text is the JSON of a job whose bytes are an item of a MessagePack queue; nil: they are JSON.
	Text []byte
	// Extra are the fields beside class and args, those above included, as they are in the
	// parsed bytes.
	Extra []Extra
}

// Extra is a field of a payload.
type Extra struct {
	Name  []byte // without quotes and escapes
	Value []byte // its JSON text
}

// Field returns the JSON text of a field beside class and args, the last of equal ones; nil: there is none.
func (p *Payload) Field(name string) []byte {
	for i := len(p.Extra) - 1; i >= 0; i-- {
		if string(p.Extra[i].Name) == name {
			return p.Extra[i].Value
		}
	}
	return nil
}

// ErrorField is the field of a payload with the error of the run before, in a job that is retried. It stands behind the attempt:
// a field of this name in front of it is another program's.
const ErrorField = "error"

// LastError returns the error that a retry wrote, "" if there is none, and whether another program's field has its name.
func (p *Payload) LastError() (text string, foreign bool) {
	counted := false
	for _, x := range p.Extra {
		switch string(x.Name) {
		case "attempt":
			counted = true
		case ErrorField:
			switch {
			case !counted:
				foreign = true
			case x.Value[0] == '"':
				text = unquote(x.Value)
			}
		}
	}
	if foreign {
		return "", true
	}
	return text, false
}

// TriesField is the field of a payload with how many tries the job has. A job without it has one.
const TriesField = "tries"

// Tries returns how many tries the job has. A field of another form is another program's.
func (p *Payload) Tries() int { return attemptNumber(p.Field(TriesField)) }

// Error says why bytes from a queue are not a job.
type Error struct {
	Reason string // "the payload …"
	packed bool   // it would be MessagePack
}

func (e *Error) Error() string {
	if e.packed {
		return e.Reason + "; a job in MessagePack is [class, [args…]] or [class, [args…], {fields…}]"
	}
	return e.Reason + `; a job is {"class":"Name","args":[…]} in UTF-8`
}

// Exception is Resque's for a payload that it cannot decode.
func (e *Error) Exception() string { return "Resque::Helpers::DecodeException" }

// Encode writes the payload of a plain job, {"class":"…","args":[…]},
// with the bytes Ruby Resque would push. No arguments are [], never null. The
// error names the argument that cannot be encoded, counted from 0. Parse accepts
// every result of Encode.
func Encode(class string, args []any, style Style) ([]byte, error) {
	return Append(make([]byte, 0, 64), class, args, style)
}

// Append is Encode that appends to dst.
func Append(dst []byte, class string, args []any, style Style) ([]byte, error) {
	if class == "" {
		return nil, errors.New("a job needs a class, and the one given is empty")
	}
	if !utf8.ValidString(class) {
		return nil, fmt.Errorf("the class %q is not UTF-8, and no worker could read it", class)
	}
	e := encoder{buf: dst, style: style}
	e.buf = append(e.buf, `{"class":`...)
	e.buf = appendString(e.buf, class, style, replacement)
	e.buf = append(e.buf, `,"args":[`...)
	for i, arg := range args {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		start := len(e.buf)
		if err := e.value(arg, 0); err != nil {
			return nil, fmt.Errorf("args[%d] of a job of class %s cannot be encoded: %w", i, class, err)
		}
		switch arg.(type) {
		case nil, string, int, int64, bool, float64:
			continue // nothing in them nests
		}
		// The object and its list are two levels.
		if !WellFormed(e.buf[start:], MaxDepth-2) {
			return nil, fmt.Errorf("args[%d] of a job of class %s is nested deeper than %d levels, which Ruby workers refuse; send it as a string of JSON",
				i, class, MaxDepth-2)
		}
	}
	return append(e.buf, "]}"...), nil
}

// AppendList is Append for arguments that are a list in JSON. Its bytes are kept.
func AppendList(dst []byte, class string, list []byte) []byte {
	dst = appendString(append(dst, `{"class":`...), class, Plain, replacement)
	return append(append(append(dst, `,"args":`...), list...), '}')
}

// Parse reads a job as Ruby's workers do: keys are case-sensitive, the last
// of equal keys wins, missing or null args are none. An object or scalar in
// place of the list is the one argument. Fields it does not know are
// ignored. The error is a *Error.
//
// Arguments are proven to be JSON but not decoded; they alias raw.
//
// An item of a MessagePack queue is read as the job that it is. No JSON, and no other UTF-8, begins as an item does.
func Parse(raw []byte) (Payload, error) {
	if !utf8.Valid(raw) {
		if msgpack.Is(raw) {
			return parseItem(raw)
		}
		return Payload{}, &Error{Reason: "the payload is not UTF-8"}
	}
	s := scanner{src: raw, room: MaxDepth}
	s.space()
	if s.peek() != '{' {
		if s.whole() {
			return Payload{}, &Error{Reason: "the payload is JSON but not an object"}
		}
		return Payload{}, s.refusal()
	}
	var (
		class, args, id, attempt, unique, expires, prefix, queueTime []byte

		few  [8]json.RawMessage // most jobs have fewer arguments, and one copy of the right size is cheapest
		list = few[:0]

		some  [4]Extra // as the arguments
		extra = some[:0]
	)
	s.enter()
	for first := true; ; first = false {
		more, ok := s.more('}', first)
		if !ok {
			return Payload{}, s.refusal()
		}
		if !more {
			break
		}
		quoted, ok := s.key()
		if !ok {
			return Payload{}, s.refusal()
		}
		start, name := s.pos, unquoteKey(quoted)
		if string(name) == "args" && s.peek() == '[' {
			list, ok = s.elements(list[:0])
		} else {
			ok = s.value()
		}
		if !ok {
			return Payload{}, s.refusal()
		}
		value := raw[start:s.pos:s.pos]
		switch string(name) {
		case "class":
			class = value
			continue
		case "args":
			args = value
			continue
		case "id":
			id = value
		case "attempt":
			attempt = value
		case "unique":
			unique = value
		case "expires_at":
			expires = value
		case "prefix":
			prefix = value
		case "queue_time":
			queueTime = value
		}
		extra = append(extra, Extra{name, value})
	}
	if s.space(); s.pos != len(raw) {
		return Payload{}, s.refusal()
	}
	p := Payload{ID: idText(id), Attempt: attemptNumber(attempt), Unique: idText(unique), ExpiresAt: millis(expires)}
	if len(extra) > 0 {
		p.Extra = make([]Extra, len(extra))
		copy(p.Extra, extra)
	}
	p.PHP = newPHPJob(p.ID, prefix, queueTime)
	if class == nil {
		return Payload{}, &Error{Reason: "the payload has no class"}
	}
	if class[0] != '"' || len(class) == len(`""`) {
		return Payload{}, &Error{Reason: "the payload's class is not a name"}
	}
	p.Class = unquote(class)
	switch {
	case args == nil || args[0] == 'n':
	case args[0] != '[':
		p.Args = []json.RawMessage{args}
	case len(list) > 0:
		p.Args = make([]json.RawMessage, len(list))
		copy(p.Args, list)
	}
	return p, nil
}

// elements scans an array and appends the text of each element to list.
func (s *scanner) elements(list []json.RawMessage) ([]json.RawMessage, bool) {
	if !s.enter() {
		return list, false
	}
	for first := true; ; first = false {
		more, ok := s.more(']', first)
		if !more || !ok {
			return list, ok
		}
		start := s.pos
		if !s.value() {
			return list, false
		}
		list = append(list, s.src[start:s.pos:s.pos])
	}
}

// refusal returns an error about the place where the scanner failed.
func (s *scanner) refusal() *Error {
	switch {
	case s.tooDeep:
		return &Error{Reason: fmt.Sprintf("the payload is nested deeper than %d levels", MaxDepth)}
	case len(s.src) == 0:
		return &Error{Reason: "the payload is empty"}
	case s.pos >= len(s.src):
		return &Error{Reason: "the payload is not JSON: it ends in the middle of a value"}
	}
	c, _ := utf8.DecodeRune(s.src[s.pos:])
	return &Error{Reason: fmt.Sprintf("the payload is not JSON: %q at byte %d does not belong there", c, s.pos)}
}

// unquoteKey returns the name between the quotes. Only a name with escapes costs
// an allocation.
func unquoteKey(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	return []byte(unquote(quoted))
}

// unquote returns the string that a well-formed JSON string stands for.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		// Reached only if the scanner and encoding/json disagree.
		return string(quoted)
	}
	return s
}

// idText reads the forms that clients use as an id: a string, or a number's literal.
func idText(raw []byte) string {
	switch {
	case len(raw) == 0:
		return ""
	case raw[0] == '"':
		return unquote(raw)
	case raw[0] == '-' || isDigit(raw[0]):
		return string(raw)
	}
	return ""
}

// MaxRuns is more often than any job runs. goworker did not write a larger number in a
// payload, so it is ignored.
const MaxRuns = 1 << 30

func attemptNumber(raw []byte) int {
	if len(raw) == 0 || !isDigit(raw[0]) {
		return 1
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 1 || n > MaxRuns {
		return 1
	}
	return n
}

// millis reads a time in ms. Anything else is 0.
func millis(raw []byte) int64 {
	if len(raw) == 0 {
		return 0
	}
	ms, _ := strconv.ParseInt(string(raw), 10, 64)
	return max(0, ms)
}

// Invalid wraps bytes that are not a job in a job that every Resque tool
// can show and retry: its class is Invalid and its one argument the text,
// or "base64:" and the bytes in base64 if they are not UTF-8. A failure record
// with anything else in the payload's place breaks Ruby's "retry all".
//
// Of more than MaxInvalid bytes it holds only the first, as Excerpt does: as
// JSON they may be six times as many.
func Invalid(raw []byte) []byte {
	if len(raw) > MaxInvalid {
		return Excerpt(raw)
	}
	text := string(raw)
	if !utf8.Valid(raw) {
		text = "base64:" + base64.StdEncoding.EncodeToString(raw)
	}
	out := append(make([]byte, 0, len(text)+48), `{"class":"InvalidPayload","args":[`...)
	out = appendString(out, text, Plain, replacement)
	return append(out, "]}"...)
}

// MaxInvalid is how many bytes a failure record holds of text that is no job.
const MaxInvalid = 1 << 20

// excerptSize is how many bytes of a payload an excerpt shows.
const excerptSize = 1 << 10

// Excerpt is Invalid with only the beginning of raw, and its size.
func Excerpt(raw []byte) []byte {
	if len(raw) <= excerptSize {
		return Invalid(raw)
	}
	start := strings.ToValidUTF8(string(raw[:excerptSize]), "?")
	return Invalid(fmt.Appendf(nil, "%s… (%d bytes)", start, len(raw)))
}

// CheckSize returns a *SizeError for a payload of more than so many bytes.
func CheckSize(raw []byte, most int) error {
	if len(raw) > most {
		return &SizeError{Size: len(raw), Most: most}
	}
	return nil
}

// SizeError says that a payload is longer than this program allows.
type SizeError struct{ Size, Most int }

func (e *SizeError) Error() string {
	return fmt.Sprintf("the payload has %d bytes, and MaxPayload (flag -max-payload) allows %d; pass what is large by reference, or raise the limit", e.Size, e.Most)
}

// Exception is that of an Error.
func (e *SizeError) Exception() string { return "Resque::Helpers::DecodeException" }

// Recordable reports whether a failure record can hold the payload: Redis takes no
// more than 512 MiB at once, and a record is a little more than its payload.
func Recordable(raw []byte) bool {
	return len(raw) <= MaxInvalid || len(raw) <= MaxSize && isJob(raw)
}

// MaxSize is the highest limit of a payload's size that can be kept.
const MaxSize = 511 << 20

func isJob(raw []byte) bool {
	_, err := Parse(raw)
	return err == nil
}

// Safe is the payload as a failure record may hold it.
func Safe(raw []byte) []byte {
	raw = JSON(raw)
	if !isJob(raw) {
		return Invalid(raw)
	}
	return raw
}

// Short is as much of a text as fits into an error message.
func Short(text []byte) string {
	const most = 60
	switch {
	case len(text) == 0:
		return "missing"
	case len(text) > most:
		return fmt.Sprintf("%.*s…", most, bytes.ToValidUTF8(text[:most], nil))
	}
	return string(bytes.ToValidUTF8(text, nil))
}
