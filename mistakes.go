package goworker

import "fmt"

// mistakes is what is wrong with the options of one call. The zero value has none.
// An option does not know the class it is for, so it leaves its mistakes here, and the
// call reports the first of them.
type mistakes struct {
	first error
	said  []saying
}

// saying is something that one option of a call says.
type saying struct{ what, option string }

// wrong adds a mistake.
func (m *mistakes) wrong(format string, args ...any) { m.add(fmt.Errorf(format, args...)) }

// add adds a mistake, unless it is none.
func (m *mistakes) add(err error) {
	if m.first == nil {
		m.first = err
	}
}

// once adds a mistake if an option before this one said the same thing.
func (m *mistakes) once(what, option string) {
	for _, s := range m.said {
		switch {
		case s.what != what:
		case s.option == option:
			m.wrong("%s is given twice; give it once", option)
		default:
			m.wrong("%s and %s both say %s; give one of them", s.option, option, what)
		}
	}
	m.said = append(m.said, saying{what, option})
}

// take adds the mistakes of an option that has options of its own.
func (m *mistakes) take(option string, its mistakes) {
	if its.first != nil {
		m.wrong("%s: %w", option, its.first)
	}
}
