package aggregate

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/groups"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// own are fields of a job that something waits for until the job itself has run: it is not merged.
var own = []string{workflows.Field, resque.ResultField}

// Item reports whether a job of the class waits for no limit, because it only becomes a part of its group.
func (of *Of) Item(j *outcome.Job) bool {
	return j.Err == nil && !of.whole(j) && len(j.Args) >= of.least() && of.merges(j)
}

// least returns how many arguments a job must have.
func (of *Of) least() int {
	if len(of.Keys) == 0 {
		return 0
	}
	return slices.Max(of.Keys) + 1
}

// whole reports whether the job was made of a group. Ruby's tools push a failed job again without the fields that they do
// not know. So what looks like the job of a group is one: an item with one argument beside the key brings no list but an
// empty one, which no group has. Else the retried job would be gathered, and its list be one item of another list.
func (of *Of) whole(j *outcome.Job) bool {
	if j.Parsed.Field(groups.Field) != nil {
		return true
	}
	n := len(of.Keys)
	if len(j.Args) != n+1 || j.Args[n][0] != '[' {
		return false
	}
	list := j.Args[n]
	return len(bytes.TrimSpace(list[1:len(list)-1])) > 0
}

// merges reports whether an item may become a part of a group. An item that the handler cannot take fails alone, and not
// with all others of its group.
func (of *Of) merges(j *outcome.Job) bool {
	for _, field := range own {
		if j.Parsed.Field(field) != nil {
			return false
		}
	}
	for _, arg := range j.Args {
		if deep(arg) {
			return false
		}
	}
	return of.Fits == nil || of.Fits(of.alone(j.Args))
}

// mostDepth is how many levels an argument may nest: a group adds two.
const mostDepth = payload.MaxDepth - 4

// deep reports whether an argument may nest too many levels for a group.
func deep(arg []byte) bool {
	if bytes.Count(arg, []byte("["))+bytes.Count(arg, []byte("{")) <= mostDepth {
		return false
	}
	depth, most, text := 0, 0, false
	for i := 0; i < len(arg); i++ {
		switch c := arg[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			depth++
			most = max(most, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return most > mostDepth
}

// keys returns the arguments of the key, with a comma behind each.
func (of *Of) keys(args []json.RawMessage) (text []byte) {
	for _, k := range of.Keys {
		text = append(append(text, args[k]...), ',')
	}
	return text
}

// canonical returns a text that is the same for equal keys. Two strings are equal if their characters are, however these
// are escaped; other values, if their JSON is.
func canonical(of *Of, args []json.RawMessage) (text []byte) {
	for _, k := range of.Keys {
		arg := args[k]
		var s string
		if arg[0] == '"' && bytes.IndexByte(arg, '\\') >= 0 && json.Unmarshal(arg, &s) == nil {
			if plain, err := payload.EncodeValue(s, payload.Plain); err == nil {
				arg = plain
			}
		}
		text = append(append(text, arg...), ',')
	}
	return text
}

// shape tells items that are a value from those that are a list of values: they are not in one group.
func shape(rest int) byte {
	if rest == 1 {
		return '1'
	}
	return 'n'
}

// rest returns what an item brings: its argument beside the key, or a list if they are several or none.
func (of *Of) rest(args []json.RawMessage) []byte {
	list := []byte{'['}
	for i, arg := range args {
		if slices.Contains(of.Keys, i) {
			continue
		}
		if len(args)-len(of.Keys) == 1 {
			return arg
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, arg...)
	}
	return append(list, ']')
}

// alone returns the arguments of a group with one item.
func (of *Of) alone(args []json.RawMessage) []json.RawMessage {
	all := make([]json.RawMessage, 0, len(of.Keys)+1)
	for _, k := range of.Keys {
		all = append(all, args[k])
	}
	rest := of.rest(args)
	list := make([]byte, 0, len(rest)+2)
	return append(all, append(append(append(list, '['), rest...), ']'))
}
