package failures

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"strings"

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
	return digest([]byte(payload.Text(f.FailedAt)))[:idTimeDigits]
}

func recordDigest(f payload.FailureFields) string {
	var b []byte
	for _, text := range []string{payload.Text(f.Worker), payload.Text(f.Queue), payload.Text(f.Exception), payload.Text(f.Error)} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return digest(append(b, canonical(f.Payload)...))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:(idSize-idTimeDigits)/2])
}

// canonical returns the same form for all JSON texts of a value. Encoders differ in numbers,
// escapes and the order of members.
func canonical(raw []byte) []byte {
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
