package config

import (
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/goworker/goworker/internal/argv"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/document"
)

// Value is a section that may change while the program works. The zero value is ready for use, and it is safe for concurrent use.
//
//	var billing config.Value[Billing]
//	config.Section("billing", &billing)
//	…
//	rate := billing.Get().Rate // in a handler
type Value[T any] struct {
	// Default is the value where the file says nothing. It is set before Section is called.
	Default T

	// Changed is called after a reload that has changed the value, in the goroutine of the reload; nil: nothing is called. It is set
	// before Section is called.
	Changed func(was, is T)

	now atomic.Pointer[T]
}

// Get returns the present value. What it refers to, such as a map, is not changed later and must not be changed.
func (v *Value[T]) Get() T {
	if now := v.now.Load(); now != nil {
		return *now
	}
	return v.Default
}

// section makes Value a live section.
func (v *Value[T]) section() (start any, store func(fresh any, runs bool)) {
	return &v.Default, func(fresh any, runs bool) {
		was, is := v.Get(), fresh.(*T)
		v.now.Store(is)
		if runs && v.Changed != nil {
			v.Changed(was, *is)
		}
	}
}

// claim is a section that the program has claimed.
type claim struct {
	name  string
	start reflect.Value // what the value is where the file says nothing; what it refers to is not changed
	store func(fresh any, runs bool)
	live  bool

	now reflect.Value // a pointer to what holds; not valid before the first commit. Reloads are one after the other
}

func newClaim(name string, v any) *claim {
	if of, ok := v.(interface {
		section() (any, func(any, bool))
	}); ok {
		start, store := of.section()
		return &claim{name: name, start: reflect.ValueOf(start).Elem(), store: store, live: true}
	}
	to := reflect.ValueOf(v)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		panic(fmt.Sprintf("config: Section(%q): %T is no pointer; give the address of a variable", name, v))
	}
	start := reflect.New(to.Elem().Type()).Elem()
	start.Set(to.Elem())
	return &claim{name: name, start: start, store: func(fresh any, _ bool) { to.Elem().Set(reflect.ValueOf(fresh).Elem()) }}
}

// decode decodes the section and returns a pointer to the value; a zero node stands for a section that the file lacks.
func (c *claim) decode(n document.Node) reflect.Value {
	fresh := reflect.New(c.start.Type())
	fresh.Elem().Set(c.start)
	if !n.IsZero() && !n.IsNull() {
		n.Decode(fresh.Interface(), c.name)
	}
	return fresh
}

// commit has what was decoded hold from now on. restart reports that it has changed and holds after a restart only.
func (c *claim) commit(fresh reflect.Value, runs bool) (changed, restart bool) {
	changed = c.now.IsValid() && !reflect.DeepEqual(c.now.Interface(), fresh.Interface())
	if runs && !c.live {
		return false, changed
	}
	if !runs || changed {
		c.now = fresh
		c.store(fresh.Interface(), runs && changed)
	}
	return changed, false
}

// Size is a number of bytes, written as in 512k or 64MiB.
type Size int

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := argv.ParseSize(string(text))
	*s = Size(n)
	return err
}

// String writes the size as a file has it.
func (s Size) String() string { return argv.FormatSize(int(s)) }

// Secret is a text that is not printed. In a file it is the text itself, or {file: PATH} with the file whose first line it is; a
// relative path is beside the configuration file.
type Secret struct{ text string }

// NewSecret returns a secret of a text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text.
func (s Secret) Reveal() string { return s.text }

// Format prints stars, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.shown()) }

// shown is what is shown of the secret.
func (s Secret) shown() string {
	if s.text == "" {
		return ""
	}
	return "***"
}

// MarshalText hides the secret in JSON and in logs too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.shown()), nil }

// FromFile reads the secret from a configuration file.
func (s *Secret) FromFile(n document.Node) error {
	if !n.IsMap() {
		s.text, _ = n.Text("a secret")
		return nil
	}
	for _, p := range n.Pairs("a secret") {
		if p.Name() != "file" {
			p.Key.Unknown("key", p.Name(), []string{"file"})
			continue
		}
		path, ok := p.Value.Text("file")
		if !ok {
			return nil
		}
		text, err := conn.ReadSecret("secret", p.Value.File(path))
		if err != nil {
			p.Value.Wrong("%s", err)
		}
		s.text = text
	}
	return nil
}
