package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/msgpack"

	"github.com/goworker/goworker/bench/probe"
)

// codecTime is how long each way of an item is repeated.
const codecTime = 200 * time.Millisecond

// codecs times how a job becomes an item of its queue and a job again, in one goroutine, without Redis: as JSON, and as
// MessagePack, which goworker makes of the JSON.
func (b *bench) codecs() {
	if !slices.Contains(b.opts.groups, "messagepack") {
		return
	}
	for _, w := range works() {
		if w.group != "messagepack" {
			continue
		}
		for _, name := range packing {
			for range b.opts.rounds {
				encode, decode, err := codec(w.class, name == "ours-msgpack", codecTime)
				if err != nil {
					b.fail(&cell{c: contenderNamed(name), w: w, workers: w.workers[0]}, err)
					break
				}
				b.results.Add(name, w.name, w.workers[0], "encode_ns", encode)
				b.results.Add(name, w.name, w.workers[0], "decode_ns", decode)
			}
		}
	}
}

// codec returns the nanoseconds of each way, which is repeated for so long.
func codec(class string, packed bool, long time.Duration) (encode, decode float64, err error) {
	payload := goworker.Payload{Class: class, Args: []interface{}{probe.Value(class, 1), 1}}
	write := func() ([]byte, error) {
		text, err := json.Marshal(payload)
		if err != nil || !packed {
			return text, err
		}
		item, exact := msgpack.AppendItem(nil, text)
		if !exact {
			return nil, fmt.Errorf("MessagePack does not hold %s as it is", text)
		}
		return item, nil
	}
	item, err := write()
	if err != nil {
		return 0, 0, fmt.Errorf("encode a job of class %s: %w", class, err)
	}
	read := func() error {
		text := item
		if packed {
			if text, err = msgpack.AppendPayload(nil, item); err != nil {
				return err
			}
		}
		return readJob(class, text)
	}
	if encode, err = repeated(long, func() error { _, err := write(); return err }); err != nil {
		return 0, 0, fmt.Errorf("encode a job of class %s: %w", class, err)
	}
	if decode, err = repeated(long, read); err != nil {
		return 0, 0, fmt.Errorf("decode a job of class %s: %w", class, err)
	}
	return encode, decode, nil
}

// readJob decodes a payload and its arguments, as for a handler whose parameters have their types.
func readJob(class string, text []byte) error {
	var payload struct {
		Class string            `json:"class"`
		Args  []json.RawMessage `json:"args"`
	}
	if err := json.Unmarshal(text, &payload); err != nil {
		return err
	}
	var number int64
	if err := json.Unmarshal(payload.Args[1], &number); err != nil {
		return err
	}
	switch class {
	case probe.Thing:
		return json.Unmarshal(payload.Args[0], new(probe.Record))
	case probe.Numbers:
		return json.Unmarshal(payload.Args[0], new([]int64))
	}
	return json.Unmarshal(payload.Args[0], new(string))
}

// repeated returns the nanoseconds of one call of do.
func repeated(long time.Duration, do func() error) (float64, error) {
	begin, n := time.Now(), 0
	for n == 0 || time.Since(begin) < long {
		for range 64 {
			if err := do(); err != nil {
				return 0, err
			}
		}
		n += 64
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(n), nil
}
