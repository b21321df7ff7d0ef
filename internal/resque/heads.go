package resque

import (
	"encoding/json"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
)

var headsScript = script("heads")

// HeadSize is how much of a large payload is read to be shown.
const HeadSize = 2048

const (
	headBytes     = HeadSize + 256 // with what is in front of a payload: queue, limits, time
	headWhole     = 1 << 20        // up to which size a value of a hash is read to be cut; Redis cannot read a part of it
	headsTogether = 500            // texts in one script, most of which are missing
	headsAnswered = 160 << 10      // bytes that it answers
)

// head is the beginning of a text.
type head struct {
	size int64
	text []byte
}

// askHeads asks for the beginnings of texts, or of the fields of one hash. take gets as many as the bytes suffice for.
func askHeads(t *trip, each, most int, keys, fields []string, take func(found []head, err error)) {
	var a Call
	a.Arg(each, most, headWhole)
	for i, key := range keys {
		a.Key(key)
		if fields == nil {
			a.Arg("")
		} else {
			a.Arg(fields[i])
		}
	}
	t.eval(func(reply any, err error) {
		rows, err := redis.Values(reply, err)
		found := make([]head, len(rows))
		for i, row := range rows {
			v, e := redis.Values(row, nil)
			if e != nil || len(v) != 2 {
				err = ErrAnswer
				break
			}
			found[i].size, _ = redis.Int64(v[0], nil)
			found[i].text, _ = redis.Bytes(v[1], nil)
		}
		if err == nil && (len(found) > len(keys) || len(found) == 0) {
			err = ErrAnswer
		}
		take(found, err)
	}, headsScript, a)
}

// parseShown reads the beginning of worker:<id>. Payload is what is there of it, HeadSize bytes at most, and size how long all
// of it is about.
func parseShown(h head) (w *Working, size int64) {
	if h.size == 0 {
		return nil, 0
	}
	w = &Working{}
	payload.Fields(h.text, func(name string, value []byte, cut bool) {
		switch {
		case name == "payload":
			w.Payload, size = value, int64(len(value))
			if cut {
				size += h.size - int64(len(h.text))
			}
			w.Class, _, _ = payload.Beginning(value)
		case cut:
		case name == "queue":
			_ = json.Unmarshal(value, &w.Queue)
		case name == "run_at":
			var at string
			_ = json.Unmarshal(value, &at)
			w.RunAt = ParseTime(at)
		}
	})
	w.Payload = slices.Clone(w.Payload[:min(len(w.Payload), HeadSize)])
	return w, size
}
