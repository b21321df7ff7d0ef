package resque

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goworker/goworker/internal/payload"
)

// keys is "keys": all keys but those that Ruby's tools read about workers, and the pulse.
func (s *story) keys([]string) (lines []string) {
	s.t.Helper()
	for _, k := range s.server.Snapshot(s.t, s.s.ns) {
		name := strings.TrimPrefix(k.Key, s.s.ns)
		if k.Key == s.s.pulse() {
			continue // times
		}
		var value string
		switch v := k.Value.(type) {
		case string:
			value = v
		case []string:
			value = strings.Join(s.shortAll(v), " ")
		case map[string]float64:
			value = leases(v)
		case map[string]string:
			value = s.fields(name, v)
		}
		if value != "" {
			lines = append(lines, name+" = "+value)
		}
	}
	return lines
}

func leases(scores map[string]float64) string {
	var list []string
	for _, p := range slices.Sorted(maps.Keys(scores)) {
		if scores[p] < 0 {
			list = append(list, p+"(fenced)")
		} else {
			list = append(list, p)
		}
	}
	return strings.Join(list, " ")
}

func (s *story) fields(name string, hash map[string]string) string {
	var list []string
	switch {
	case strings.HasPrefix(name, "go:inflight:"):
		keys := make([]string, 0, len(hash))
		for k := range hash {
			keys = append(keys, k)
		}
		for _, ticket := range parseTickets(keys) {
			queue, payload, _ := CutPrefix([]byte(hash[fmt.Sprint(ticket)]))
			list = append(list, fmt.Sprintf("%d:%s/%s", ticket, queue, s.short(string(payload))))
		}
		if hash[markField] == "" {
			list = append(list, "no mark")
		} else if len(list) == 0 {
			list = append(list, "empty")
		}
	case strings.HasPrefix(name, "go:process:"):
		list = append(list, "epoch "+hash["epoch"])
		if hash["handed"] != "" {
			list = append(list, "handed "+hash["handed"])
		}
	case name == "go:recovered":
		for digest, value := range hash {
			d := parseDeaths(value, noon)
			text := fmt.Sprintf("%s %d (last in %s", s.names[digest], d.Count, d.last)
			if d.Charged > 0 {
				text += fmt.Sprint(", charged ", d.Charged)
			}
			if d.Level > 0 {
				text += fmt.Sprint(", level ", d.Level)
			}
			list = append(list, text+")")
		}
		slices.Sort(list)
	}
	return strings.Join(list, ", ")
}

// short makes a class of a payload and a sentence of a failure record.
func (s *story) short(text string) string {
	if f, err := payload.ParseFailure([]byte(text)); err == nil && f.Exception != "" {
		return fmt.Sprintf("%s(%s)", s.short(string(f.Payload)), f.Exception)
	}
	return strings.NewReplacer(`{"class":"`, "", `","args":[]}`, "").Replace(text)
}

func (s *story) shortAll(list []string) []string {
	short := make([]string, len(list))
	for i, text := range list {
		short[i] = s.short(text)
	}
	return short
}
