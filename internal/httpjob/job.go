package httpjob

import (
	"bytes"
	"maps"
	"slices"
	"strconv"

	"github.com/goworker/goworker/internal/payload"
)

// DefaultClass is the class of a job whose publisher names none.
const DefaultClass = "HTTPJob"

// Names of the fields that a payload may have.
const (
	MetaField    = "meta"
	TriesField   = "tries"
	AttemptField = "attempt"
)

// Job is what a payload says. Zero fields are left out of the payload.
type Job struct {
	Class    string // "": DefaultClass
	Priority int
	Args     []byte // the list of arguments in JSON; nil: none
	Meta     map[string]string
	Fields   []payload.Field // what features add
	Tries    int             // how often the job is given out at most; 0 and 1: once
	Expires  int64           // in ms; 0: never
	ID       string
}

// Append appends the payload of the job. Its last members are expires_at and id, so a script can read both by their
// place: in JSON, these bytes at the very end are nothing but members of the outermost object.
func (j *Job) Append(dst []byte) []byte {
	dst = append(dst, '{')
	if j.Priority > 0 {
		dst = append(dst, payload.Priority(j.Priority)...)
	}
	dst = append(dst, `"class":`...)
	if j.Class == "" {
		dst = payload.AppendText(dst, DefaultClass)
	} else {
		dst = payload.AppendText(dst, j.Class)
	}
	dst = append(dst, `,"args":`...)
	if j.Args == nil {
		dst = append(dst, "[]"...)
	} else {
		dst = append(dst, j.Args...)
	}
	if len(j.Meta) > 0 {
		dst = append(dst, `,"meta":`...)
		dst = appendMeta(dst, j.Meta)
	}
	for _, f := range j.Fields {
		dst = append(payload.AppendText(append(dst, ','), f.Name), ':')
		dst = append(dst, f.Value...)
	}
	if j.Tries > 1 {
		dst = strconv.AppendInt(append(dst, `,"tries":`...), int64(j.Tries), 10)
		dst = append(dst, `,"attempt":1`...)
	}
	if j.Expires > 0 {
		dst = strconv.AppendInt(append(dst, expiresOpen...), j.Expires, 10)
	}
	if j.ID != "" {
		dst = append(append(append(dst, idOpen...), j.ID...), '"')
	}
	return append(dst, '}')
}

func appendMeta(dst []byte, meta map[string]string) []byte {
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(meta)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(payload.AppendText(dst, name), ':')
		dst = payload.AppendText(dst, meta[name])
	}
	return append(dst, '}')
}

const (
	expiresOpen   = `,"expires_at":`
	expiresDigits = 13
	idOpen        = `,"id":"`
	idClose       = `"}`
)

// Tail returns the id at the end of a payload and the expires_at before it, in ms, as a script reads them. The id is ""
// and the time 0 where they do not stand there, although the payload may have them.
func Tail(raw []byte) (id string, expires int64) {
	rest, ok := bytes.CutSuffix(raw, []byte(idClose))
	if !ok {
		return "", 0
	}
	at := len(rest)
	for at > 0 && len(rest)-at <= MaxID && plain(rest[at-1]) {
		at--
	}
	id = string(rest[at:])
	rest, ok = bytes.CutSuffix(rest[:at], []byte(idOpen))
	if !ok || id == "" || len(id) > MaxID {
		return "", 0
	}
	if at = len(rest) - expiresDigits; at < len(expiresOpen) || !bytes.HasSuffix(rest[:at], []byte(expiresOpen)) {
		return id, 0
	}
	if expires, err := strconv.ParseUint(string(rest[at:]), 10, 63); err == nil {
		return id, int64(expires)
	}
	return id, 0
}

// plain reports whether a byte stands for itself in a JSON string.
func plain(c byte) bool { return c >= ' ' && c != '"' && c != '\\' && c != 0x7f }

// Meta returns the metadata of a job, nil if it has none. Values that are no texts are left out.
func Meta(p *payload.Payload) map[string]string {
	var meta map[string]string
	for _, m := range payload.Members(p.Field(MetaField)) {
		if len(m.Value) == 0 || m.Value[0] != '"' {
			continue
		}
		if meta == nil {
			meta = make(map[string]string)
		}
		meta[payload.StringValue(m.Key)] = payload.StringValue(m.Value)
	}
	return meta
}

// Tries returns how often a job is given out at most, and which time the next is or this one was.
func Tries(p *payload.Payload) (tries, attempt int) {
	tries, err := strconv.Atoi(string(p.Field(TriesField)))
	if err != nil || tries < 1 || tries > payload.MaxRuns {
		tries = 1
	}
	return tries, p.Attempt
}
