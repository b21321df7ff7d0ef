package failures

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/payload"
)

// A failure record has no id of its own, and we must add nothing to records that Ruby
// reads. So its content is its id: when, where and how which job failed.
// Left out is what changes during its life: its place in the list, retried_at, and
// the encoding, since Ruby encodes the whole record again when it
// retries. Records of the same content have the same id, and either may stand for the other.
//
// The first half of an id is made from failed_at alone, so that most records of a long
// list can be skipped by that field.
const (
	idTimeDigits = 8
	idSize       = 28
)

// ID returns the id of a failure record. A blank one has "".
func ID(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	var f payload.FailureFields
	if !f.Scan(raw) {
		return timeID(f) + digest(raw)
	}
	return timeID(f) + recordDigest(f)
}

// mayBe reports whether a record can have one of the ids whose first halves are given.
func mayBe(raw []byte, times map[string]bool) bool {
	const usual = `{"failed_at":"`
	f := payload.FailureFields{}
	if text, ok := bytes.CutPrefix(raw, []byte(usual)); ok {
		if end := bytes.IndexByte(text, '"'); end >= 0 && bytes.IndexByte(text[:end], '\\') < 0 &&
			!bytes.Contains(text[end:], []byte(`"failed_at"`)) {
			f.FailedAt = raw[len(usual)-1 : len(usual)+end+1]
			return times[timeID(f)]
		}
	}
	f.Scan(raw)
	return times[timeID(f)]
}

func timeID(f payload.FailureFields) string {
	return string(appendTimeID(nil, payload.Text(f.FailedAt)))
}

func recordDigest(f payload.FailureFields) string {
	var room [512]byte
	b := appendTexts(room[:0], payload.Text(f.Worker), payload.Text(f.Queue), payload.Text(f.Exception), payload.Text(f.Error))
	return digest(append(b, canonical(f.Payload)...))
}

func digest(b []byte) string { return string(appendDigest(nil, b)) }

func appendTimeID(to []byte, failedAt string) []byte {
	return appendDigest(to, []byte(failedAt))[:len(to)+idTimeDigits]
}

// appendTexts appends the texts of a record, each with its length.
func appendTexts(to []byte, texts ...string) []byte {
	for _, text := range texts {
		to = append(binary.AppendUvarint(to, uint64(len(text))), text...)
	}
	return to
}

func appendDigest(to, of []byte) []byte {
	sum := sha256.Sum256(of)
	return hex.AppendEncode(to, sum[:(idSize-idTimeDigits)/2])
}

// Namer names the records that a process writes. Most of them it need not read for that, and those of
// one second have half of their ids in common. It is safe for concurrent use.
type Namer struct {
	last atomic.Pointer[moment]
}

// moment is a failed_at and the half of the ids that is made from it.
type moment struct{ failedAt, id string }

// ID returns ID(raw). raw is what f.Encode returned.
func (n *Namer) ID(f payload.Failure, raw []byte) string {
	texts := [...]string{f.Worker, f.Queue, f.Exception, f.Error}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return ID(raw)
		}
	}
	if strings.ContainsAny(f.Exception, payload.Markup) {
		return ID(raw)
	}
	var room [512]byte
	b, rest, ok := plain(appendTexts(room[:0], texts[:]...), bytes.Trim(f.Payload, " \t\r\n"), 0)
	if !ok || len(rest) > 0 {
		return ID(raw)
	}
	at := n.last.Load()
	if at == nil || at.failedAt != f.FailedAt {
		at = &moment{f.FailedAt, string(appendTimeID(nil, f.FailedAt))}
		n.last.Store(at)
	}
	var id [idSize]byte
	return string(appendDigest(append(id[:0], at.id...), b))
}

// canonical returns the same form for all JSON texts of a value. Encoders differ in numbers,
// escapes and the order of members.
func canonical(raw []byte) []byte {
	if text, rest, ok := plain(nil, raw, 0); ok && len(rest) == 0 {
		return text
	}
	return decoded(raw)
}

// decoded is the canonical form of any JSON text. It costs some forty allocations.
func decoded(raw []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return raw
	}
	text, err := json.Marshal(canonicalNumbers(v))
	if err != nil {
		return raw
	}
	return text
}

