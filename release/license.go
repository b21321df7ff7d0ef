package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// license is what a module may be copied under.
type license struct {
	module  string // its path and version
	names   []string
	texts   []string // of its files, which an archive repeats
	copying []string // the names of those files
}

// accepted are the licenses that ask for no more than that their text goes with the program.
var accepted = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "Zlib"}

// declared are the modules that say it elsewhere: in which file, and what.
var declared = map[string]struct{ file, name string }{
	"github.com/mattn/go-localereader v0.0.1": {"README.md", "MIT"}, // of bubbletea, on Windows
}

var copying = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licenses returns those of Go and of each other module that the program of a platform links, by path.
func (s *source) licenses(platform string) (map[string]license, error) {
	const format = `{{with .Module}}{{if .Replace}}{{else if .Main}}{{else}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}`
	listed, err := s.run(platform, "list", "-mod=readonly", "-deps", "-f", format, ".")
	if err != nil {
		return nil, err
	}
	root, err := s.run(platform, "env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	root, version, _ := strings.Cut(root, "\n")
	found := make(map[string]license)
	for line := range strings.Lines(fmt.Sprintf("std %s %s\n%s\n", version, root, listed)) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(words) < 3 || found[words[0]].module != "" {
			continue
		}
		l, err := readLicense(words[0]+" "+words[1], words[2])
		if err != nil {
			return nil, err
		}
		found[words[0]] = l
	}
	return found, nil
}

// readLicense reads the files of a module that say what it may be copied under. Each license that they name must be accepted.
func readLicense(module, dir string) (license, error) {
	l := license{module: module}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return l, err
	}
	for _, e := range entries {
		elsewhere := e.Name() == declared[module].file
		if e.IsDir() || !elsewhere && !copying.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		if elsewhere {
			l.names = append(l.names, declared[module].name)
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return l, err
		}
		l.copying = append(l.copying, e.Name())
		l.texts = append(l.texts, string(text))
		for _, m := range licensecheck.Scan(text).Match {
			if !m.IsURL && !slices.Contains(l.names, m.ID) {
				l.names = append(l.names, m.ID)
			}
		}
	}
	slices.Sort(l.names)
	if len(l.names) == 0 {
		return l, fmt.Errorf("no file in %s is a known license: find out what %s may be copied under", dir, module)
	}
	for _, name := range l.names {
		if !slices.Contains(accepted, name) && name != "GooglePatentsFile" && name != "GooglePatentClause" {
			return l, fmt.Errorf("%s is under %s, which is none of %s: see what it asks for", module, name, strings.Join(accepted, ", "))
		}
	}
	return l, nil
}

// texts returns the file of an archive that repeats them.
func texts(licenses map[string]license) []byte {
	paths := make([]string, 0, len(licenses))
	for path := range licenses {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	var out bytes.Buffer
	out.WriteString("The program goworker contains code of Go and of the modules below, under these licenses.\n")
	for _, path := range paths {
		l := licenses[path]
		for i, text := range l.texts {
			fmt.Fprintf(&out, "\n%s\n%s, %s\n\n%s\n", strings.Repeat("=", 80), l.module, l.copying[i], strings.TrimRight(text, "\n"))
		}
	}
	return out.Bytes()
}
