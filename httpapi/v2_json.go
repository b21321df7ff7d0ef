package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// decode reads the JSON of a request into a struct. A member that the struct does not have is a mistake of the client, and
// so is anything behind the value. An empty body is an empty object.
func decode(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if !utf8.Valid(body) {
		return invalidJSON(body, validUntil(body), "the body is not in UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, behind := d.Token(); behind != io.EOF {
			return invalidJSON(body, int(d.InputOffset()), "something follows the JSON value; send one value")
		}
		return nil
	}
	var syntax *json.SyntaxError
	var misfit *json.UnmarshalTypeError
	var p *problem
	switch text := err.Error(); {
	case errors.As(err, &p):
		return p
	case errors.As(err, &syntax):
		return invalidJSON(body, int(syntax.Offset), "the JSON is not valid: "+text)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return invalidJSON(body, len(body), "the JSON ends before its value does")
	case errors.As(err, &misfit):
		if misfit.Field == "" {
			return invalidJSON(body, int(misfit.Offset), "the JSON is "+aValue(misfit.Value)+"; send an object")
		}
		return invalid(misfit.Field, fmt.Sprintf("%s is %s and has to be %s", misfit.Field, aValue(misfit.Value), aType(misfit.Type.String())))
	case strings.HasPrefix(text, "json: unknown field "):
		name := strings.Trim(strings.TrimPrefix(text, "json: unknown field "), `"`)
		return invalid(printable(name), fmt.Sprintf("the JSON has a member %s that this call does not know; leave it out, or write it as /openapi.json does", quoted(name)))
	}
	return invalidJSON(body, 0, "the JSON cannot be read")
}

// invalidJSON is the problem of a body that is no JSON, with the line and the column of a byte.
func invalidJSON(body []byte, at int, detail string) error {
	before := body[:min(max(at-1, 0), len(body))]
	line := bytes.Count(before, []byte{'\n'}) + 1
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1
	return newProblem("invalid-json", detail, "line", line, "column", column)
}

// validUntil is how many bytes at the beginning of a text are valid.
func validUntil(text []byte) int {
	at := 0
	for at < len(text) {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n < 2 {
			break
		}
		at += n
	}
	return at + 1
}

// aValue is what encoding/json calls a JSON value, with its article.
func aValue(value string) string {
	if value == "array" || value == "object" {
		return "an " + value
	}
	return "a " + value
}

// aType says in words of JSON what a Go type takes.
func aType(name string) string {
	switch {
	case strings.HasPrefix(name, "int"):
		return "a whole number"
	case name == "string":
		return "a string"
	case name == "bool":
		return "true or false"
	case strings.HasPrefix(name, "[]"):
		return "a list"
	}
	return "an object"
}

// moment is a time of a request: a text as RFC 3339 has it, or a number of milliseconds since 1970.
type moment struct {
	time  time.Time
	wrong string // what the request has in its place, if that is no time
}

func (m *moment) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) != nil {
		s = string(text)
		if _, err := strconv.ParseInt(s, 10, 64); err != nil {
			m.wrong = s
			return nil
		}
	}
	*m = momentOf(s)
	return nil
}

func momentOf(text string) moment {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 && ms < 1e15 {
		return moment{time: time.UnixMilli(ms)}
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return moment{time: t}
	}
	return moment{wrong: text}
}

// of returns the time; it is zero if the request has none.
func (m *moment) of(parameter string) (time.Time, error) {
	switch {
	case m == nil:
		return time.Time{}, nil
	case m.wrong != "" || m.time.IsZero():
		return time.Time{}, invalid(parameter, fmt.Sprintf("%s is %s, which is no time; write it as 2030-01-31T12:00:00Z or in milliseconds since 1970", parameter, quoted(m.wrong)))
	}
	return m.time, nil
}

// stamp is a time for an answer: RFC 3339 in UTC with milliseconds; "" for none.
func stamp(ms int64) string {
	if ms <= 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// millis is a duration of a request in milliseconds. Its bounds are named in the problem.
func millis(parameter string, ms *int64, least, most time.Duration) (time.Duration, error) {
	if ms == nil {
		return 0, nil
	}
	if *ms < least.Milliseconds() || *ms > most.Milliseconds() {
		return 0, invalid(parameter, fmt.Sprintf("%s is %d and has to be from %d to %d milliseconds",
			parameter, *ms, least.Milliseconds(), most.Milliseconds()))
	}
	return time.Duration(*ms) * time.Millisecond, nil
}
