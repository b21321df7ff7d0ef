package failures

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/payload"
)

const (
	mostBrief      = 200 // bytes of the arguments of a row
	mostColumnText = 40
	mostError      = 300     // bytes of the error of a row
	mostArgs       = 2 << 10 // bytes of the arguments of a row in JSON
	mostShown      = 1 << 15 // bytes of the arguments of one failure
	mostTrace      = 1 << 16 // bytes of a backtrace
)

// Row is a failure in a list.
type Row struct {
	ID        string    `json:"id"`
	Group     string    `json:"group"`
	At        site.Time `json:"failed_at"`
	AtText    string    `json:"failed_at_text"` // as the record has it
	RetriedAt string    `json:"retried_at,omitempty"`
	Class     string    `json:"class"`
	Via       string    `json:"via,omitempty"` // what the class is run by: ActiveJob
	JobID     string    `json:"job_id,omitempty"`
	Exception string    `json:"exception"`
	Error     string    `json:"error"`
	Queue     string    `json:"queue"`
	Worker    string    `json:"worker"`
	Args      site.Args `json:"args,omitempty"` // left out where they are longer than 2 KiB
	Brief     string    `json:"args_text"`      // the beginning of the arguments
	Invalid   string    `json:"invalid,omitempty"`
	Shard     string    `json:"shard,omitempty"`
}

// Short is the beginning of the arguments for a column.
func (r Row) Short() string { return short(r.Brief, mostColumnText) }

// Record is one failure with all that it has.
type Record struct {
	Row
	Backtrace []string          `json:"backtrace"`
	Meta      map[string]string `json:"meta,omitempty"`
	Attempt   int               `json:"attempt,omitempty"`
	Whole     string            `json:"-"` // the arguments, as JSON
	Size      int               `json:"size"`
	Raw       string            `json:"raw,omitempty"` // of what is no job: the beginning of it
	Cut       bool              `json:"cut"`           // something was too long to be shown
	Retryable bool              `json:"retryable"`
}

// Trace is the backtrace as one text.
func (r *Record) Trace() string { return strings.Join(r.Backtrace, "\n") }

// rowOf is a failure in a list, masked.
func rowOf(a *site.Ask, f inspect.Failure) Row {
	f.Backtrace = nil
	row, _, _ := show(a, f)
	row.Error = short(row.Error, mostError)
	if size(row.Args) > mostArgs {
		row.Args = nil
	}
	return row
}

// recordOf is a failure with all that it has, masked.
func recordOf(a *site.Ask, f inspect.Failure) *Record {
	row, masked, p := show(a, f)
	r := &Record{Row: row, Backtrace: masked.Backtrace, Size: len(f.Raw), Retryable: f.Invalid == nil && p != nil && f.Queue != ""}
	if p != nil {
		r.Attempt = p.Attempt
		_ = json.Unmarshal(p.Field("meta"), &r.Meta) // else it is none
	}
	if r.Whole = whole(r.Args); len(r.Whole) > mostShown {
		r.Whole, r.Args, r.Cut = short(r.Whole, mostShown), nil, true
	}
	if len(r.Error) > mostTrace {
		r.Error, r.Cut = short(r.Error, mostTrace), true
	}
	left := mostTrace
	for n, line := range r.Backtrace {
		if left -= len(line) + 1; left < 0 {
			r.Backtrace, r.Cut = r.Backtrace[:n], true
			break
		}
	}
	switch {
	case f.Invalid != nil:
		r.Raw = short(strings.ToValidUTF8(string(a.Masks.Record(f.Raw)), "?"), mostArgs)
	case p == nil:
		r.Raw = a.Masks.Brief(f.Payload, mostArgs)
	}
	return r
}

