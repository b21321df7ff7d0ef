package workflows

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// What one reading of a Shape takes from Redis at most.
const (
	mostJoins  = 512
	mostShaped = 500     // steps
	mostShape  = 1 << 20 // bytes of their templates
)

// Shape is how the steps of a workflow hang together, as far as Redis keeps it and as far as it was read.
type Shape struct {
	Letters []byte         // at most the first 65,536
	Joins   map[int]Join   // at most the first 512
	Steps   map[int]Shaped // those that were read, handlers too
	More    bool           // there is more of it
}

// Join is a set of members, and the steps that are sent when all have ended.
type Join struct {
	First, Count int  // the steps that it sends; of a graph its joins
	Up           int  // the join around it; -1: none
	Inner        bool // a join in the graph Up
	Graph        bool
}

// Shaped is where a step stands.
type Shaped struct {
	Class, Queue string // "": no template of it is kept
	Joins        []int  // that count it
	Placed       bool   // Joins are known
}

// ReadShape reads the shape of a workflow: 500 steps at most, and of a larger one the first steps that each join sends. A workflow that is
// not there has no letters.
func (s Store) ReadShape(c redis.Conn, id string) (shape Shape, err error) {
	joins := make([]int, mostJoins)
	for n := range joins {
		joins[n] = n
	}
	shape = Shape{Joins: make(map[int]Join), Steps: make(map[int]Shaped)}
	if shape.Letters, err = redis.Bytes(c.Do("GETRANGE", s.LettersKey(id).String(), 0, lettersPage-1)); err != nil {
		return shape, s.about(c, id, err)
	}
	shape.More = len(shape.Letters) == lettersPage
	texts, err := s.stepFields(c, id, "j", joins)
	if err != nil {
		return shape, err
	}
	for n, text := range texts {
		if j, ok := parseJoin(string(text)); ok {
			shape.Joins[n] = j
		}
	}
	_, last := texts[mostJoins-1]
	shape.More = shape.More || last
	for _, j := range shape.Joins {
		if up, ok := shape.Joins[j.Up]; ok && j.Inner {
			up.Graph = true // Redis says so until it ends
			shape.Joins[j.Up] = up
		}
	}
	return shape, s.readShaped(c, id, &shape)
}

// parseJoin reads 'left bad stopped kind first count up letter borne over'.
func parseJoin(text string) (j Join, ok bool) {
	words := strings.Fields(text)
	if len(words) != 10 {
		return j, false
	}
	first, err := strconv.Atoi(words[4])
	count, err2 := strconv.Atoi(words[5])
	j = Join{First: first, Count: count, Up: -1, Inner: words[7] == "+", Graph: words[3] == "g"}
	if words[6] != "-" {
		if j.Up, ok = number(words[6]); !ok {
			return j, false
		}
	}
	return j, err == nil && err2 == nil && first >= 0 && count >= 0
}

func number(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

// chosen are the steps that are read: all, or of each stretch that is sent together the first ones.
func (h *Shape) chosen() (steps []int) {
	var stretches [][]int
	of := h.Senders()
	at := make(map[int]int) // by sender, the stretch
	for n, l := range h.Letters {
		if strings.IndexByte(StepLetters, l) < 0 && l != Armed && l != Called && l != Over {
			continue
		}
		i, known := at[of(n)]
		if !known {
			i = len(stretches)
			at[of(n)] = i
			stretches = append(stretches, nil)
		}
		if len(stretches[i]) == mostShaped {
			h.More = true
			continue
		}
		stretches[i] = append(stretches[i], n)
	}
	for round := 0; len(steps) < mostShaped; round++ {
		some := false
		for _, one := range stretches {
			if round < len(one) && len(steps) < mostShaped {
				steps, some = append(steps, one[round]), true
			}
		}
		if !some {
			break
		}
	}
	all := 0
	for _, one := range stretches {
		all += len(one)
	}
	h.More = h.More || all > len(steps)
	slices.Sort(steps)
	return steps
}

// Senders returns a function that says which join sends a step; -1: it was sent first, or is no step of a join that was read.
func (h *Shape) Senders() func(step int) int {
	var sends []int
	for n, j := range h.Joins {
		if !j.Graph && j.Count > 0 {
			sends = append(sends, n)
		}
	}
	slices.SortFunc(sends, func(a, b int) int { return cmp.Compare(h.Joins[a].First, h.Joins[b].First) })
	return func(step int) int {
		at, there := slices.BinarySearchFunc(sends, step, func(j, step int) int { return cmp.Compare(h.Joins[j].First, step) })
		if !there {
			at--
		}
		if at >= 0 {
			if j := h.Joins[sends[at]]; step < j.First+j.Count {
				return sends[at]
			}
		}
		return -1
	}
}

// readShaped reads the chosen steps: their templates, or what they left when they failed, or where many stand alike.
func (s Store) readShaped(c redis.Conn, id string, shape *Shape) error {
	steps := shape.chosen()
	bytes, together := 0, 10
	for len(steps) > 0 {
		page := steps[:min(together, len(steps))]
		steps = steps[len(page):]
		args := []any{s.WorkflowKey(id).String()}
		for _, n := range page {
			text := strconv.Itoa(n)
			args = append(args, "s"+text, "f"+text, "i"+text)
		}
		values, err := redis.Strings(c.Do("HMGET", args...))
		if err == nil && len(values) != 3*len(page) {
			err = resque.ErrAnswer
		}
		if err != nil {
			return fmt.Errorf("reading workflow %s: %w", id, resque.Explain(err))
		}
		size := 0
		for i, n := range page {
			of := values[3*i : 3*i+3]
			size += len(of[0]) + len(of[1]) + len(of[2])
			if one, ok := shapedOf(of[0], of[1], of[2]); ok {
				shape.Steps[n] = one
			}
		}
		if bytes += size; bytes > mostShape && len(steps) > 0 {
			shape.More = true
			break
		}
		together = min(100, max(1, (mostShape-bytes)/(size/len(page)+1)))
	}
	shape.likeBefore()
	return nil
}

func shapedOf(template, failed, alike string) (one Shaped, ok bool) {
	t, there := parsePlanned(template)
	f, failure := parseFailed(failed)
	if !there && f.again.Payload != nil {
		t, there = f.again, true
	}
	text := ""
	if there {
		one.Queue = t.Queue
		if p, err := payload.Parse(t.Payload); err == nil {
			one.Class = p.Class
		}
		text, _ = PlaceOf(t.Payload)
	}
	if text == "" && failure {
		text = f.place
	}
	if text == "" {
		_, text, _ = strings.Cut(alike, " ")
	}
	if p, ok := ParsePlace(text); ok {
		one.Placed = true
		for word := range strings.SplitSeq(p.Joins, ",") {
			if n, ok := number(word); ok {
				one.Joins = append(one.Joins, n)
			}
		}
	}
	return one, there || one.Placed
}

// likeBefore places steps that keep no template as the step before them that was sent together with them: those of a large group stand alike.
func (h *Shape) likeBefore() {
	of := h.Senders()
	last := make(map[int]Shaped)
	for _, n := range slices.Sorted(maps.Keys(h.Steps)) {
		one := h.Steps[n]
		if one.Placed {
			last[of(n)] = one
			continue
		}
		if before, ok := last[of(n)]; ok {
			one.Joins, one.Placed = before.Joins, true
			h.Steps[n] = one
		}
	}
}
