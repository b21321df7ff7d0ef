package workflow

import (
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/payload"
)

// String is the join's field: 'left bad stopped kind first count up letter borne over'.
func (j *join) String() string {
	first, count := 0, len(j.sends)
	if count > 0 {
		first = j.sends[0].number
	} else if count = len(j.inner); count > 0 {
		first = j.inner[0].number
	}
	b := make([]byte, 0, 48)
	for _, n := range []int{j.left, j.bad, 0} {
		b = append(strconv.AppendInt(b, int64(n), 10), ' ')
	}
	b = append(b, j.kind, ' ')
	b = append(strconv.AppendInt(b, int64(first), 10), ' ')
	b = append(strconv.AppendInt(b, int64(count), 10), ' ')
	switch {
	case j.up == nil:
		b = append(b, "- - "...)
	case j.letter == nil:
		b = append(strconv.AppendInt(b, int64(j.up.number), 10), " + "...)
	default:
		b = append(strconv.AppendInt(b, int64(j.up.number), 10), ' ')
		b = append(strconv.AppendInt(b, int64(j.letter.number), 10), ' ')
	}
	b = append(b, j.borne, ' ')
	if j.over == nil {
		return string(append(b, '-'))
	}
	return string(strconv.AppendInt(b, int64(j.over.number), 10))
}

// String is the scope's field: 'up handler borne'.
func (s *scope) String() string {
	up, handler := "-", "-"
	if s.up != nil {
		up = strconv.Itoa(s.up.number)
	}
	if s.handler != nil {
		handler = strconv.Itoa(s.handler.number)
	}
	return up + " " + handler + " " + string(s.borne)
}

// template is the text by which a script sends a step that waits.
func (c *compiler) template(s *step, e Encoded, at payload.Places) []byte {
	letter := byte('s')
	switch {
	case s.handler:
		letter = 'r'
	case s.External != 0:
		letter = 'y'
	}
	mode, of := s.mode, "-"
	if mode == 'v' {
		if of = c.of(s.spread()); of == "" {
			mode, of = 'n', "-"
		} else if s.Inline {
			mode = 'i'
		}
	}
	prefix := strconv.Itoa(len(e.Queue)) + ":" + e.Queue
	b := make([]byte, 0, len(e.Payload)+len(prefix)+len(of)+32)
	b = append(b, letter, ' ', mode, ' ')
	b = append(append(b, of...), ' ')
	if e.At.IsZero() {
		b = strconv.AppendInt(b, max(0, e.Delay.Milliseconds()), 10)
	} else {
		b = strconv.AppendInt(append(b, '@'), e.At.UnixMilli(), 10)
	}
	for _, n := range []int64{max(0, e.Expires.Milliseconds()), int64(len(prefix) + at.Args), int64(len(prefix) + at.Last)} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	b = append(append(b, ' '), prefix...)
	return append(b, e.Payload...)
}

// spread is what a step takes, side by side.
func (s *step) spread() []*value {
	if s.Spread && len(s.takes) == 1 && s.takes[0].step == nil {
		return s.takes[0].items
	}
	return s.takes
}

// of is the text of a template's values: see the package's comment.
func (c *compiler) of(values []*value) string {
	var b strings.Builder
	c.items(&b, values)
	return b.String()
}

// items writes values with commas between. Results whose numbers follow each other are one item.
func (c *compiler) items(b *strings.Builder, values []*value) {
	for i := 0; i < len(values); {
		if i > 0 {
			b.WriteByte(',')
		}
		v := values[i]
		i++
		if v.step == nil {
			c.list(b, v)
			continue
		}
		first, count := v.step.keptAs(), 1
		for i < len(values) && values[i].step != nil && values[i].step.keptAs() == first+count {
			count++
			i++
		}
		b.WriteString(strconv.Itoa(first))
		if count > 1 {
			b.WriteByte('+')
			b.WriteString(strconv.Itoa(count))
		}
	}
}

func (c *compiler) list(b *strings.Builder, v *value) {
	if v.stands != nil {
		b.WriteString(strconv.Itoa(v.stands.number))
	}
	if v.collect {
		b.WriteByte('c')
	}
	b.WriteByte('[')
	if v.rest != nil {
		b.WriteByte('*')
	} else {
		c.items(b, v.items)
	}
	b.WriteByte(']')
}

// json appends a constant.
func (v *value) json(b []byte) []byte {
	b = append(b, '[')
	for i, item := range v.items {
		if i > 0 {
			b = append(b, ',')
		}
		if v.collect {
			b = append(item.json(append(b, `{"result":`...)), '}')
		} else {
			b = item.json(b)
		}
	}
	return append(b, ']')
}

// finished is the payload of a step that is sent first: with its values, which are constant, and with expires_at.
func (c *compiler) finished(s *step, e Encoded, at payload.Places, due time.Time) []byte {
	var values []byte
	for i, v := range s.spread() {
		if i > 0 {
			values = append(values, ',')
		}
		values = v.json(values)
	}
	raw := e.Payload
	if e.Expires == 0 && len(values) == 0 {
		return raw
	}
	out := make([]byte, 0, len(raw)+len(values)+40)
	out = append(out, raw[:at.Args]...)
	if len(values) > 0 {
		first := raw[at.Args-1] == '['
		if !first {
			out = append(out, ',')
		}
		out = append(out, values...)
		if first && raw[at.Args] != ']' {
			out = append(out, ',')
		}
	}
	out = append(out, raw[at.Args:at.Last]...)
	if e.Expires > 0 {
		out = append(out, `,"expires_at":`...)
		out = strconv.AppendInt(out, due.Add(e.Expires).UnixMilli(), 10)
	}
	return append(out, raw[at.Last:]...)
}