// show masks a failure and reads its job, of which p is nil if there is none.
func show(a *site.Ask, f inspect.Failure) (row Row, masked inspect.Failure, p *payload.Payload) {
	gid, _ := groups.Fingerprint(f)
	masked = a.Masks.Failure(f)
	row = Row{
		ID: f.ID, Group: gid, At: site.Time{Time: f.At()}, AtText: f.FailedAt, RetriedAt: f.RetriedAt, Class: f.Class,
		Exception: masked.Exception, Error: masked.Error, Queue: f.Queue, Worker: f.Worker, Shard: f.Shard,
	}
	if masked.Invalid != nil {
		row.Invalid = masked.Invalid.Error()
		row.Brief = short(strings.ToValidUTF8(string(a.Masks.Record(f.Raw)), "?"), mostBrief)
		return row, masked, nil
	}
	parsed, err := payload.Parse(masked.Payload)
	if err != nil {
		row.Invalid = "its payload is no job: " + err.Error()
		row.Brief = a.Masks.Brief(f.Payload, mostBrief)
		return row, masked, nil
	}
	row.JobID, row.Args = parsed.ID, parsed.Args
	if parsed.Class == args.ActiveJobWrapper {
		if inner, err := args.OpenActiveJob(parsed.Args); err == nil && inner.Class != "" {
			row.Class, row.Via, row.JobID = inner.Class, "ActiveJob", inner.ID
			row.Args = inner.Args
		}
	}
	row.Brief = strings.ToValidUTF8(row.Args.Text(mostBrief), "?")
	return row, masked, &parsed
}

func size(all site.Args) (n int) {
	for _, one := range all {
		n += len(one)
	}
	return n
}

// whole are arguments as one JSON list.
func whole(all site.Args) string {
	b := []byte{'['}
	for n, one := range all {
		if n > 0 {
			b = append(b, ',')
		}
		b = append(b, one...)
	}
	return string(append(b, ']'))
}

// short cuts a text between two characters.
func short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xC0 == 0x80 {
		most--
	}
	return text[:most] + "…"
}

// value is a value in the arguments of a job, and where.
type value struct {
	path, text string
	word       bool // it is a text that says what it is: it has a letter
}

// differing says in a few words what the arguments of each row have that the others have not. What all share is left out.
func differing(all []Row) []string {
	same := make(map[value]int)
	flat := make([][]value, len(all))
	for n, row := range all {
		for i, arg := range row.Args {
			flat[n] = flattened(flat[n], fmt.Sprint(i), arg)
		}
		for _, v := range flat[n] {
			same[v]++
		}
	}
	texts := make([]string, len(all))
	for n, row := range all {
		var parts []string
		for _, v := range flat[n] {
			if len(all) > 1 && same[v] >= len(all) {
				continue
			}
			name := v.path[strings.LastIndexByte(v.path, '.')+1:]
			if v.word || strings.Trim(name, "0123456789") == "" {
				parts = append(parts, v.text)
			} else {
				parts = append(parts, name+" "+v.text)
			}
			if len(parts) == 3 {
				break
			}
		}
		if texts[n] = short(strings.ToValidUTF8(strings.Join(parts, ", "), "?"), mostBrief); texts[n] == "" {
			texts[n] = row.Brief
		}
	}
	return texts
}

// flattened adds the scalar values of an argument, at most two levels deep and twenty in all.
func flattened(to []value, path string, raw json.RawMessage) []value {
	const most = 20
	if len(to) >= most || len(raw) == 0 || len(raw) > mostArgs {
		return to
	}
	switch raw[0] {
	case '{':
		if strings.Count(path, ".") < 2 {
			for _, m := range payload.Members(raw) {
				to = flattened(to, path+"."+strings.ReplaceAll(payload.StringValue(m.Key), ".", "_"), m.Value)
			}
		}
	case '[':
		if strings.Count(path, ".") < 2 {
			for n, one := range payload.Elements(raw) {
				to = flattened(to, fmt.Sprint(path, ".", n), one)
			}
		}
	case '"':
		text := payload.StringValue(raw)
		to = append(to, value{path, text, strings.ContainsFunc(text, unicode.IsLetter)})
	default:
		to = append(to, value{path: path, text: string(raw)})
	}
	return to[:min(len(to), most)]
}

// queuesOf are the names of the queues of a group.
func queuesOf(g groups.Group) []string {
	var names []string
	for _, q := range g.Queues {
		if q.Queue != "" {
			names = append(names, q.Queue)
		}
	}
	return slices.Clip(names)
}
