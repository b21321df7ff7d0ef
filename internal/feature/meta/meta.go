// Package meta gives jobs metadata: texts beside the arguments, for middleware more than for handlers. The
// payload carries them, so they stay with the job whatever becomes of it.
package meta

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
)

// Field is the field of a payload with the metadata, a JSON object of strings.
const Field = "meta"

// Limits of one job's metadata.
const (
	MaxKeys  = payload.MaxMetaKeys
	MaxBytes = payload.MaxMetaBytes // as JSON
)

// Values is the option of a job or a class: its metadata. Those of a job are added to those of its class.
type Values map[string]string

// Trace is the option of a job with texts of its trace. They give way: a job whose metadata has no room for them goes without.
type Trace map[string]string

// With returns the values and others, which go before those of the same keys.
func (v Values) With(others map[string]string) Values {
	all := make(Values, len(v)+len(others))
	maps.Copy(all, v)
	maps.Copy(all, others)
	return all
}

// encode returns the values as JSON, in the order of their keys, or why they cannot be a job's.
func (v Values) encode() ([]byte, error) {
	if len(v) > MaxKeys {
		return nil, fmt.Errorf("WithMeta: the job's metadata has %d keys, and %d are allowed; put what belongs together into one", len(v), MaxKeys)
	}
	json := []byte{'{'}
	for i, key := range slices.Sorted(maps.Keys(v)) {
		switch {
		case key == "":
			return nil, fmt.Errorf(`WithMeta: a key of the job's metadata is empty; give it a name`)
		case !utf8.ValidString(key):
			return nil, fmt.Errorf("WithMeta: the key %q of the job's metadata is not UTF-8, and no worker could read it", key)
		case !utf8.ValidString(v[key]):
			return nil, fmt.Errorf("WithMeta: the value of the key %q is not UTF-8, and no worker could read it; encode it, as with base64", key)
		}
		if i > 0 {
			json = append(json, ',')
		}
		json = append(payload.AppendText(json, key), ':')
		json = payload.AppendText(json, v[key])
	}
	if json = append(json, '}'); len(json) > MaxBytes {
		return nil, fmt.Errorf("WithMeta: the job's metadata has %d bytes as JSON, and %d are allowed; pass what is large as an argument or by reference", len(json), MaxBytes)
	}
	return json, nil
}

// Check returns why the values cannot be a job's.
func (v Values) Check() error {
	_, err := v.encode()
	return err
}

// New makes the feature.
func New(outcome.Deps) outcome.Feature {
	return outcome.Feature{Name: "metadata", Enqueue: enqueue}
}

// enqueue writes the metadata into the payload.
func enqueue(p *outcome.Push) error {
	v, _ := outcome.Get[Values](p.Class)
	if own, ok := outcome.Get[Values](p.Options); ok {
		v = v.With(own)
	}
	trace, _ := outcome.Get[Trace](p.Options)
	if len(trace) > 0 && !p.Ruby {
		all := Values(trace).With(v) // what the program says of the job goes before
		if json, err := all.encode(); err == nil {
			p.Traced = true
			p.Fields = append(p.Fields, payload.Field{Name: Field, Value: json})
			return nil
		}
	}
	if len(v) == 0 {
		return nil
	}
	json, err := v.encode()
	if err == nil {
		p.Fields = append(p.Fields, payload.Field{Name: Field, Value: json})
	}
	return err
}

// Of returns the metadata of a job, nil if it has none. Values that are no texts are left out, and another
// field of this name is none: another program may write what it likes.
func Of(j *outcome.Job) map[string]string {
	raw := j.Parsed.Field(Field)
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	var all map[string]any
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	var texts map[string]string
	for key, value := range all {
		if text, ok := value.(string); ok {
			if texts == nil {
				texts = make(map[string]string, len(all))
			}
			texts[key] = text
		}
	}
	return texts
}
