// Package document reads YAML files that people write. It finds all mistakes in one pass, and says of each in which line and
// column it is.
package document

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goworker/goworker/internal/pattern"
)

// The bounds of a document. Aliases let a few lines stand for any number of values.
const (
	MostBytes = 4 << 20
	mostNodes = 200_000
	mostDepth = 100
)

// Mistake is one mistake in a file.
type Mistake struct {
	File   string `json:"file"`
	Line   int    `json:"line"` // 0: it is in no line
	Column int    `json:"column"`
	Text   string `json:"text"`
}

// Place is where the mistake is, as compilers say it.
func (m Mistake) Place() string { return place(m.File, m.Line, m.Column) }

func (m Mistake) String() string {
	if m.File == "" {
		return m.Text
	}
	return m.Place() + ": " + m.Text
}

// placed is a mistake as a text.
var placed = pattern.New(`^(\d+):(\d+): `)

// ParseMistake reads a mistake that was printed. One without the file and its place is a mistake of the whole file.
func ParseMistake(file, text string) Mistake {
	m := Mistake{File: file, Text: text}
	if rest, ok := strings.CutPrefix(text, file+":"); ok {
		if at := placed.FindStringSubmatch(rest); at != nil {
			m.Line, _ = strconv.Atoi(at[1])
			m.Column, _ = strconv.Atoi(at[2])
			m.Text = rest[len(at[0]):]
		}
	}
	return m
}

func place(file string, line, column int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d:%d", file, line, column)
}

// Mistakes are all mistakes in one or more files.
type Mistakes struct{ all []Mistake }

// Err returns nil if there are none, and otherwise an *Error with all of them in the order of their lines.
func (m *Mistakes) Err() error {
	if len(m.all) == 0 {
		return nil
	}
	sorted := slices.Clone(m.all)
	slices.SortStableFunc(sorted, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Error{slices.Compact(sorted)}
}

// Any reports whether there are mistakes.
func (m *Mistakes) Any() bool { return len(m.all) > 0 }

// Add adds a mistake.
func (m *Mistakes) Add(of Mistake) { m.all = append(m.all, of) }

// Error is an error of a file: each of its lines is one mistake.
type Error struct{ Mistakes []Mistake }

func (e *Error) Error() string {
	lines := make([]string, len(e.Mistakes))
	for i, m := range e.Mistakes {
		lines[i] = m.String()
	}
	return strings.Join(lines, "\n")
}

// Document is a parsed file.
type Document struct {
	Name     string // of the file, as it was given
	Mistakes *Mistakes

	top  *yaml.Node // nil: the file is empty
	seen int        // how many nodes were walked
}

// Parse parses a file. A text that is no YAML is one mistake; what comes before it is not looked at.
func Parse(name string, text []byte) *Document {
	d := &Document{Name: name, Mistakes: new(Mistakes)}
	if len(text) > MostBytes {
		d.wrong(0, 0, "the file has %d bytes, and at most %d are read", len(text), MostBytes)
		return d
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var top, more yaml.Node
	switch err := decoder.Decode(&top); {
	case errors.Is(err, io.EOF):
		return d
	case err != nil:
		d.syntax(err)
		return d
	}
	switch err := decoder.Decode(&more); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.syntax(err)
		return d
	default:
		d.wrong(more.Line, more.Column, "a second document begins here; write all into one, without ---")
	}
	if len(top.Content) > 0 && (top.Content[0].Tag != "!!null" || top.Content[0].Value != "") {
		d.top = top.Content[0]
	}
	return d
}

// lineOf is where the parser says that its error is.
var lineOf = pattern.New(`^(?:yaml: )?line (\d+): `)

// syntax adds an error of the parser.
func (d *Document) syntax(err error) {
	text, line := err.Error(), 1
	if m := lineOf.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	d.wrong(max(line, 1), 1, "this is no YAML: %s", strings.TrimPrefix(text, "yaml: "))
}

func (d *Document) wrong(line, column int, format string, args ...any) {
	d.Mistakes.Add(Mistake{File: d.Name, Line: line, Column: column, Text: fmt.Sprintf(format, args...)})
}

// Err returns the mistakes so far.
func (d *Document) Err() error { return d.Mistakes.Err() }

// Top returns the pairs of the file.
func (d *Document) Top(what string) []Pair {
	if d.top == nil {
		return nil
	}
	return Node{d, d.top, 0}.Pairs(what)
}

// Node is a value in a document.
type Node struct {
	of    *Document
	node  *yaml.Node
	depth int
}

// Pair is a name with a value.
type Pair struct{ Key, Value Node }

// Name is the name of the pair.
func (p Pair) Name() string { return p.Key.node.Value }

// IsZero reports whether there is no node.
func (n Node) IsZero() bool { return n.node == nil }

// Place is where the node is: file, line and column.
func (n Node) Place() string { return place(n.of.Name, n.node.Line, n.node.Column) }

// Line is the file and the line of the node.
func (n Node) Line() string { return n.of.Name + ":" + strconv.Itoa(n.node.Line) }

// File returns a path in the file as a program finds it: relative to the file, as people read it.
func (n Node) File(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(n.of.Name), path)
}

