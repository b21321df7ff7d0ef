// Package mask replaces the secrets in jobs, errors and results before the dashboard shows them.
//
// There are four rules: the names of keys, the forms of values, the paths that the program gives for a class, and a
// function of the program. A value that a rule masks in a job's arguments is masked wherever it stands in that job and in
// its error, backtrace, result and log lines. Keys and structure stay visible.
package mask

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/goworker/goworker/internal/payload"
)

// Mark stands for a masked value, or for the masked part of a text. In JSON it is a string.
const Mark = "••••••"

// quotedMark is the Mark in JSON.
const quotedMark = `"` + Mark + `"`

// Level is how much is masked.
type Level int

const (
	Mask Level = iota // what the rules name
	Hide              // all arguments, metadata, results and progress. In other texts, the rules and all values of the job's arguments
	Show              // nothing
)

// String returns the level as configuration writes it: mask, hide or show.
func (l Level) String() string {
	switch l {
	case Mask:
		return "mask"
	case Hide:
		return "hide"
	case Show:
		return "show"
	}
	return "unknown"
}

// Rules say what is masked beside the built-in names and forms. The zero value is good for use.
type Rules struct {
	Level Level

	// Args are paths into the arguments of a class: "0.card" is the key card of the first argument. A * is any one key or
	// index: "1.items.*.cvv". A key with a dot in it stands in double quotes. All below a path is masked. The class of an
	// ActiveJob is its own, and paths begin at its own arguments, in the form in which Rails writes them.
	Args map[string][]string

	// Func reports whether a value is masked. It gets the class, "" outside of a job; the path, which begins with the
	// index of the argument, or with the name of another field of the payload; and the value: a string without its quotes, or
	// the JSON of a number, true, false or null. The path is valid during the call only. It is called by many goroutines at
	// once, and several times for a value. nil: it masks nothing.
	Func func(class string, path []string, value string) bool
}

// Masker masks. It does not change, and is safe for concurrent use.
type Masker struct {
	level Level
	paths map[string]*node
	also  func(class string, path []string, value string) bool
}

// Shows reports whether nothing is masked.
func (m *Masker) Shows() bool { return m.level == Show }

// maxDepth is how deep JSON may be nested. Deeper JSON counts as text.
const maxDepth = 10_000

// New returns a Masker. It panics if a path of the rules has no part, or a quote that does not end.
func New(r Rules) *Masker {
	m := &Masker{level: r.Level, also: r.Func, paths: make(map[string]*node, len(r.Args))}
	for class, paths := range r.Args {
		root := new(node)
		for _, path := range paths {
			parts, ok := splitPath(path)
			if !ok {
				panic(fmt.Sprintf("goworker: %q is no path of masked arguments; write the number of the argument and the keys: 0.card", path))
			}
			root.add(parts)
		}
		m.paths[class] = root
	}
	return m
}

// node is a place in the paths of a class.
type node struct {
	keys map[string]*node
	any  *node
	end  bool // all below is masked
}

func (n *node) add(parts []string) {
	for _, part := range parts {
		if part == "*" {
			if n.any == nil {
				n.any = new(node)
			}
			n = n.any
			continue
		}
		if n.keys == nil {
			n.keys = make(map[string]*node)
		}
		if n.keys[part] == nil {
			n.keys[part] = new(node)
		}
		n = n.keys[part]
	}
	n.end = true
}

// splitPath divides a path at its dots.
func splitPath(path string) (parts []string, ok bool) {
	for {
		part := ""
		if rest, quoted := strings.CutPrefix(path, `"`); quoted {
			if part, path, ok = strings.Cut(rest, `"`); !ok || path != "" && path[0] != '.' {
				return nil, false
			}
		} else {
			part, path = path, ""
			if at := strings.IndexByte(part, '.'); at >= 0 {
				part, path = part[:at], part[at:]
			}
		}
		if part == "" {
			return nil, false
		}
		if parts = append(parts, part); path == "" {
			return parts, true
		}
		path = path[1:]
	}
}

// Args returns the arguments of a class with what is masked replaced. What is not masked keeps its bytes.
func (m *Masker) Args(class string, args []json.RawMessage) []json.RawMessage {
	if m.level == Show || args == nil {
		return args
	}
	got := new(values)
	masked := m.args(class, args, got, nil)
	if known := got.secrets(m); known.some() && m.level == Mask {
		masked = m.args(class, args, nil, known)
	}
	return masked
}

func (m *Masker) args(class string, args []json.RawMessage, got *values, known *Secrets) []json.RawMessage {
	masked := make([]json.RawMessage, len(args))
	list := m.scopeOf(class, args)
	for n, arg := range args {
		w := &walker{m: m, class: class, got: got, known: known}
		if m.also != nil {
			w.path = []string{strconv.Itoa(n)}
		}
		masked[n] = m.walked(w, arg, w.element(list, n))
	}
	return masked
}

// JSON masks a result, a progress or any other JSON that belongs to no class. What is not JSON is masked as Text does.
func (m *Masker) JSON(raw json.RawMessage) json.RawMessage {
	return m.With(nil).JSON(raw)
}

// Meta masks the metadata of a job. The paths of Rules.Args do not concern it.
func (m *Masker) Meta(meta map[string]string) map[string]string {
	if m.level == Show || meta == nil {
		return meta
	}
	masked := make(map[string]string, len(meta))
	for key, value := range meta {
		switch {
		case m.level == Hide, secretKey([]byte(key)), m.also != nil && m.also("", []string{metaField, key}, value):
			masked[key] = Mark
		default:
			masked[key] = m.Text(value)
		}
	}
	return masked
}

// Text masks an error, a log line or any other text: values that look like secrets, and what stands behind a name that
// says secret, as in password=x, "token": "x" and Authorization: Basic x.
func (m *Masker) Text(text string) string {
	if m.level == Show {
		return text
	}
	return masked(text, spansOf([]byte(text)))
}

// walked returns what a walker makes of JSON, or of text that is not.
func (m *Masker) walked(w *walker, raw []byte, from scope) json.RawMessage {
	if !payload.WellFormed(raw, maxDepth) {
		return w.broken(raw)
	}
	w.src = raw
	w.space()
	w.value(from)
	return w.result()
}