// plain appends the canonical form of a value that begins a JSON text, and returns what comes after it. It
// takes only what most payloads consist of: ASCII strings without escapes, whole numbers, and the blanks
// of no encoder. ok is false for everything else, which canonical then takes the long way.
func plain(to, raw []byte, depth int) (text, rest []byte, ok bool) {
	if len(raw) == 0 || depth > 10 {
		return nil, nil, false
	}
	switch raw[0] {
	case '[':
		return plainArray(to, raw, depth)
	case '{':
		return plainObject(to, raw, depth)
	}
	n := plainScalar(raw)
	return append(to, raw[:n]...), raw[n:], n > 0
}

// plainScalar returns how long a string, number or word is that begins a JSON text; 0: it is not plain.
func plainScalar(raw []byte) int {
	switch c := raw[0]; {
	case c == '"':
		return plainString(raw)
	case c >= '0' && c <= '9':
		n := 1
		for c != '0' && n < len(raw) && raw[n] >= '0' && raw[n] <= '9' {
			n++
		}
		if n < len(raw) && (raw[n] == ',' || raw[n] == ']' || raw[n] == '}') {
			return n
		}
	case bytes.HasPrefix(raw, []byte("true")), bytes.HasPrefix(raw, []byte("null")):
		return len("true")
	case bytes.HasPrefix(raw, []byte("false")):
		return len("false")
	}
	return 0
}

// plainString returns how long a string is with its quotes; 0: it is not plain.
func plainString(raw []byte) int {
	for n := 1; n < len(raw); n++ {
		switch c := raw[n]; {
		case c == '"':
			return n + 1
		case c < ' ' || c > '~' || c == '\\' || c == '<' || c == '>' || c == '&':
			return 0
		}
	}
	return 0
}

func plainArray(to, raw []byte, depth int) (text, rest []byte, ok bool) {
	to, raw = append(to, '['), raw[1:]
	if len(raw) > 0 && raw[0] == ']' {
		return append(to, ']'), raw[1:], true
	}
	for {
		if to, raw, ok = plain(to, raw, depth+1); !ok || len(raw) == 0 {
			return nil, nil, false
		}
		switch c := raw[0]; c {
		case ']':
			return append(to, c), raw[1:], true
		case ',':
			to, raw = append(to, c), raw[1:]
		default:
			return nil, nil, false
		}
	}
}

// plainObject writes the members in the order of their names. Names that are there twice are not plain.
func plainObject(to, raw []byte, depth int) (text, rest []byte, ok bool) {
	type member struct {
		name     []byte
		from, to int // of its value in values
	}
	var room [4]member
	all := room[:0]
	if raw = raw[1:]; len(raw) > 0 && raw[0] == '}' {
		return append(to, "{}"...), raw[1:], true
	}
	values := make([]byte, 0, len(raw))
	for {
		if len(raw) == 0 || raw[0] != '"' || len(all) == 16 {
			return nil, nil, false
		}
		n := plainString(raw)
		if n == 0 || n == len(raw) || raw[n] != ':' {
			return nil, nil, false
		}
		m := member{name: raw[:n-1], from: len(values)} // without the last quote, which would count in the order
		if values, raw, ok = plain(values, raw[n+1:], depth+1); !ok || len(raw) == 0 {
			return nil, nil, false
		}
		m.to = len(values)
		at, twice := slices.BinarySearchFunc(all, m, func(a, b member) int { return bytes.Compare(a.name, b.name) })
		if twice {
			return nil, nil, false
		}
		all = slices.Insert(all, at, m)
		c := raw[0]
		raw = raw[1:]
		if c == '}' {
			break
		}
		if c != ',' {
			return nil, nil, false
		}
	}
	for i, m := range all {
		between := byte(',')
		if i == 0 {
			between = '{'
		}
		to = append(append(append(append(to, between), m.name...), '"', ':'), values[m.from:m.to]...)
	}
	return append(to, '}'), raw, true
}

func canonicalNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return canonicalNumber(string(v))
	case []any:
		for i := range v {
			v[i] = canonicalNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = canonicalNumbers(v[k])
		}
	}
	return v
}

// canonicalNumber makes 1, 1.0 and 1e0 the same: Node prints all as 1.
func canonicalNumber(literal string) json.Number {
	if !strings.ContainsAny(literal, ".eE") && literal != "-0" {
		return json.Number(literal)
	}
	f, err := strconv.ParseFloat(literal, 64)
	switch {
	case err != nil:
		return json.Number(literal)
	case f == math.Trunc(f) && math.Abs(f) < 1<<53:
		return json.Number(strconv.FormatInt(int64(f), 10))
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}
