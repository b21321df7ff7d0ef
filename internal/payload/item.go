package payload

import (
	"errors"
	"unicode/utf8"
)

// Item returns a job as resque-scheduler's lists hold it: its queue comes last. raw is a
// payload that Encode wrote.
func Item(raw []byte, queue string, style Style) []byte {
	item := append(make([]byte, 0, len(raw)+len(queue)+16), raw[:len(raw)-1]...)
	item = append(item, `,"queue":`...)
	return append(appendString(item, queue, style, replacement), '}')
}

// NodeItem is Item in node-resque's order: the queue precedes the args. It is nil
// for text without class and args.
func NodeItem(raw []byte, queue string, style Style) []byte {
	all, err := members(raw)
	if err != nil || len(all) < 2 {
		return nil
	}
	class := all[0].end
	item := append(make([]byte, 0, len(raw)+len(queue)+16), raw[:class]...)
	item = append(item, `,"queue":`...)
	return append(appendString(item, queue, style, replacement), raw[class:]...)
}

// ReadItem reads a job from resque-scheduler's lists, written by any program.
// It returns the queue that the item names and its payload: class and args
// unchanged, in Ruby's order, then all other fields except the queue. As in Ruby's
// scheduler, missing args become [], and anything but a list becomes the one argument.
func ReadItem(item []byte) (queue string, payload []byte, err error) {
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
