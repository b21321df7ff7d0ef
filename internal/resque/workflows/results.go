package workflows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Values says which results a step is given: the part *of* of a template, as it also stands in a reference.
//
//	<n>                the result of number n
//	<first>+<count>    so many
//	[<items>]          one list of them, in which a failure is null
//	c[<items>]         one list in which each is {"result":…} or {"error":…}
//	<n>[<items>]       a list that stands for a branch: if r<n> is a failure, that counts in its place; so does <n>c[<items>]
//
// Items have commas between.
type Values struct{ items []item }

type item struct {
	first, count int // numbers; of a list count is 0, and first is the branch that it stands for, -1 if for none
	list         []item
	collects     bool // the list has results and errors
}

func (i *item) isList() bool { return i.count == 0 }

// elements is how many elements the item adds to a list around it.
func (i *item) elements() int { return max(1, i.count) }

// maxNested is how deep lists may lie in each other.
const maxNested = 100

// ParseValues reads which results are meant.
func ParseValues(of string) (v Values, ok bool) {
	p := valuesParser{text: of}
	v.items = p.items(0)
	return v, !p.wrong && p.text == "" && len(v.items) > 0
}

type valuesParser struct {
	text  string
	wrong bool
}

func (p *valuesParser) items(depth int) (all []item) {
	if p.text == "" || p.text[0] == ']' {
		return nil
	}
	for !p.wrong {
		all = append(all, p.item(depth))
		if !p.cut(",") {
			break
		}
	}
	return all
}

func (p *valuesParser) cut(prefix string) (found bool) {
	p.text, found = strings.CutPrefix(p.text, prefix)
	return found
}

