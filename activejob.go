package goworker

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/goworker/goworker/internal/payload"
)

// activeJobWrapper is the class Rails enqueues every ActiveJob under. The job is
// its one argument: an object with job_class, job_id, arguments, executions, ….
const activeJobWrapper = "ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper"

// openActiveJob turns the delivery of a wrapper into that of the job inside.
// On an error the class is the inner one if it was found.
func (d *Delivery) openActiveJob() error {
	if len(d.Args) != 1 {
		return &ArgumentError{Class: d.Class, Want: "1", Found: strconv.Itoa(len(d.Args))}
	}
	wrapper := d.Args[0]
	if jsonKind(wrapper) != "an object" {
		return &ArgumentError{Class: d.Class, Index: 1, Want: "an ActiveJob object", Found: jsonKind(wrapper)}
	}

	var class, id string
	var executions int
	var arguments []byte
	for _, m := range payload.Members(wrapper) {
		switch string(m.Key) {
		case `"job_class"`:
			class = payload.StringValue(m.Value)
		case `"job_id"`:
			id = payload.StringValue(m.Value)
		case `"executions"`:
			executions, _ = strconv.Atoi(string(m.Value)) // older Rails writes none
		case `"arguments"`:
			arguments = m.Value
		}
	}
	if class == "" {
		return &ArgumentError{Class: d.Class, Index: 1, Want: "an ActiveJob object with a job_class", Found: "an object without one"}
	}

	d.Class, d.Args = class, nil
	if id != "" {
		d.ID = id
	}
	if executions > 0 && executions <= payload.MaxRuns {
		d.Attempt += executions
	}
	if arguments == nil || string(arguments) == "null" {
		return nil
	}
	if jsonKind(arguments) != "an array" {
		return &ArgumentError{Class: class, Index: 1, Want: "an ActiveJob object with an array of arguments", Found: "an object with " + jsonKind(arguments)}
	}
	args := payload.Elements(arguments)
	for i, raw := range args {
		plain, err := plainArgument(raw)
		if err != nil {
			err.Class, err.Index = class, i+1
			return err
		}
		args[i] = plain
	}
	d.Args = args
	return nil
}

// ActiveJob marks what JSON has no type for with keys that begin so. Rails never
// escapes these letters, so what looks different is a program's own key.
var activeJobMark = []byte(`"_aj_`)

const (
	markGlobalID   = `"_aj_globalid"`
	markSerialized = `"_aj_serialized"`
)

// plainArgument takes ActiveJob's encoding off one argument:
//
//   - {"_aj_globalid":"gid://app/Model/1"} becomes the string (see GlobalID);
//   - {"_aj_serialized":S,"value":V,…} becomes V when S is one of Rails' own: a
//     symbol, module or BigDecimal is a string, a time RFC 3339, a date
//     "2006-01-02", a duration its seconds;
//   - a range becomes {"begin":…,"end":…,"exclude_end":…};
//   - objects of a program's own serializers keep their other keys;
//   - the marks that tell how a hash was keyed are removed.
//
// Everything else keeps its bytes, and so its order and every digit.
func plainArgument(raw []byte) (json.RawMessage, *ArgumentError) {
	if !bytes.Contains(raw, activeJobMark) {
		return raw, nil
	}
	return appendPlain(make([]byte, 0, len(raw)), raw)
}

func appendPlain(dst, raw []byte) ([]byte, *ArgumentError) {
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

func appendPlainArray(dst []byte, elements []json.RawMessage) ([]byte, *ArgumentError) {
	var err *ArgumentError
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

func appendPlainObject(dst []byte, members []payload.Member) ([]byte, *ArgumentError) {
	for _, m := range members {
		switch string(m.Key) {
		case markGlobalID:
			if len(members) != 1 || jsonKind(m.Value) != "a string" {
				return nil, &ArgumentError{Want: "a GlobalID, a string alone under _aj_globalid", Found: "an object with something else"}
			}
			return append(dst, m.Value...), nil
		case markSerialized:
			if jsonKind(m.Value) != "a string" {
				return nil, &ArgumentError{Want: "the name of a serializer under _aj_serialized", Found: "an object with " + jsonKind(m.Value)}
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

func appendPlainMembers(dst []byte, members []payload.Member) ([]byte, *ArgumentError) {
	var err *ArgumentError
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

// appendPlainValue writes the "value" of one of Rails' serializers. What stands
// beside it, a time's zone name or a duration's parts, says the same again.
func appendPlainValue(dst []byte, serializer string, members []payload.Member) ([]byte, *ArgumentError) {
	value := payload.LastMember(members, `"value"`)
	kind := jsonKind(value)
	want := "a string"
	if serializer == "DurationSerializer" {
		want = "a number"
	}
	switch serializer {
	case "SymbolSerializer", "TimeSerializer", "TimeWithZoneSerializer", "DateTimeSerializer", "DateSerializer",
		"BigDecimalSerializer", "ModuleSerializer", "DurationSerializer":
		if kind != want {
			return nil, &ArgumentError{Want: want + " as value of a " + serializer, Found: "an object with " + kind}
		}
	default: // of a later Rails
		if value == nil {
			return appendPlainMembers(dst, members)
		}
	}
	return appendPlain(dst, value)
}

func appendPlainRange(dst []byte, members []payload.Member) ([]byte, *ArgumentError) {
	exclude := payload.LastMember(members, `"exclude_end"`)
	if exclude == nil {
		exclude = []byte("false")
	}
	if jsonKind(exclude) != "a bool" {
		return nil, &ArgumentError{Want: "a bool as exclude_end of a RangeSerializer", Found: "an object with " + jsonKind(exclude)}
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