// Wrong adds a mistake at the node.
func (n Node) Wrong(format string, args ...any) {
	n.of.wrong(n.node.Line, n.node.Column, format, args...)
}

// enter follows an alias, and counts what was walked. It reports false where the document is too large.
func (n Node) enter() (Node, bool) {
	for hops := 0; n.node.Kind == yaml.AliasNode && n.node.Alias != nil && hops < mostDepth; hops++ {
		n.node = n.node.Alias
	}
	n.of.seen++
	switch {
	case n.depth > mostDepth:
		n.Wrong("the values are nested more than %d deep", mostDepth)
		return n, false
	case n.of.seen == mostNodes+1:
		n.Wrong("the file stands for more than %d values; use fewer aliases", mostNodes)
		return n, false
	}
	return n, n.of.seen <= mostNodes
}

func (n Node) child(of *yaml.Node) Node { return Node{n.of, of, n.depth + 1} }

// Pairs returns the names and values of a node that must have such. A name that stands there twice is a mistake, and its first
// value counts. what names the node in mistakes.
func (n Node) Pairs(what string) (pairs []Pair) {
	n, ok := n.enter()
	if !ok {
		return nil
	}
	if n.node.Kind != yaml.MappingNode {
		n.Wrong("%s is %s; write names with values below it, each as name: value", what, n.shape())
		return nil
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.node.Content); i += 2 {
		key, value := n.child(n.node.Content[i]), n.child(n.node.Content[i+1])
		name := key.node.Value
		switch {
		case key.node.Kind != yaml.ScalarNode || name == "":
			key.Wrong("a name in %s is no text; write name: value", what)
			continue
		case key.node.Tag == "!!merge":
			key.Wrong("<< is not supported; write the values out, or give the whole value by an alias")
			continue
		}
		if line, twice := lines[name]; twice {
			key.Wrong("%s is set in line %d already; leave one of them out", name, line)
			continue
		}
		lines[name] = key.node.Line
		pairs = append(pairs, Pair{key, value})
	}
	return pairs
}

// IsMap reports whether the node has names with values.
func (n Node) IsMap() bool { return n.resolved().Kind == yaml.MappingNode }

// IsList reports whether the node is a list.
func (n Node) IsList() bool { return n.resolved().Kind == yaml.SequenceNode }

// IsNull reports whether the node has no value.
func (n Node) IsNull() bool {
	r := n.resolved()
	return r.Kind == yaml.ScalarNode && r.Tag == "!!null"
}

func (n Node) resolved() *yaml.Node {
	node := n.node
	for hops := 0; node.Kind == yaml.AliasNode && node.Alias != nil && hops < mostDepth; hops++ {
		node = node.Alias
	}
	return node
}

// Items returns the values of a list; one value alone is a list of one.
func (n Node) Items() (items []Node) {
	n, ok := n.enter()
	if !ok || n.IsNull() {
		return nil
	}
	if n.node.Kind != yaml.SequenceNode {
		return []Node{n}
	}
	for _, item := range n.node.Content {
		items = append(items, n.child(item))
	}
	return items
}

// Text returns the text of one value, as it was written. Anything else is a mistake, which what names.
func (n Node) Text(what string) (text string, ok bool) {
	n, ok = n.enter()
	switch {
	case !ok:
		return "", false
	case n.node.Kind != yaml.ScalarNode:
		n.Wrong("%s is %s; it takes one value", what, n.shape())
		return "", false
	case n.IsNull():
		n.Wrong("%s has no value; give it one, or leave it out", what)
		return "", false
	}
	return n.node.Value, true
}

// shape says what a node is.
func (n Node) shape() string {
	switch n.resolved().Kind {
	case yaml.MappingNode:
		return "names with values"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.IsNull() {
		return "empty"
	}
	return "one value"
}

// Unknown adds the mistake that a name is none of those that are known.
func (n Node) Unknown(what, name string, known []string) {
	text := fmt.Sprintf("unknown %s %s", what, quoted(name))
	if like := Nearest(name, known); like != "" {
		text += "; did you mean " + like + "?"
	} else if len(known) > 0 && len(known) <= 12 {
		text += "; there are " + strings.Join(known, ", ")
	}
	n.Wrong("%s", text)
}

// quoted quotes a name that is not plain.
func quoted(name string) string {
	if quoted := strconv.Quote(name); len(quoted) != len(name)+2 || len(name) > 80 || strings.ContainsAny(name, " ") {
		if len(name) > 80 {
			return strconv.Quote(name[:80]) + "…"
		}
		return quoted
	}
	return name
}

// Nearest returns the word that a mistyped one is most like; "": none is like it.
func Nearest(word string, words []string) (nearest string) {
	if len(word) > 64 {
		return ""
	}
	best := 1 + max(1, len(word)/3)
	plain := func(s string) string { return strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(s)) }
	for _, w := range words {
		if d := distance(plain(word), plain(w)); d < best {
			best, nearest = d, w
		}
	}
	return nearest
}

// distance counts the letters that are to be added, removed, replaced or swapped with their neighbour.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			replace := rows[i-1][j-1]
			if x[i-1] != y[j-1] {
				replace++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replace)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
