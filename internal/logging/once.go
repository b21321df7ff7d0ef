package logging

// Once remembers what was logged about each subject, so that a lasting problem is logged once.
// The zero value is ready. Only one goroutine may use it.
type Once struct{ said map[string]string }

// News reports whether text differs from what was last logged about a subject, and remembers it.
func (o *Once) News(subject, text string) bool {
	if last, said := o.said[subject]; said && last == text {
		return false
	}
	if o.said == nil {
		o.said = make(map[string]string)
	}
	o.said[subject] = text
	return true
}

// Over forgets a subject: its problem has ended, and the next one is logged.
func (o *Once) Over(subject string) { delete(o.said, subject) }
