package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/document"
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

// yaml reads a file in goworker's own format.
func (c *Config) yaml(path string, data []byte) error {
	d := document.Parse(path, data)
	for _, p := range d.Top("the file") {
		c.member(p)
	}
	return d.Err()
}

// member takes one setting of the file.
func (c *Config) member(p document.Pair) {
	name := p.Name()
	switch name {
	case "namespaces":
		p.Value.Decode(&c.Namespaces, name)
	case "pools":
		p.Value.Decode(&c.Pools, name)
	case "accounts":
		p.Value.Decode(&c.Accounts, name)
	case "certificates":
		p.Value.Decode(&c.Certificates, name)
	case "admin_certificates":
		p.Value.Decode(&c.AdminCertificates, name)
	default:
		n := slices.IndexFunc(Rows, func(r Row) bool { return r.Name == name })
		if n < 0 {
			p.Key.Unknown("setting", name, known())
			return
		}
		text, ok := p.Value.Text(name)
		if !ok {
			return
		}
		if err := Rows[n].set(c, text); err != nil {
			p.Value.Wrong("%s", err)
		}
	}
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
