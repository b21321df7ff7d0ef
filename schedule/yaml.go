package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds what aliases can blow up a file to.
const maxNodes = 100_000

var errTooLarge = errors.New("the file is too large, or its aliases make it so")

// reader turns YAML into JSON with everything in the order in which it stands, since a
// job's arguments are compared byte by byte.
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
		first := true
		b.WriteByte('{')
		err := r.pairs(n, func(name string, value *yaml.Node) error {
			if !first {
				b.WriteByte(',')
			}
			first = false
			if err := put(b, name); err != nil {
				return err
			}
			b.WriteByte(':')
			return r.write(b, value)
		})
		b.WriteByte('}')
		return err
	default:
		return scalar(b, n)
	}
}

// pairs calls f with the pairs of a mapping; those merged into it by << come where the
// merge stands, unless the mapping has them itself.
func (r *reader) pairs(n *yaml.Node, f func(name string, value *yaml.Node) error) error {
	return r.merge(n, make(map[string]bool), f)
}

func (r *reader) merge(n *yaml.Node, seen map[string]bool, f func(name string, value *yaml.Node) error) error {
	if r.left--; r.left < 0 {
		return errTooLarge
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: there must be names with a colon", n.Line)
	}
	own := make(map[string]bool)
	for i := 0; i < len(n.Content); i += 2 {
		own[name(n.Content[i])] = true
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			hidden := make(map[string]bool, len(seen)+len(own))
			for _, names := range []map[string]bool{seen, own} {
				for name := range names {
					hidden[name] = true
				}
			}
			from := []*yaml.Node{value}
			if value.Kind == yaml.SequenceNode {
				from = value.Content
			}
			for _, n := range from {
				if err := r.merge(n, hidden, f); err != nil {
					return err
				}
			}
			continue
		}
		if name := name(key); !seen[name] {
			seen[name] = true
			if err := f(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// name is that of a pair. Ruby's symbols are written with a colon in front.
func name(key *yaml.Node) string {
	if key.Kind == yaml.ScalarNode && key.Style == 0 {
		return strings.TrimPrefix(key.Value, ":")
	}
	return key.Value
}

// scalar writes a number as it stands.
func scalar(b *bytes.Buffer, n *yaml.Node) error {
	var value any
	switch n.Tag {
	case "!!null", "!!bool", "!!int", "!!float":
		if n.Tag != "!!bool" && json.Valid([]byte(n.Value)) {
			b.WriteString(n.Value)
			return nil
		}
		if err := n.Decode(&value); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
	default:
		value = n.Value
		if n.Style != 0 {
			break
		}
		switch strings.ToLower(n.Value) { // as Ruby reads them, which has kept to YAML 1.1
		case "yes", "on":
			value = true
		case "no", "off":
			value = false
		default:
			value = strings.TrimPrefix(n.Value, ":")
		}
	}
	return put(b, value)
}

func put(b *bytes.Buffer, value any) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the encoder's newline
	return nil
}
