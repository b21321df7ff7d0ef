package workflow

import (
	"strconv"
	"strings"

	"github.com/goworker/goworker/internal/resque/workflows"
)

// mostOfPiece is how many bytes a piece of a plan has.
const mostOfPiece = workflows.MostBytes / 2

// Split cuts a plan that is too large for one call into pieces. The first starts the workflow, with all letters, and sends
// nothing. The others are added to its open join with no letters and no members, in their order: documents and fields, then
// jobs, so that whatever the end of a job needs is there. What says a token is in the piece of the job that has it: a plan that is
// compiled again has others. closes says that the workflow must be closed after them: the plan
// itself was not open. A plan that is not too large is returned as it is.
func Split(p *workflows.Plan) (pieces []*workflows.Plan, closes bool) {
	if len(p.Jobs) <= workflows.MostSent && p.Size() <= workflows.MostBytes {
		return []*workflows.Plan{p}, false
	}
	s := splitter{plan: p}
	first := *p
	first.Fields, first.Jobs, first.Hashes, first.Open = nil, nil, nil, true
	s.pieces = append(s.pieces, &first)
	open := "j" + strconv.Itoa(p.OpenJoin)
	for i := 0; i < len(p.Fields); i += 2 {
		if p.Fields[i] == open {
			text := p.Fields[i+1].(string)
			if !p.Open {
				text = oneMore(text)
			}
			first.Fields = []any{open, text}
		}
	}
	s.next()
	own := make(map[string]int, len(p.Jobs)) // fields that go with a job: they say its token
	for i, j := range p.Jobs {
		own["k"+strconv.Itoa(j.Step)], own["y"+strconv.Itoa(j.Step)] = i, i
	}
	with := make([][]any, len(p.Jobs))
	joins, scopes := numbered(p.Fields, 'j'), numbered(p.Fields, 'p')
	s.last.Fields = []any{"nextjoin", strconv.Itoa(joins), "nextscope", strconv.Itoa(scopes)}
	for i := 0; i < len(p.Fields); i += 2 {
		name, size := p.Fields[i].(string), length(p.Fields[i+1])
		if of, goes := own[name]; goes {
			with[of] = append(with[of], p.Fields[i:i+2]...)
			continue
		}
		if name == open {
			continue
		}
		if name[0] == 'k' { // the template with its token is next
			size += length(p.Fields[i+3])
			s.room(size)
			s.size -= size
		}
		s.room(length(p.Fields[i+1]))
		s.last.Fields = append(s.last.Fields, p.Fields[i:i+2]...)
	}
	for hashes := p.Hashes; len(hashes) > 0; {
		s.next()
		n := min(workflows.MostSent, len(hashes))
		s.last.Hashes, hashes = hashes[:n:n], hashes[n:]
	}
	s.next()
	for i, j := range p.Jobs {
		if len(s.last.Jobs) == workflows.MostSent {
			s.next()
		}
		s.room(len(j.Payload))
		s.last.Jobs, s.last.Fields = append(s.last.Jobs, j), append(s.last.Fields, with[i]...)
	}
	return s.pieces, !p.Open
}

type splitter struct {
	plan   *workflows.Plan
	pieces []*workflows.Plan
	last   *workflows.Plan
	size   int // of the last
}

func (s *splitter) next() {
	s.last, s.size = &workflows.Plan{ID: s.plan.ID, Name: s.plan.Name}, 0
	s.pieces = append(s.pieces, s.last)
}

// room begins the next piece if the last one has no room for so many bytes.
func (s *splitter) room(bytes int) {
	if s.size > 0 && s.size+bytes > mostOfPiece {
		s.next()
	}
	s.size += bytes + 8
}

// numbered returns the first number that no field of a kind has.
func numbered(fields []any, kind byte) (next int) {
	for i := 0; i < len(fields); i += 2 {
		if name := fields[i].(string); name[0] == kind {
			if n, err := strconv.Atoi(name[1:]); err == nil {
				next = max(next, n+1)
			}
		}
	}
	return next
}

// oneMore is the text of a join with one member more.
func oneMore(join string) string {
	left, rest, _ := strings.Cut(join, " ")
	n, _ := strconv.Atoi(left)
	return strconv.Itoa(n+1) + " " + rest
}

func length(value any) int {
	if v, ok := value.(string); ok {
		return len(v)
	}
	return len(value.([]byte))
}
