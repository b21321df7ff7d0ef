package setting

import "fmt"

// Mistakes collects the mistakes in the options of one call. The zero value has none. An option does
// not know for which class it is: it adds its mistakes here, and the call reports the first of them.
type Mistakes struct {
	First error // nil: there is none

	given []given
}

// given is one option of a call, and which setting it sets.
type given struct {
	what   string
	option any // a string, or a comparable fmt.Stringer
}

// Reset makes m as good as new, and keeps its memory.
func (m *Mistakes) Reset() {
	clear(m.given)
	m.First, m.given = nil, m.given[:0]
}

// Wrong adds a mistake.
func (m *Mistakes) Wrong(format string, args ...any) { m.Add(fmt.Errorf(format, args...)) }

// Add adds a mistake; nil is none.
func (m *Mistakes) Add(err error) {
	if m.First == nil {
		m.First = err
	}
}

// Once adds a mistake if an earlier option of the call has set the same thing. The option is a string, or a comparable
// fmt.Stringer, whose text is made only for a mistake.
func (m *Mistakes) Once(what string, option any) {
	for _, g := range m.given {
		switch {
		case g.what != what:
		case g.option == option:
			m.Wrong("%s is given twice; give it once", option)
		default:
			m.Wrong("%s and %s both say %s; give one of them", g.option, option, what)
		}
	}
	m.Note(what, option)
}

// Note remembers an option that may be given several times, and which setting it sets.
func (m *Mistakes) Note(what string, option any) { m.given = append(m.given, given{what, option}) }

// Take adds the options that an option has of its own, and the mistake in them.
func (m *Mistakes) Take(option string, of Mistakes) {
	m.given = append(m.given, of.given...)
	if of.First != nil {
		m.Wrong("%s: %w", option, of.First)
	}
}

// Given returns all options of the call, each as "which setting: the option".
func (m *Mistakes) Given() (all []string) {
	for _, g := range m.given {
		all = append(all, fmt.Sprintf("%s: %s", g.what, g.option))
	}
	return all
}
