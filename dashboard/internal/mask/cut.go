package mask

import (
	"bytes"
	"slices"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/payload"
)

// BriefRecord is Brief for a failure as it is in Redis.
func (m *Masker) BriefRecord(record []byte, n int) string { return brief(m.Record(record), n) }

// Cut returns the masked beginning of a job, or of a failure as it is in Redis, whose rest was cut off: its whole values, at most n
// bytes, and an ellipsis. It returns false where what was cut off may say what is to be masked: the class of the job, or in
// a failure a part of the job.
func (m *Masker) Cut(begin []byte, failure bool, n int) (text string, ok bool) {
	if m.level == Show {
		return brief(append(slices.Clip(begin), "…"...), n), true
	}
	whole, ok := mended(begin)
	if !ok {
		return "", false
	}
	masked := []byte(nil)
	switch members := payload.Members(whole); {
	case failure:
		job := slices.IndexFunc(members, func(member payload.Member) bool { return payload.StringValue(member.Key) == "payload" })
		if job < 0 || job == len(members)-1 {
			return "", false
		}
		masked = m.Record(whole)
	case (len(m.paths) > 0 || m.also != nil) && !saysClass(whole, members):
		return "", false
	default:
		masked = m.Payload(whole)
	}
	if len(masked) > n {
		return brief(masked, n), true
	}
	return brief(masked, n) + "…", true
}

// saysClass reports whether a job says its class, and that of an ActiveJob in it.
func saysClass(job []byte, members []payload.Member) bool {
	class := classOf(job)
	if class != args.ActiveJobWrapper {
		return class != ""
	}
	for _, member := range members {
		if payload.StringValue(member.Key) != "args" {
			continue
		}
		for _, one := range payload.Elements(bytes.TrimLeft(member.Value, " \t\r\n")) {
			if payload.StringValue(payload.LastMember(payload.Members(bytes.TrimLeft(one, " \t\r\n")), `"job_class"`)) != "" {
				return true
			}
		}
	}
	return false
}

// mended is the beginning of a JSON object up to its last whole value, with its brackets closed.
func mended(begin []byte) ([]byte, bool) {
	begin = bytes.TrimLeft(begin, " \t\r\n")
	if len(begin) == 0 || begin[0] != '{' {
		return nil, false
	}
	var open, after []byte // the brackets to close, here and at the last whole value
	end := 0
	whole := func(at int) { end, after = at, append(after[:0], open...) }
	inText := false
	for at := 0; at < len(begin); at++ {
		switch c := begin[at]; {
		case inText && c == '\\':
			at++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{', c == '[':
			open = append(open, c+2) // } and ] are two behind their opening brackets
			whole(at + 1)
		case c == '}', c == ']':
			if len(open) == 0 {
				return nil, false
			}
			open = open[:len(open)-1]
			whole(at + 1)
		case c == ',':
			whole(at)
		}
	}
	slices.Reverse(after)
	text := append(bytes.Clone(begin[:end]), after...)
	return text, payload.WellFormed(text, maxDepth)
}
