package document

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/goworker/goworker/internal/argv"
)

// Checker is a value that says what is wrong with itself once it is decoded.
type Checker interface{ Check() error }

// Decode decodes the node into what v points to, as the names of its fields say: see NameOf. What the node does not say stays as
// it is. Each mistake is added to the document. what names the value in mistakes, and is "" for the fields of a section.
func (n Node) Decode(v any, what string) {
	n.decode(reflect.ValueOf(v).Elem(), what)
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	anyType      = reflect.TypeFor[any]()
)

func (n Node) decode(to reflect.Value, what string) {
	n, ok := n.enter()
	if !ok {
		return
	}
	if to.CanAddr() {
		if n.decodeItself(to, what) {
			return
		}
	}
	if to.Kind() == reflect.Pointer {
		if n.IsNull() {
			to.SetZero()
			return
		}
		made := reflect.New(to.Type().Elem())
		if !to.IsNil() {
			made.Elem().Set(to.Elem())
		}
		n.decode(made.Elem(), what)
		to.Set(made)
		return
	}
	if n.IsNull() && to.Kind() == reflect.Struct {
		return // it says nothing
	}
	if n.IsNull() && to.Kind() != reflect.Interface {
		n.Wrong("%s has no value; give it one, or leave it out", or(what, "this"))
		return
	}
	switch to.Kind() {
	case reflect.Struct:
		n.decodeStruct(to, what)
	case reflect.Map:
		n.decodeMap(to, what)
	case reflect.Slice, reflect.Array:
		n.decodeList(to, what)
	case reflect.Interface:
		if to.Type() != anyType {
			n.Wrong("%s cannot be read from a file: its type is %s", or(what, "this"), to.Type())
			return
		}
		var value any
		if err := n.resolved().Decode(&value); err != nil {
			n.Wrong("%s: %s", or(what, "this"), plain(err))
			return
		}
		if value != nil {
			to.Set(reflect.ValueOf(value))
		}
	default:
		n.decodeScalar(to, what)
	}
	n.check(to, what)
}

// decodeItself has a value decode itself that knows how.
func (n Node) decodeItself(to reflect.Value, what string) bool {
	switch v := to.Addr().Interface().(type) {
	case interface{ FromFile(Node) error }:
		if err := v.FromFile(n); err != nil {
			n.Wrong("%s: %s", or(what, "this"), plain(err))
		}
		return true
	case yaml.Unmarshaler:
		if err := v.UnmarshalYAML(n.resolved()); err != nil {
			n.Wrong("%s: %s", or(what, "this"), plain(err))
		}
	case encoding.TextUnmarshaler:
		text, ok := n.Text(or(what, "this"))
		if !ok {
			return true
		}
		if err := v.UnmarshalText([]byte(text)); err != nil {
			n.Wrong("%s is %q: %s", or(what, "this"), text, plain(err))
			return true
		}
	default:
		return false
	}
	n.check(to, what)
	return true
}

// check asks a value what is wrong with it, unless it has mistakes already.
func (n Node) check(to reflect.Value, what string) {
	if !to.CanAddr() || to.Kind() == reflect.Pointer {
		return
	}
	if c, ok := to.Addr().Interface().(Checker); ok && !n.of.Mistakes.within(n) {
		if err := c.Check(); err != nil {
			if what != "" {
				what += ": "
			}
			n.Wrong("%s%s", what, plain(err))
		}
	}
}

// within reports whether a mistake is in a node.
func (m *Mistakes) within(n Node) bool {
	first, last := n.node.Line, lastLine(n.node, 0)
	for _, of := range m.all {
		if of.File == n.of.Name && of.Line >= first && of.Line <= last {
			return true
		}
	}
	return false
}

func lastLine(n *yaml.Node, depth int) int {
	last := n.Line
	if depth < mostDepth {
		for _, c := range n.Content {
			last = max(last, lastLine(c, depth+1))
		}
	}
	return last
}

func (n Node) decodeStruct(to reflect.Value, what string) {
	fields := make(map[string]reflect.Value)
	var known []string
	collect(to, fields, &known)
	for _, p := range n.Pairs(or(what, "this")) {
		field, ok := fields[p.Name()]
		if !ok {
			p.Key.Unknown("key", p.Name(), known)
			continue
		}
		p.Value.decode(field, p.Name())
	}
}

