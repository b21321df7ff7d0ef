package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goworker/goworker/internal/conn"
)

// file reads a file: lmstfy's where its name ends in .toml, else ours.
func (c *Config) file(path string) (notes []string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the settings cannot be read: %w", err)
	}
	c.From = path
	if strings.EqualFold(filepath.Ext(path), ".toml") {
		return c.lmstfy(path, data)
	}
	return nil, c.yaml(path, data)
}

// at says where in a file something is.
func at(path string, line int, format string, args ...any) error {
	return fmt.Errorf("%s, line %d: %w", path, line, fmt.Errorf(format, args...))
}

func (c *Config) yaml(path string, data []byte) error {
	var document yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&document); errors.Is(err, io.EOF) {
		return nil // nothing is set
	} else if err != nil {
		return fmt.Errorf("%s is no YAML: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	top := document.Content[0]
	if top.Kind != yaml.MappingNode {
		return at(path, top.Line, "the settings are names with values, as in listen: :7777")
	}
	var errs []error
	seen := make(map[string]int)
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if line, twice := seen[key.Value]; twice {
			errs = append(errs, at(path, key.Line, "%s is set in line %d already", key.Value, line))
			continue
		}
		seen[key.Value] = key.Line
		if err := c.member(path, key, value); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// member takes one setting of the file.
func (c *Config) member(path string, key, value *yaml.Node) error {
	for value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	switch key.Value {
	case "namespaces":
		return group(path, key, value, &c.Namespaces)
	case "pools":
		return group(path, key, value, &c.Pools)
	case "accounts":
		return group(path, key, value, &c.Accounts)
	case "certificates":
		return group(path, key, value, &c.Certificates)
	case "admin_certificates":
		if err := strictly(value, &c.AdminCertificates); err != nil {
			return at(path, value.Line, "admin_certificates is a list of subjects: %w", err)
		}
		return nil
	}
	n := slices.IndexFunc(Rows, func(r Row) bool { return r.Name == key.Value })
	if n < 0 {
		return at(path, key.Line, "there is no setting %s; there are %s", key.Value, known())
	}
	if value.Kind != yaml.ScalarNode {
		return at(path, value.Line, "%s takes one value, not a list and not names with values", key.Value)
	}
	if value.Tag == "!!null" {
		return at(path, key.Line, "%s has no value; give it one, or leave it out", key.Value)
	}
	if err := Rows[n].set(c, value.Value); err != nil {
		return at(path, value.Line, "%w", err)
	}
	return nil
}

// group takes a setting that has names of the program's below it.
func group[T any](path string, key, value *yaml.Node, to *map[string]T) error {
	if value.Kind != yaml.MappingNode {
		return at(path, value.Line, "%s has names with values below it", key.Value)
	}
	all := make(map[string]T)
	for i := 0; i+1 < len(value.Content); i += 2 {
		name, of := value.Content[i], value.Content[i+1]
		if _, twice := all[name.Value]; twice {
			return at(path, name.Line, "%s has %s twice", key.Value, name.Value)
		}
		var v T
		if err := strictly(of, &v); err != nil {
			return at(path, of.Line, "%s of %s: %w", name.Value, key.Value, err)
		}
		all[name.Value] = v
	}
	*to = all
	return nil
}

// strictly decodes a node into a struct or a text, and refuses names that the struct does not have.
func strictly(n *yaml.Node, to any) error {
	data, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(to); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // no value: all defaults
		}
		return errors.New(mistake(err))
	}
	return nil
}

// mistake is what the decoder found, without the lines of the piece that it was given.
func mistake(err error) string {
	var several *yaml.TypeError
	if !errors.As(err, &several) {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	var all []string
	for _, text := range several.Errors {
		_, text, _ = strings.Cut(text, ": ")
		if name, ok := strings.CutPrefix(text, "field "); ok {
			name, _, _ = strings.Cut(name, " ")
			text = "there is no setting " + name
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// Render returns the settings as a file, those alone that differ from the defaults. Passwords are in it only with secrets.
func (c *Config) Render(secrets bool) string {
	var b strings.Builder
	preset := Default()
	for _, r := range Rows {
		value := r.get(c)
		if value == r.get(preset) {
			continue
		}
		if r.hide && !secrets {
			value = conn.RedactURI(value)
		}
		fmt.Fprintf(&b, "%s: %s\n", r.Name, scalar(value))
	}
	section := func(name string, of map[string]any) {
		if len(of) == 0 {
			return
		}
		data, err := yaml.Marshal(map[string]any{name: of})
		if err == nil {
			b.Write(data)
		}
	}
	section("namespaces", anys(c.Namespaces))
	section("pools", anys(mapped(c.Pools, func(p Pool) Pool {
		if !secrets {
			p.Redis = conn.RedactURI(p.Redis)
		}
		return p
	})))
	section("accounts", anys(mapped(c.Accounts, func(password string) string {
		if !secrets {
			return hidden
		}
		return password
	})))
	section("certificates", anys(c.Certificates))
	if len(c.AdminCertificates) > 0 {
		if data, err := yaml.Marshal(map[string][]string{"admin_certificates": c.AdminCertificates}); err == nil {
			b.Write(data)
		}
	}
	return b.String()
}

func scalar(value string) string {
	data, err := yaml.Marshal(value)
	if err != nil || strings.Contains(strings.TrimSpace(string(data)), "\n") {
		return fmt.Sprintf("%q", value)
	}
	// A number or a truth reads better without the quotes that keep it a text.
	return strings.Trim(strings.TrimSpace(string(data)), `"`)
}

func anys[T any](of map[string]T) map[string]any {
	all := make(map[string]any, len(of))
	for k, v := range of {
		all[k] = v
	}
	return all
}

func mapped[T any](of map[string]T, f func(T) T) map[string]T {
	all := maps.Clone(of)
	for k, v := range all {
		all[k] = f(v)
	}
	return all
}
