package resque

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// readItem takes a job out of the form it has in resque-scheduler's lists, whoever
// wrote it: the queue it names, and the payload that goes there. That is class and
// args as they stand, in Ruby's order, and behind them whatever else there is but the
// queue. As Ruby's scheduler does it, missing args become [], and anything but a list
// becomes the one argument.
func readItem(item []byte) (queue string, payload []byte, err error) {
	if !utf8.Valid(item) {
		return "", nil, errors.New("it is not UTF-8")
	}
	s := scanner{src: item, room: MaxDepth}
	s.space()
	if s.peek() != '{' {
		if s.whole() {
			return "", nil, errors.New("it is JSON but not an object")
		}
		return "", nil, s.refusal()
	}
	var class, args, name, rest []byte
	s.enter()
	for first := true; ; first = false {
		more, ok := s.more('}', first)
		if !ok {
			return "", nil, s.refusal()
		}
		if !more {
			break
		}
		start := s.pos
		quoted, ok := s.key()
		if !ok {
			return "", nil, s.refusal()
		}
		value := s.pos
		if !s.value() {
			return "", nil, s.refusal()
		}
		switch string(unquoteKey(quoted)) {
		case "class":
			class = item[value:s.pos]
		case "args":
			args = item[value:s.pos]
		case "queue":
			name = item[value:s.pos]
		default:
			rest = append(append(rest, ','), item[start:s.pos]...)
		}
	}
	if s.space(); s.pos != len(item) {
		return "", nil, s.refusal()
	}
	if len(name) > len(`""`) && name[0] == '"' {
		queue = unquote(name)
	}
	if len(class) <= len(`""`) || class[0] != '"' {
		return queue, nil, errors.New("it names no class")
	}
	if queue == "" {
		return "", nil, errors.New("it names no queue")
	}
	payload = append(make([]byte, 0, len(item)+8), `{"class":`...)
	payload = append(append(payload, class...), `,"args":`...)
	switch {
	case args == nil || string(args) == "null":
		payload = append(payload, "[]"...)
	case args[0] != '[':
		payload = append(append(append(payload, '['), args...), ']')
	default:
		payload = append(payload, args...)
	}
	return queue, append(append(payload, rest...), '}'), nil
}

// A hint is "<millisecond> <place> <item>". One that reads otherwise was not written
// by us.
func parseHint(hint string) (at stamp, item string, ok bool) {
	digits, rest, _ := strings.Cut(hint, " ")
	place, item, ok := strings.Cut(rest, " ")
	ms, err := strconv.ParseInt(digits, 10, 64)
	_, err2 := strconv.Atoi(place)
	return stamp{ms}, item, ok && err == nil && err2 == nil && ms > 0
}
