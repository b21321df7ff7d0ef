package payload

// Places are offsets in a payload at which a script inserts text without knowing JSON.
type Places struct {
	Args   int // just behind the last argument, or behind the bracket if there is none
	Before int // just behind the last argument but one, or behind the bracket
	Last   int // where expires_at belongs: before the id, and before one that is there, if those are the last fields; else before the closing brace
}

// FindPlaces finds the places in a payload that Encode and SetFields wrote. With a name, the arguments are not args but the list
// of this name in the object that is the one argument, as in a job of ActiveJob. The error is a *Error.
func FindPlaces(raw []byte, inside string) (Places, error) {
	var p Places
	s := scanner{src: raw, room: MaxDepth}
	s.space()
	if s.peek() != '{' {
		return p, &Error{Reason: "the payload is no object"}
	}
	found := false
	var last trailing
	s.enter()
	for first := true; ; first = false {
		before := s.pos
		more, ok := s.more('}', first)
		if !ok {
			return p, s.refusal()
		}
		if !more {
			p.Last = before
			break
		}
		quoted, ok := s.key()
		if !ok {
			return p, s.refusal()
		}
		name := unquoteKey(quoted)
		last.add(name, before, first)
		if string(name) != "args" || s.peek() != '[' {
			if !s.value() {
				return p, s.refusal()
			}
			continue
		}
		if inside == "" {
			p.Args, p.Before, found = s.places()
		} else {
			p.Args, p.Before, found = s.placesInside(inside)
		}
		if !found {
			return p, &Error{Reason: "the payload has no list of arguments"}
		}
	}
	switch {
	case !found:
		return p, &Error{Reason: "the payload has no list of arguments"}
	case last.start > 0:
		p.Last = last.start
	}
	if p.Last < p.Args {
		return p, &Error{Reason: "the payload's arguments stand behind its id"}
	}
	return p, nil
}

// places scans an array. end is behind its last element, before is behind the last but one.
func (s *scanner) places() (end, before int, ok bool) {
	if !s.enter() {
		return 0, 0, false
	}
	end, before = s.pos, s.pos
	for first := true; ; first = false {
		more, ok := s.more(']', first)
		if !more || !ok {
			return end, before, ok
		}
		if !s.value() {
			return 0, 0, false
		}
		end, before = s.pos, end
	}
}

// placesInside scans an array of one object, and returns the places of the list that the object has under a name.
func (s *scanner) placesInside(name string) (end, before int, ok bool) {
	if !s.enter() {
		return 0, 0, false
	}
	if s.space(); s.peek() != '{' || !s.enter() {
		return 0, 0, false
	}
	found := false
	for first := true; ; first = false {
		more, ok := s.more('}', first)
		if !ok {
			return 0, 0, false
		}
		if !more {
			break
		}
		quoted, ok := s.key()
		if !ok {
			return 0, 0, false
		}
		if string(unquoteKey(quoted)) == name && s.peek() == '[' {
			end, before, found = s.places()
			ok = found
		} else {
			ok = s.value()
		}
		if !ok {
			return 0, 0, false
		}
	}
	more, ok := s.more(']', false)
	return end, before, found && ok && !more
}
