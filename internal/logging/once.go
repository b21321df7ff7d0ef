package logging

// once remembers what was logged about each subject, so that a trouble which lasts is logged once.
// The zero value is ready. It is for one goroutine.
type once struct{ said map[string]string }

// news reports whether text differs from what was last logged about a subject, and remembers it.
func (o *once) news(subject, text string) bool {
	if last, said := o.said[subject]; said && last == text {
		return false
	}
	if o.said == nil {
		o.said = make(map[string]string)
	}
	o.said[subject] = text
	return true
}

// over forgets a subject: its trouble has ended, and the next one is logged.
func (o *once) over(subject string) { delete(o.said, subject) }
