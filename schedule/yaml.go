package schedule

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/goworker/goworker/internal/payload"
)

// maxNodes bounds the size to which aliases can expand a file.
const maxNodes = 100_000

var errTooLarge = errors.New("the file is too large, or its aliases make it so")

// reader turns YAML into JSON and keeps the order of everything, since
// arguments of jobs are compared byte by byte.
type reader struct {
	left int // nodes it may still read
}

func (r *reader) json(n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	err := r.write(&b, n)
	return b.Bytes(), err
}

func (r *reader) write(b *bytes.Buffer, n *yaml.Node) error {
	if r.left--; r.left < 0 {
		return errTooLarge
	}
	switch n.Kind {
	case yaml.AliasNode:
		return r.write(b, n.Alias)
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := r.write(b, item); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	case yaml.MappingNode:
		all, err := r.pairs(n)
		if err != nil {
			return err
		}
		b.WriteByte('{')
		for i, p := range all {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := put(b, p.name); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := r.write(b, p.value); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	default:
		value, err := scalar(n)
		if err != nil {
			return err
		}
		return put(b, value)
	}
}

type pair struct {
	name  string
	value *yaml.Node
}

// pairs are those of a mapping and those merged into it by <<. Of equal names the last
// counts, merged or not, in the place of the first.
func (r *reader) pairs(n *yaml.Node) ([]pair, error) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: there must be names with a colon", n.Line)
	}
	var all []pair
	at := make(map[string]int)
	add := func(p pair) error {
		if r.left--; r.left < 0 {
			return errTooLarge
		}
		i, again := at[p.name]
		if !again {
			i = len(all)
			at[p.name] = i
			all = append(all, p)
		}
		all[i].value = p.value
		return nil
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		merged := []pair{{name(key), value}}
		if key.Tag == "!!merge" {
			var err error
			if merged, err = r.merged(value); err != nil {
				return nil, err
			}
		}
		for _, p := range merged {
			if err := add(p); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// merged are the pairs of the mapping that << names, or of several. The first of several
// takes precedence and so comes last.
func (r *reader) merged(value *yaml.Node) (all []pair, err error) {
	if r.left--; r.left < 0 {
		return nil, errTooLarge
	}
	from := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		from = value.Content
	}
	for _, n := range slices.Backward(from) {
		some, err := r.pairs(n)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func put(b *bytes.Buffer, value any) error {
	text, err := payload.EncodeValue(value, payload.Plain)
	b.Write(text)
	return err
}
