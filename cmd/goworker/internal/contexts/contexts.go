// Package contexts reads the file in which an operator names the Redises that he looks after.
package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Context is one Redis, as the file names it.
type Context struct {
	Name      string `yaml:"-"`
	URI       string `yaml:"uri"`
	URIFile   string `yaml:"uri_file"` // whose first line is the URI
	Namespace string `yaml:"namespace"`

	// Where Redis speaks TLS with certificates that this machine does not know.
	CA   string `yaml:"ca"`
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`

	Protect bool  `yaml:"protect"` // a change wants its count typed, and bench does not run
	Accept  []int `yaml:"accept"`  // checks of doctor that are accepted here
}

// File is where the contexts stand: the value of GOWORKER_CONTEXTS, or goworker/contexts.yaml in the user's configuration.
func File(lookup func(string) (string, bool)) (string, error) {
	if name, ok := lookup("GOWORKER_CONTEXTS"); ok && name != "" {
		return name, nil
	}
	if home, ok := lookup("XDG_CONFIG_HOME"); ok && home != "" {
		return filepath.Join(home, "goworker", "contexts.yaml"), nil
	}
	home, ok := lookup("HOME")
	if !ok || home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return "", errors.New("there is no home directory to find the contexts in; name their file in GOWORKER_CONTEXTS")
		}
	}
	return filepath.Join(home, ".config", "goworker", "contexts.yaml"), nil
}

// Load returns the context of a name.
func Load(file, name string) (Context, error) {
	all, err := Read(file)
	if err != nil {
		return Context{}, err
	}
	c, ok := all[name]
	if !ok {
		return Context{}, fmt.Errorf("%s has no context %q; it has %s", file, name, names(all))
	}
	return c, nil
}

// Read returns all contexts of a file.
func Read(file string) (map[string]Context, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s with contexts; write one, as in\nproduction:\n  uri_file: /etc/goworker/production.uri\n  protect: true", file)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the contexts: %w", err)
	}
	all := make(map[string]Context)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the contexts in %s: %s", file, strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := all[name]
		c.Name = name
		if err := c.check(filepath.Dir(file)); err != nil {
			return nil, fmt.Errorf("the context %s in %s: %w", name, file, err)
		}
		all[name] = c
	}
	return all, nil
}

// check returns an error where fields do not go together, and makes file names absolute.
func (c *Context) check(dir string) error {
	if (c.URI == "") == (c.URIFile == "") {
		return errors.New("it takes uri or uri_file, and one of them: the address of Redis")
	}
	if (c.Cert == "") != (c.Key == "") {
		return errors.New("cert and key go together: give both, or neither")
	}
	for _, name := range []*string{&c.URIFile, &c.CA, &c.Cert, &c.Key} {
		if *name != "" && !filepath.IsAbs(*name) {
			*name = filepath.Join(dir, *name)
		}
	}
	return nil
}

// Address returns the URI of the context's Redis.
func (c Context) Address() (string, error) {
	if c.URIFile == "" {
		return c.URI, nil
	}
	text, err := os.ReadFile(c.URIFile)
	if err != nil {
		return "", fmt.Errorf("reading uri_file of the context %s: %w", c.Name, err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if line == "" {
		return "", fmt.Errorf("%s, the uri_file of the context %s, is empty; write the URI of Redis into it", c.URIFile, c.Name)
	}
	return strings.TrimSpace(line), nil
}

func names(all map[string]Context) string {
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}