func (p *valuesParser) number() int {
	end := 0
	for end < len(p.text) && p.text[end] >= '0' && p.text[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(p.text[:end])
	if p.text = p.text[end:]; err != nil {
		p.wrong = true
	}
	return n
}

func (p *valuesParser) item(depth int) item {
	i := item{first: -1}
	if p.text != "" && p.text[0] >= '0' && p.text[0] <= '9' {
		i.first = p.number()
		if p.cut("+") {
			i.count = p.number()
			p.wrong = p.wrong || i.count == 0
			return i
		}
	}
	i.collects = p.cut("c")
	switch {
	case p.cut("["):
		if p.wrong = p.wrong || depth == maxNested; p.wrong {
			return i
		}
		i.list = p.items(depth + 1)
		p.wrong = p.wrong || !p.cut("]")
	case i.first < 0 || i.collects:
		p.wrong = true
	default:
		i.count = 1
	}
	return i
}

// OneList returns how many elements there are, if all of it is one list; ok is false if it is values side by side.
func (v Values) OneList() (elements int, ok bool) {
	if len(v.items) != 1 || !v.items[0].isList() {
		return 0, false
	}
	for i := range v.items[0].list {
		elements += v.items[0].list[i].elements()
	}
	return elements, true
}

// ErrGone is the error of results that are read of a workflow which was removed.
var ErrGone = errors.New("the workflow is gone, and its results with it; KeepFor keeps it for longer")

// tooLarge is the error of results that take more bytes than their reader can take.
type tooLarge struct{ most int }

func (e tooLarge) Error() string {
	return fmt.Sprintf("the results that the step is given have more than %d bytes; take them as goworker.Results, which reads them one after the other", e.most)
}

// ReadResults returns elements of results that are one list: so many at most, from one on.
func (s Store) ReadResults(c redis.Conn, id string, v Values, from, count int) ([]json.RawMessage, error) {
	total, ok := v.OneList()
	if !ok {
		return nil, fmt.Errorf("these results of workflow %s are no list", id)
	}
	list := v.items[0]
	count = min(count, total-from)
	if count <= 0 {
		return nil, nil
	}
	part := item{first: -1, collects: list.collects, list: pick(list.list, from, count)}
	r := reader{store: s, conn: c, id: id, most: -1}
	if err := r.want([]item{part}); err != nil {
		return nil, err
	}
	all := make([]json.RawMessage, 0, count)
	err := r.elements(&part, func(element []byte) { all = append(all, bytes.Clone(element)) })
	return all, err
}

// pick returns the items that make count elements of a list, from one on.
func pick(list []item, from, count int) (part []item) {
	for _, i := range list {
		n := i.elements()
		if from >= n {
			from -= n
			continue
		}
		if !i.isList() {
			i.first, i.count = i.first+from, min(n-from, count)
			n = from + i.count
		}
		part = append(part, i)
		if count -= n - from; count <= 0 {
			break
		}
		from = 0
	}
	return part
}

// ReadValues returns results as the arguments of a step: each value, or each list. It is an error if they take more bytes.
func (s Store) ReadValues(c redis.Conn, id string, v Values, most int) (all []json.RawMessage, err error) {
	r := reader{store: s, conn: c, id: id, most: most}
	if err := r.want(v.items); err != nil {
		return nil, err
	}
	for i := range v.items {
		it := &v.items[i]
		if it.isList() {
			text, err := r.list(nil, it, false)
			if err != nil {
				return nil, err
			}
			all = append(all, text)
			continue
		}
		for range it.count {
			value, err := r.next()
			if err != nil {
				return nil, err
			}
			switch {
			case value == nil: // it adds nothing
			case value[0] == '+':
				var several []json.RawMessage
				if err := json.Unmarshal(value[1:], &several); err != nil {
					return nil, fmt.Errorf("a result of workflow %s is no JSON: %w", id, err)
				}
				all = append(all, several...)
			default:
				all = append(all, append(json.RawMessage(nil), appendResult(nil, value, false)...))
			}
		}
	}
	return all, nil
}

// pageOf is how many results one command reads at most, and pageBytes about how many bytes.
const (
	pageOf    = 512
	pageBytes = 4 << 20
)

// reader reads the results of items in their order, in pages.
type reader struct {
	store Store
	conn  redis.Conn
	id    string
	most  int // bytes; -1: any number

	numbers []span // that are to be read
	page    [][]byte
	bytes   int // of all pages
	count   int // of results that were read
}

type span struct{ first, count int }

// want adds what the items need. They are read by next in the same order.
func (r *reader) want(items []item) error {
	for i := range items {
		switch it := &items[i]; {
		case !it.isList():
			r.numbers = append(r.numbers, span{it.first, it.count})
			continue
		case it.first >= 0:
			r.numbers = append(r.numbers, span{it.first, 1})
		}
		if err := r.want(items[i].list); err != nil {
			return err
		}
	}
	return nil
}

// next returns the next result, nil if there is none.
func (r *reader) next() ([]byte, error) {
	if len(r.page) == 0 {
		if err := r.read(); err != nil {
			return nil, err
		}
	}
	value := r.page[0]
	r.page = r.page[1:]
	return value, nil
}

// read reads a page. The first ones say how large the results are.
func (r *reader) read() error {
	size := pageOf / 8
	if r.count > 0 {
		size = max(1, min(pageOf, pageBytes/(r.bytes/r.count+1)))
	}
	args := append(make([]any, 0, size+2), r.store.WorkflowKey(r.id).String(), "state")
	for size > 0 && len(r.numbers) > 0 {
		run := &r.numbers[0]
		args = append(args, "r"+strconv.Itoa(run.first))
		run.first++
		size--
		if run.count--; run.count == 0 {
			r.numbers = r.numbers[1:]
		}
	}
	values, err := redis.ByteSlices(r.conn.Do("HMGET", args...))
	switch {
	case err != nil:
		return fmt.Errorf("reading results of workflow %s: %w", r.id, resque.Explain(err))
	case len(values) != len(args)-1 || len(values) == 1:
		return resque.ErrAnswer
	case values[0] == nil:
		return fmt.Errorf("reading results of workflow %s: %w", r.id, ErrGone)
	}
	r.page = values[1:]
	for i, value := range r.page {
		if len(value) == 0 {
			r.page[i] = nil
		}
		r.bytes += len(value)
	}
	r.count += len(r.page)
	if r.most >= 0 && r.bytes > r.most {
		return tooLarge{r.most}
	}
	return nil
}

// elements calls f with each element of a list. The bytes are valid during the call.
func (r *reader) elements(list *item, f func([]byte)) error {
	var text []byte
	for i := range list.list {
		it := &list.list[i]
		if it.isList() {
			var err error
			if text, err = r.list(text[:0], it, list.collects); err != nil {
				return err
			}
			f(text)
			continue
		}
		for range it.count {
			value, err := r.next()
			if err != nil {
				return err
			}
			text = appendResult(text[:0], value, list.collects)
			f(text)
		}
	}
	return nil
}

// list appends a list, or the failure of the branch for which it stands. collected says that it is an element of a list
// of results and errors.
func (r *reader) list(dst []byte, list *item, collected bool) ([]byte, error) {
	failed := false
	if list.first >= 0 {
		value, err := r.next()
		if err != nil {
			return nil, err
		}
		if failed = value != nil && value[0] == '!'; failed {
			dst = appendResult(dst, value, collected)
		}
	}
	end := len(dst)
	if collected && !failed {
		dst = append(dst, `{"result":`...)
	}
	dst = append(dst, '[')
	first := true
	err := r.elements(list, func(element []byte) {
		if !first {
			dst = append(dst, ',')
		}
		first, dst = false, append(dst, element...)
	})
	switch {
	case err != nil:
		return nil, err
	case failed: // its results were read because they stand between others
		return dst[:end], nil
	}
	dst = append(dst, ']')
	if collected {
		dst = append(dst, '}')
	}
	return dst, nil
}

// appendResult appends a kept result as an element of a list. A list of several results is one list there.
func appendResult(dst, value []byte, collected bool) []byte {
	name := `{"result":`
	switch {
	case value == nil:
		value = []byte("null")
	case value[0] == '+':
		value = value[1:]
	case value[0] == '!' && collected:
		name, value = `{"error":`, value[1:]
	case value[0] == '!':
		value = []byte("null")
	}
	if !collected {
		return append(dst, value...)
	}
	return append(append(append(dst, name...), value...), '}')
}

// ReadNamed returns the result of the step with a name: nil if it has none. The error says why it cannot be read.
func (s Store) ReadNamed(c redis.Conn, id, name string) (json.RawMessage, error) {
	key := s.WorkflowKey(id).String()
	found, err := redis.Strings(c.Do("HMGET", key, "state", "n:"+name))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading workflow %s: %w", id, resque.Explain(err))
	case len(found) != 2:
		return nil, resque.ErrAnswer
	case found[0] == "":
		return nil, fmt.Errorf("reading the result of step %q of workflow %s: %w", name, id, ErrGone)
	}
	step, err := strconv.Atoi(found[1])
	if err != nil {
		return nil, fmt.Errorf("workflow %s has no step named %q; name it with Named", id, name)
	}
	b := resque.Batch{Conn: c}
	b.Send("GETRANGE", s.LettersKey(id).String(), step, step)
	b.Send("HGET", key, "r"+found[1])
	answers, err := b.Receive()
	if err != nil {
		return nil, fmt.Errorf("reading workflow %s: %w", id, resque.Explain(err))
	}
	letter, err := redis.String(resque.Answer(answers[0]))
	value, other := redis.Bytes(resque.Answer(answers[1]))
	if err == nil && !errors.Is(other, redis.ErrNil) {
		err = other
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading workflow %s: %w", id, resque.Explain(err))
	case letter != string(Done):
		return nil, fmt.Errorf("step %q of workflow %s has no result: it is not done; put it before this step", name, id)
	case len(value) > 0 && value[0] == '+':
		value = value[1:]
	}
	return value, nil
}
