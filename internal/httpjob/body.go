// Package httpjob writes and reads the jobs that an HTTP server publishes and hands out: a request's body as the
// argument of a job and back, the ids of such jobs, and their payloads. It knows neither HTTP nor Redis.
//
// A body is the one argument of its job:
//
//   - A body in UTF-8 is a string.
//   - Other bytes are {"base64":"…"}.
//   - A body that its client calls JSON is that value, with its bytes. If the value would not come back as it was, the
//     argument is the text of the JSON: for a string, for {"base64":…} and for a value nested deeper than MaxDepth.
//
// No field says which form it is, because Ruby's retry button drops fields that it does not know.
package httpjob

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/payload"
)

// MaxDepth is how many levels a JSON body may nest and still be the argument itself: the payload's object and the list
// of arguments are two more.
const MaxDepth = payload.MaxDepth - 2

// AppendBytes appends the argument for a body of any bytes.
func AppendBytes(dst, body []byte) []byte {
	if utf8.Valid(body) {
		return payload.AppendText(dst, string(body))
	}
	dst = append(dst, base64Open...)
	dst = base64.StdEncoding.AppendEncode(dst, body)
	return append(dst, base64Close...)
}

// AppendJSON appends the argument for a body that is JSON. Blanks around the JSON are cut. It reports whether the body
// is JSON; nothing is appended for another one.
func AppendJSON(dst, body []byte) (out []byte, ok bool) {
	body = bytes.Trim(body, blanks)
	if !json.Valid(body) {
		return dst, false
	}
	if utf8.Valid(body) && payload.WellFormed(body, MaxDepth) && bytes.Equal(argument(body), body) {
		return append(dst, body...), true
	}
	return AppendBytes(dst, body), true
}

// Body returns the body of a job with these arguments. Arguments that no body has made, as those of Ruby's jobs, have
// one too: a single string is its text, a single other value its JSON, and the body of no or several arguments is the
// list of them in JSON. The result may alias the arguments.
func Body(args []json.RawMessage) []byte {
	if len(args) == 1 {
		return argument(args[0])
	}
	return List(args)
}

// BodyOf returns the body of a payload. Bytes that are no job, as another program may push, are their own body.
func BodyOf(raw []byte, p *payload.Payload) []byte {
	if p.Class == "" {
		return raw
	}
	return Body(p.Args)
}

// List returns the arguments as a list in JSON.
func List(args []json.RawMessage) []byte {
	list := []byte{'['}
	for i, a := range args {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, a...)
	}
	return append(list, ']')
}

const (
	blanks      = " \t\r\n"
	base64Open  = `{"base64":"`
	base64Close = `"}`
)

// argument returns the body whose one argument this is.
func argument(raw []byte) []byte {
	switch {
	case len(raw) == 0:
		return raw
	case raw[0] == '"':
		return []byte(payload.StringValue(raw))
	case raw[0] != '{':
		return raw
	}
	// PHP escapes slashes, and other programs may write blanks.
	key := bytes.TrimLeft(raw[1:], blanks)
	if !bytes.HasPrefix(key, []byte(`"base64"`)) {
		return raw
	}
	members := payload.Members(raw)
	if len(members) != 1 || members[0].Value[0] != '"' {
		return raw
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(payload.StringValue(members[0].Value))
	if err != nil {
		return raw
	}
	return decoded
}
