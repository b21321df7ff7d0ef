// Package brief is what the rows of lists say of a job: its class, its arguments in one line, and the columns that the options name. Everything
// in it is masked.
package brief

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/mask"
	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/stamp"
)

const (
	lineBytes   = 240     // of the arguments in a row
	mostArgs    = 2 << 10 // of arguments as JSON; longer ones are left out
	columnBytes = 60
)

// Job is a job as a row says it.
type Job struct {
	Class    string            `json:"class"`             // of an ActiveJob its own
	Via      string            `json:"via,omitempty"`     // "ActiveJob"
	ID       string            `json:"id,omitempty"`      // "": plain Resque jobs have none
	Args     []json.RawMessage `json:"args"`              // null above 2 KiB: args_text has their beginning
	Line     string            `json:"args_text"`         // the arguments, or the payload of what is no job
	Size     int64             `json:"bytes"`             // of the payload
	Priority int               `json:"priority"`          // 1 to 9; 0: none
	Attempt  int               `json:"attempt"`           // which run it is for, from 1; 0: it is no job
	Columns  []string          `json:"columns,omitempty"` // those of the options, in their order
	Invalid  string            `json:"invalid,omitempty"` // why it is no job
	Came     time.Time         `json:"-"`                 // when it was put into its queue; zero: it does not say
}

// Of is a job by its payload.
func Of(m *mask.Masker, raw []byte, columns []string) Job {
	j := Job{Size: int64(len(raw))}
	p, err := payload.Parse(m.Payload(raw))
	if err != nil {
		j.Invalid, j.Line = m.Text(err.Error()), m.Brief(raw, lineBytes)
		for range columns {
			j.Columns = append(j.Columns, "")
		}
		return j
	}
	j.Class, j.ID, j.Attempt = p.Class, p.ID, p.Attempt
	list := p.Args
	if p.Class == args.ActiveJobWrapper {
		if inner, _ := args.OpenActiveJob(p.Args); inner.Class != "" {
			j.Class, j.Via, list, j.ID = inner.Class, "ActiveJob", inner.Args, cmp.Or(p.ID, inner.ID)
		}
	}
	j.Came, _ = stamp.EnqueuedAt(&p)
	j.Priority, _ = strconv.Atoi(string(p.Field("priority")))
	j.Line, j.Args = line(list), list
	if total(list) > mostArgs {
		j.Args = nil
	} else if list == nil {
		j.Args = []json.RawMessage{}
	}
	for _, path := range columns {
		j.Columns = append(j.Columns, column(&p, list, path))
	}
	return j
}

func total(list []json.RawMessage) (n int) {
	for _, one := range list {
		n += len(one) + 1
	}
	return n
}

// line is a list of arguments as one text.
func line(list []json.RawMessage) string {
	var b []byte
	for n, one := range list {
		if n > 0 {
			b = append(b, ", "...)
		}
		if b = append(b, one...); len(b) > lineBytes {
			break
		}
	}
	return cut(string(b), lineBytes)
}

// column is the value of a column: "meta.tenant", or "arg.0.account".
func column(p *payload.Payload, list []json.RawMessage, path string) string {
	parts := strings.Split(path, ".")
	var value json.RawMessage
	switch {
	case parts[0] == "meta" && len(parts) > 1:
		value = member(p.Field(httpjob.MetaField), strings.Join(parts[1:], "."))
	case parts[0] == "arg" && len(parts) > 1:
		n, err := strconv.Atoi(parts[1])
		if err != nil || n < 0 || n >= len(list) {
			return ""
		}
		value = list[n]
		for _, key := range parts[2:] {
			value = member(value, key)
		}
	}
	if len(value) == 0 {
		return ""
	}
	if value[0] == '"' {
		return cut(payload.StringValue(value), columnBytes)
	}
	return cut(string(value), columnBytes)
}

// member is the value of a key of an object; nil: there is none.
func member(object []byte, key string) (value json.RawMessage) {
	if len(object) == 0 || object[0] != '{' {
		return nil
	}
	for _, m := range payload.Members(object) {
		if payload.StringValue(m.Key) == key {
			value = m.Value
		}
	}
	return value
}

// cut shortens a text to so many bytes, at the border of a rune.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xC0 == 0x80 {
		most--
	}
	return strings.TrimSuffix(text[:most], "\\") + "…"
}