// collect finds the fields of a struct by their names in a file.
func collect(of reflect.Value, fields map[string]reflect.Value, known *[]string) {
	for i := range of.NumField() {
		f := of.Type().Field(i)
		name := NameOf(f)
		switch {
		case name == "-":
		case f.Anonymous && f.Type.Kind() == reflect.Struct && f.Tag.Get("config") == "" && f.Tag.Get("yaml") == "":
			collect(of.Field(i), fields, known)
		case f.IsExported():
			if _, taken := fields[name]; !taken {
				fields[name] = of.Field(i)
				*known = append(*known, name)
			}
		}
	}
}

// NameOf returns the name of a field in a file: that of its tag config, otherwise of its tag yaml, otherwise its own in small
// letters with hyphens, as in max-age for MaxAge.
func NameOf(f reflect.StructField) string {
	for _, tag := range []string{"config", "yaml"} {
		if name, _, _ := strings.Cut(f.Tag.Get(tag), ","); name != "" {
			return name
		}
	}
	return Hyphened(f.Name)
}

// Hyphened writes a name of Go in small letters with hyphens: MaxAge is max-age, APIKey is api-key, URL is url.
func Hyphened(name string) string {
	var b strings.Builder
	letters := []rune(name)
	for i, r := range letters {
		if unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1])) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func (n Node) decodeMap(to reflect.Value, what string) {
	made := reflect.MakeMap(to.Type())
	for _, p := range n.Pairs(or(what, "this")) {
		key := reflect.New(to.Type().Key()).Elem()
		p.Key.decode(key, "a name in "+or(what, "this"))
		value := reflect.New(to.Type().Elem()).Elem()
		p.Value.decode(value, p.Name())
		made.SetMapIndex(key, value)
	}
	to.Set(made)
}

func (n Node) decodeList(to reflect.Value, what string) {
	if n.node.Kind != yaml.SequenceNode {
		n.Wrong("%s is %s; it takes a list, as in [a, b]", or(what, "this"), n.shape())
		return
	}
	items := n.node.Content
	if to.Kind() == reflect.Array {
		if len(items) != to.Len() {
			n.Wrong("%s has %d values; it takes %d", or(what, "this"), len(items), to.Len())
			return
		}
		for i, item := range items {
			n.child(item).decode(to.Index(i), what)
		}
		return
	}
	made := reflect.MakeSlice(to.Type(), len(items), len(items))
	for i, item := range items {
		n.child(item).decode(made.Index(i), what)
	}
	to.Set(made)
}

func (n Node) decodeScalar(to reflect.Value, what string) {
	text, ok := n.Text(or(what, "this"))
	if !ok {
		return
	}
	wrong := func(takes string) { n.Wrong("%s is %q: it must be %s", or(what, "this"), text, takes) }
	kind := to.Kind()
	switch {
	case to.Type() == durationType:
		d, err := argv.ParseSeconds(text)
		if err != nil {
			n.Wrong("%s is %q: %s", or(what, "this"), text, plain(err))
			return
		}
		to.SetInt(int64(d))
	case kind == reflect.String:
		to.SetString(text)
	case kind == reflect.Bool:
		if b, err := strconv.ParseBool(text); err == nil {
			to.SetBool(b)
		} else {
			wrong("true or false")
		}
	case to.CanInt():
		i, err := strconv.ParseInt(text, 0, to.Type().Bits())
		switch {
		case errors.Is(err, strconv.ErrRange):
			most := int64(math.MaxInt64) >> (64 - to.Type().Bits())
			wrong(fmt.Sprintf("a whole number from %d to %d", -most-1, most))
		case err != nil:
			wrong("a whole number")
		default:
			to.SetInt(i)
		}
	case to.CanUint():
		u, err := strconv.ParseUint(text, 0, to.Type().Bits())
		switch {
		case errors.Is(err, strconv.ErrRange):
			wrong(fmt.Sprintf("a whole number of at most %d", uint64(math.MaxUint64)>>(64-to.Type().Bits())))
		case err != nil:
			wrong("a whole number of at least 0")
		default:
			to.SetUint(u)
		}
	case to.CanFloat():
		f, err := strconv.ParseFloat(text, to.Type().Bits())
		if err != nil || f != f {
			wrong("a number")
			return
		}
		to.SetFloat(f)
	default:
		n.Wrong("%s cannot be read from a file: its type is %s", or(what, "this"), to.Type())
	}
}

// plain is an error of a decoder as the end of a sentence.
func plain(err error) string {
	var several *yaml.TypeError
	if errors.As(err, &several) && len(several.Errors) > 0 {
		text := several.Errors[0]
		if m := lineOf.FindString(text); m != "" {
			text = text[len(m):]
		}
		return text
	}
	return strings.TrimPrefix(err.Error(), "yaml: ")
}

func or(what, other string) string {
	if what == "" {
		return other
	}
	return what
}
