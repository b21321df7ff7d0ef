// Package configfile reads the configuration file of a worker: its settings, what it says of classes, and the sections that a program
// has claimed.
package configfile

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/argv"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/document"
	"github.com/goworker/goworker/internal/feature/limits"
	"github.com/goworker/goworker/internal/setting"
)

// ClassesName is the section with options of classes.
const ClassesName = "classes"

// Reader reads files.
type Reader struct {
	Table setting.Table

	// Shards says that URI and queues are the program's.
	Shards bool

	// Sections decode the sections of the program, by name. One is called with its node, or with a zero node where the file lacks it.
	Sections map[string]func(document.Node)

	// Lenient passes over sections that nobody has claimed.
	Lenient bool

	// Getenv reads the environment.
	Getenv func(string) string
}

// File is a file that was read.
type File struct {
	setting.Content
	Sections map[string]string // the places of all sections but classes, by name
}

// Load reads and checks the file of a path. The error is an *document.Error with all mistakes, or one of the file itself. The file is
// returned beside mistakes too.
func (r Reader) Load(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration file cannot be read: %w", err)
	}
	f, err := r.Parse(path, text)
	if f.Secret {
		if warning := conn.OpenToOthers(path); warning != "" {
			f.Warnings = append(f.Warnings, warning)
		}
	}
	return f, err
}

// Parse reads the text of a file.
func (r Reader) Parse(path string, text []byte) (*File, error) {
	d := document.Parse(path, text)
	f := &File{Content: setting.Content{Path: path, Text: string(text), Texts: make(map[string]setting.Text)}, Sections: make(map[string]string)}
	flags := r.Table.Flags()
	known := append(slices.Clone(flags), ClassesName)
	known = append(known, slices.Sorted(maps.Keys(r.Sections))...)
	met := make(map[string]bool)
	for _, p := range d.Top("the file") {
		name := p.Name()
		decode, claimed := r.Sections[name]
		switch {
		case name == ClassesName:
			f.Classes = classes(p.Value)
		case claimed:
			met[name], f.Sections[name] = true, p.Key.Place()
			decode(p.Value)
		case slices.Contains(flags, name):
			r.setting(f, p)
		case r.Lenient && (p.Value.IsMap() || p.Value.IsList()):
			f.Sections[name] = p.Key.Place()
		case slices.Contains(flags, strings.ReplaceAll(name, "_", "-")):
			p.Key.Wrong("unknown key %s; did you mean %s?", name, strings.ReplaceAll(name, "_", "-"))
		case (p.Value.IsMap() || p.Value.IsList()) && document.Nearest(name, known) == "":
			p.Key.Wrong("unknown section %s; nothing in the program claims it (config.Section)", name)
		default:
			p.Key.Unknown("key", name, known)
		}
	}
	for name, decode := range r.Sections {
		if !met[name] {
			decode(document.Node{})
		}
	}
	return f, d.Err()
}

// setting takes one setting.
func (r Reader) setting(f *File, p document.Pair) {
	flag := p.Name()
	if r.Shards && (flag == "uri" || flag == "uri-file" || flag == "queues") {
		p.Key.Wrong("%s is given with each Shard in the program; leave it out", flag)
		return
	}
	var text string
	if flag == "queues" && p.Value.IsList() {
		var names []string
		for _, item := range p.Value.Items() {
			name, ok := item.Text("a queue")
			if !ok {
				return
			}
			names = append(names, name)
		}
		text = strings.Join(names, ",")
	} else {
		var ok bool
		if text, ok = p.Value.Text(flag); !ok {
			return
		}
	}
	if err := r.Table.Check(flag, text); err != nil {
		p.Value.Wrong("%s is %q: %s", flag, r.Table.Redact(flag, text), err)
		return
	}
	if flag == "uri" && r.Table.Redact(flag, text) != text {
		f.Secret = true
	}
	if r.Table.IsPath(flag) && text != "" {
		text = r.path(p.Value, text)
	}
	f.Texts[flag] = setting.Text{Value: text, From: p.Value.Place()}
}

// path finds a file that the configuration file names: among the credentials of systemd, or beside the configuration file.
func (r Reader) path(at document.Node, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	if dir := r.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		if given := filepath.Join(dir, path); setting.Exists(given) {
			return given
		}
	}
	return at.File(path)
}

func classes(n document.Node) map[string]setting.Class {
	all := make(map[string]setting.Class)
	for _, p := range n.Pairs(ClassesName) {
		of := setting.Class{Place: p.Key.Place()}
		for _, option := range p.Value.Pairs("the class " + p.Name()) {
			switch option.Name() {
			case "timeout":
				of.Timeout = timeout(option.Value)
			case "retries":
				of.Retries = retries(option.Value)
			case "limits":
				of.Limits = classLimits(option.Value)
			default:
				option.Key.Unknown("option", option.Name(), setting.ClassOptions[:])
			}
		}
		all[p.Name()] = of
	}
	return all
}

func timeout(n document.Node) *time.Duration {
	text, ok := n.Text("timeout")
	if !ok {
		return nil
	}
	d, err := argv.ParseSeconds(text)
	if err != nil {
		n.Wrong("timeout is %q: %s; 0 is no limit", text, err)
		return nil
	}
	return &d
}

// Unlimited is the number of retries of a class whose jobs are retried for ever.
const Unlimited = "unlimited"

func retries(n document.Node) *int {
	text, ok := n.Text("retries")
	if !ok {
		return nil
	}
	count, err := strconv.Atoi(text)
	if text == Unlimited {
		count, err = -1, nil
	} else if err == nil && count < 0 {
		err = strconv.ErrRange
	}
	if err != nil {
		n.Wrong("retries is %q: it takes a whole number of at least 0, or %s", text, Unlimited)
		return nil
	}
	return &count
}

func classLimits(n document.Node) (all []setting.ClassLimit) {
	for _, item := range n.Items() {
		var l setting.ClassLimit
		if !item.IsMap() {
			text, ok := item.Text("a limit")
			if !ok {
				continue
			}
			l.Numbers = text
		}
		if item.IsMap() {
			for _, p := range item.Pairs("a limit") {
				switch p.Name() {
				case "limit":
					l.Numbers, _ = p.Value.Text("limit")
				case "key":
					l.Key, _ = p.Value.Text("key")
				default:
					p.Key.Unknown("key", p.Name(), []string{"limit", "key"})
				}
			}
		}
		if err := limits.Wrong(l); err != nil {
			item.Wrong("the limit is %q: %s", strings.TrimSpace(l.Numbers+" "+l.Key), err)
			continue
		}
		all = append(all, l)
	}
	return all
}
