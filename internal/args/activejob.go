package args

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/goworker/goworker/internal/payload"
)

// ActiveJobWrapper is the class Rails enqueues every ActiveJob under. The job is
// its one argument: an object with job_class, job_id, arguments, executions, ….
const ActiveJobWrapper = "ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper"

// ActiveJob is the job inside a payload of the wrapper.
type ActiveJob struct {
	Class      string
	ID         string            // "": it has none
	Executions int               // how often Rails ran it before; 0: unknown
	Args       []json.RawMessage // with ActiveJob's own encoding taken off
}

// OpenActiveJob returns the job in the arguments of a wrapper. With an error it returns
// what it found before the mistake: without a class, the mistake is the wrapper's.
func OpenActiveJob(args []json.RawMessage) (job ActiveJob, err *Error) {
	if len(args) != 1 {
		return job, &Error{Want: "1", Found: strconv.Itoa(len(args))}
	}
	wrapper := args[0]
	if kindOf(wrapper) != "an object" {
		return job, &Error{Index: 1, Want: "an ActiveJob object", Found: kindOf(wrapper)}
	}

	var arguments []byte
	for _, m := range payload.Members(wrapper) {
		switch string(m.Key) {
		case `"job_class"`:
			job.Class = payload.StringValue(m.Value)
		case `"job_id"`:
			job.ID = payload.StringValue(m.Value)
		case `"executions"`:
			job.Executions, _ = strconv.Atoi(string(m.Value)) // older Rails writes none
		case `"arguments"`:
			arguments = m.Value
		}
	}
	if job.Class == "" {
		return job, &Error{Index: 1, Want: "an ActiveJob object with a job_class", Found: "an object without one"}
	}
	if arguments == nil || string(arguments) == "null" {
		return job, nil
	}
	if kindOf(arguments) != "an array" {
		return job, &Error{Index: 1, Want: "an ActiveJob object with an array of arguments", Found: "an object with " + kindOf(arguments)}
	}
	plain := payload.Elements(arguments)
	for i, raw := range plain {
		if plain[i], err = plainArgument(raw); err != nil {
			err.Index = i + 1
			return job, err
		}
	}
	job.Args = plain
	return job, nil
}

// activeJobMark begins the keys by which ActiveJob marks values that JSON has no type for.
// Rails never escapes these letters: a key that looks different is the program's.
var activeJobMark = []byte(`"_aj_`)

const (
	markGlobalID   = `"_aj_globalid"`
	markSerialized = `"_aj_serialized"`
)

// plainArgument removes ActiveJob's encoding from one argument:
//
//   - {"_aj_globalid":"gid://app/Model/1"} becomes the string (see goworker.GlobalID);
//   - {"_aj_serialized":S,"value":V,…} becomes V when S is one of Rails' own: a
//     symbol, module or BigDecimal is a string, a time RFC 3339, a date
//     "2006-01-02", a duration its seconds;
//   - a range becomes {"begin":…,"end":…,"exclude_end":…};
//   - objects of a program's own serializers keep their other keys;
//   - the marks for the kind of a hash's keys are removed.
//
// Everything else keeps its bytes, and so its order and every digit.
func plainArgument(raw []byte) (json.RawMessage, *Error) {
	if !bytes.Contains(raw, activeJobMark) {
		return raw, nil
	}
	return appendPlain(make([]byte, 0, len(raw)), raw)
}

func appendPlain(dst, raw []byte) ([]byte, *Error) {
	if !bytes.Contains(raw, activeJobMark) {
		return append(dst, raw...), nil
	}
	switch raw[0] {
	case '[':
		return appendPlainArray(dst, payload.Elements(raw))
	case '{':
		return appendPlainObject(dst, payload.Members(raw))
	}
	return append(dst, raw...), nil
}

func appendPlainArray(dst []byte, elements []json.RawMessage) ([]byte, *Error) {
	var err *Error
	dst = append(dst, '[')
	for i, e := range elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendPlain(dst, e); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendPlainObject(dst []byte, members []payload.Member) ([]byte, *Error) {
	for _, m := range members {
		switch string(m.Key) {
		case markGlobalID:
			if len(members) != 1 || kindOf(m.Value) != "a string" {
				return nil, &Error{Want: "a GlobalID, a string alone under _aj_globalid", Found: "an object with something else"}
			}
			return append(dst, m.Value...), nil
		case markSerialized:
			if kindOf(m.Value) != "a string" {
				return nil, &Error{Want: "the name of a serializer under _aj_serialized", Found: "an object with " + kindOf(m.Value)}
			}
			name, ours := strings.CutPrefix(payload.StringValue(m.Value), "ActiveJob::Serializers::")
			if !ours {
				continue // the program's own
			}
			if name == "RangeSerializer" {
				return appendPlainRange(dst, members)
			}
			return appendPlainValue(dst, name, members)
		}
	}
	return appendPlainMembers(dst, members)
}

func appendPlainMembers(dst []byte, members []payload.Member) ([]byte, *Error) {
	var err *Error
	dst = append(dst, '{')
	sep := ""
	for _, m := range members {
		switch string(m.Key) {
		case `"_aj_symbol_keys"`, `"_aj_ruby2_keywords"`, `"_aj_hash_with_indifferent_access"`, markSerialized:
			continue
		}
		dst = append(dst, sep...)
		sep = ","
		dst = append(dst, m.Key...)
		dst = append(dst, ':')
		if dst, err = appendPlain(dst, m.Value); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// appendPlainValue writes the "value" of one of Rails' serializers. The members beside
// it, a time's zone name or a duration's parts, repeat it.
func appendPlainValue(dst []byte, serializer string, members []payload.Member) ([]byte, *Error) {
	value := payload.LastMember(members, `"value"`)
	kind := kindOf(value)
	want := "a string"
	if serializer == "DurationSerializer" {
		want = "a number"
	}
	switch serializer {
	case "SymbolSerializer", "TimeSerializer", "TimeWithZoneSerializer", "DateTimeSerializer", "DateSerializer",
		"BigDecimalSerializer", "ModuleSerializer", "DurationSerializer":
		if kind != want {
			return nil, &Error{Want: want + " as value of a " + serializer, Found: "an object with " + kind}
		}
	default: // of a later Rails
		if value == nil {
			return appendPlainMembers(dst, members)
		}
	}
	return appendPlain(dst, value)
}

func appendPlainRange(dst []byte, members []payload.Member) ([]byte, *Error) {
	exclude := payload.LastMember(members, `"exclude_end"`)
	if exclude == nil {
		exclude = []byte("false")
	}
	if kindOf(exclude) != "a bool" {
		return nil, &Error{Want: "a bool as exclude_end of a RangeSerializer", Found: "an object with " + kindOf(exclude)}
	}
	plain := []payload.Member{
		{Key: []byte(`"begin"`), Value: payload.LastMember(members, `"begin"`)},
		{Key: []byte(`"end"`), Value: payload.LastMember(members, `"end"`)},
		{Key: []byte(`"exclude_end"`), Value: exclude},
	}
	for i := range plain {
		if plain[i].Value == nil {
			plain[i].Value = []byte("null") // an open end
		}
	}
	return appendPlainMembers(dst, plain)
}
