package mask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goworker/goworker/internal/payload"
)

// EditError says that an edit has a Mark where nothing was masked, or where it is not known what it stands for.
type EditError struct {
	Path string // "0.card"
}

func (e *EditError) Error() string {
	return fmt.Sprintf("the edited arguments have %s at %s, and nothing says which value that is; write the value itself", Mark, e.Path)
}

// Restore returns the edited arguments of a job with the masked values that the edit did not touch. old are the arguments of the job, and edited is
// what became of Args(class, old). The error is an *EditError if a Mark stands where there was none, if its text was edited, or
// if the elements of a list were moved and several of them look the same. It is another error if an argument is not JSON.
func (m *Masker) Restore(class string, old, edited []json.RawMessage) ([]json.RawMessage, error) {
	if m.level == Show {
		return edited, nil
	}
	from, err := compacted(old)
	if err != nil {
		return nil, err
	}
	to, err := compacted(edited)
	if err != nil {
		return nil, err
	}
	r := restorer{}
	list := r.list("", triple{from, m.Args(class, from), to}, old)
	return list, r.err
}

// compacted returns arguments without blanks between their parts.
func compacted(list []json.RawMessage) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(list))
	for n, raw := range list {
		var b bytes.Buffer
		if !payload.WellFormed(raw, payload.MaxDepth) {
			return nil, fmt.Errorf("argument %d is not JSON, or is nested deeper than %d levels", n, payload.MaxDepth)
		}
		if err := json.Compact(&b, raw); err != nil {
			return nil, fmt.Errorf("argument %d is not JSON: %w", n, err)
		}
		out[n] = b.Bytes()
	}
	return out, nil
}

type restorer struct{ err error }

// triple are elements as they were, as they were shown, and as they came back.
type triple struct{ old, shown, edited []json.RawMessage }

func (r *restorer) refuse(path string) json.RawMessage {
	if r.err == nil {
		r.err = &EditError{strings.TrimPrefix(path, ".")}
	}
	return nil
}

// list restores elements. as are the old ones as they are to come back; nil: they are those of v.
func (r *restorer) list(path string, v triple, as []json.RawMessage) []json.RawMessage {
	if as == nil {
		as = v.old
	}
	out := make([]json.RawMessage, len(v.edited))
	same := len(v.edited) == len(v.shown)
	var looks map[string]int // the place of each element that was shown; -1: there are several, and they differ
	for n, e := range v.edited {
		at := fmt.Sprintf("%s.%d", path, n)
		switch {
		case same && bytes.Equal(e, v.shown[n]):
			out[n] = as[n]
			continue
		case !marked(e):
			out[n] = e
			continue
		}
		if looks == nil {
			looks = make(map[string]int, len(v.shown))
			for i, shown := range v.shown {
				if was, ok := looks[string(shown)]; ok && (was < 0 || !bytes.Equal(v.old[was], v.old[i])) {
					looks[string(shown)] = -1
				} else if !ok {
					looks[string(shown)] = i
				}
			}
		}
		switch from, ok := looks[string(e)]; {
		case ok && from >= 0:
			out[n] = as[from]
		case ok || !same:
			out[n] = r.refuse(at)
		default:
			out[n] = r.value(at, v.old[n], v.shown[n], e)
		}
	}
	return out
}

// value restores a value that was edited.
func (r *restorer) value(path string, old, shown, edited json.RawMessage) json.RawMessage {
	switch {
	case bytes.Equal(edited, shown), edited[0] == '"' && shown[0] == '"' && payload.StringValue(edited) == payload.StringValue(shown):
		return old
	case !marked(edited):
		return edited
	case edited[0] != shown[0]:
		return r.refuse(path)
	case edited[0] == '[':
		list := r.list(path, triple{payload.Elements(old), payload.Elements(shown), payload.Elements(edited)}, nil)
		return bracketed('[', list, ']')
	case edited[0] != '{':
		return r.refuse(path)
	}
	before, seen := payload.Members(old), payload.Members(shown)
	places := make(map[string][]int, len(seen)) // a key may be there several times
	for n, member := range seen {
		key := payload.StringValue(member.Key)
		places[key] = append(places[key], n)
	}
	var members []json.RawMessage
	for _, member := range payload.Members(edited) {
		key := payload.StringValue(member.Key)
		value, at := json.RawMessage(member.Value), path+"."+key
		switch n := places[key]; {
		case len(n) > 0:
			value = r.value(at, before[n[0]].Value, seen[n[0]].Value, member.Value)
			places[key] = n[1:]
		case marked(value):
			value = r.refuse(at)
		}
		members = append(members, append(append(bytes.Clone(member.Key), ':'), value...))
	}
	return bracketed('{', members, '}')
}

func bracketed(open byte, parts []json.RawMessage, end byte) json.RawMessage {
	out := []byte{open}
	for n, part := range parts {
		if n > 0 {
			out = append(out, ',')
		}
		out = append(out, part...)
	}
	return append(out, end)
}

// marked reports whether a value of JSON has a Mark in it, in any writing.
func marked(raw []byte) bool {
	if bytes.Contains(raw, []byte(Mark)) {
		return true
	}
	if !bytes.Contains(raw, []byte(`\u2022`)) {
		return false
	}
	var b bytes.Buffer
	d := json.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := d.Token()
		if err != nil {
			return strings.Contains(b.String(), Mark)
		}
		if text, ok := token.(string); ok {
			b.WriteString(text + "\n")
		}
	}
}
