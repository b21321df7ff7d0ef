// Package config has a program read its settings from a file, and read it again while it works:
//
//	var billing struct {
//		Rate    int
//		Timeout time.Duration
//	}
//	config.Section("billing", &billing)
//	goworker.Work()
//
// The flag -config or the variable GOWORKER_CONFIG names the file:
//
//	queues: [critical, mail]
//	concurrency: 25
//	uri-file: /run/secrets/redis
//	classes:
//	  SendEmail: {timeout: 1m, retries: 5, limits: [3]}
//	billing: {rate: 10, timeout: 30s}
//
// Its keys are the names of the flags. A flag goes before SetSettings, that before the environment, that before the file, and that
// before the default. SIGHUP reads the file again. A file with a mistake is refused whole; a mistake is said with its line and column.
// See docs/configuration-file.md.
//
// An import of this package links a reader of YAML, which an import of goworker alone does not.
package config

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/configfile"
	"github.com/goworker/goworker/internal/document"
	"github.com/goworker/goworker/internal/isolate"
	"github.com/goworker/goworker/internal/reload"
	"github.com/goworker/goworker/internal/setting"
)

// Variable is the environment variable that names the file.
const Variable = "GOWORKER_CONFIG"

// ErrRefused is returned by File.Reload where the file has mistakes. Nothing has changed then.
var ErrRefused = reload.ErrRefused

// Error is an error of a file. It has all mistakes, each with its line and column.
type Error = document.Error

// Mistake is one mistake in a file.
type Mistake = document.Mistake

// File is the configuration file of a daemon or of Shards. It is safe for concurrent use.
type File struct {
	seat setting.Seat

	mu     sync.Mutex
	path   string // of Path; "": the flag or the variable names the file
	claims map[string]*claim
}

// Option is an option of Use.
type Option func(*File)

// Path names the file in place of the variable. The flag -config goes before it.
func Path(path string) Option { return func(f *File) { f.path = path } }

// Use has a daemon, or Shards, read its settings from a file, from the next Init, Run or Work on. A second call for the same one
// returns the same File. It adds the flag -config to the command line of the default daemon: call it before the command line is parsed,
// and before Flags.
//
// Without a file the settings are as ever.
func Use(on goworker.Controlled, opts ...Option) *File {
	r, ok := goworker.Configure(on, func(seat setting.Seat) setting.File {
		return reader{&File{seat: seat, claims: make(map[string]*claim)}}
	}).(reader)
	if !ok {
		panic(fmt.Sprintf("config: Use takes a *goworker.Daemon or *goworker.Shards, not %T", on))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, opt := range opts {
		opt(r.File)
	}
	return r.File
}

// Section claims a section of the default daemon's file; see File.Section.
func Section(name string, v any) { Use(goworker.Default()).Section(name, v) }

// Section claims a section of the file, and has it decoded into what v points to. A section that nothing claims is a mistake in the
// file. Call it before Init, Run or Work; Init decodes it.
//
// A *Value is decoded again when the file is read again. Anything else is decoded once, because handlers may read it meanwhile: that
// its section has changed is logged as something that needs a restart.
//
// What the file does not say stays as it is in v. The names in the file are those of the tags config or yaml, otherwise the names of
// the fields in small letters with hyphens: max-age for MaxAge. Times and sizes have their units: time.Duration, Size. A value with a
// method Check() error says itself what is wrong with it.
//
// Section panics if the name is empty, that of a setting or claimed already, and if v is no pointer. These are mistakes in the program.
func (f *File) Section(name string, v any) {
	c := newClaim(name, v)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "":
		panic(fmt.Sprintf("config: Section(%q): the name of a section has small letters, digits and hyphens", name))
	case name == configfile.ClassesName || slices.Contains(f.seat.Flags(), name):
		panic(fmt.Sprintf("config: Section(%q): a setting has this name; choose another", name))
	case f.claims[name] != nil:
		panic(fmt.Sprintf("config: Section(%q): the section is claimed already", name))
	}
	f.claims[name] = c
}

// Reload reads the file again, as SIGHUP does in Work; Run leaves signals to the program. A file with mistakes is refused: the error is
// ErrRefused and has all mistakes, and nothing has changed. Otherwise it changes what can be changed while the daemon runs and waits
// for Redis where it must. The log says what has changed, and what needs a restart.
func (f *File) Reload(ctx context.Context) error { return f.seat.Reload(ctx) }

// reader is a File as the daemon reads it.
type reader struct{ *File }

// Read reads the file and checks it.
func (r reader) Read(given string) (*setting.Content, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := cmp.Or(given, r.path, os.Getenv(Variable))
	if path == "" {
		return nil, nil
	}
	fresh := make(map[*claim]reflect.Value)
	read := configfile.Reader{Table: r.seat.Table, Shards: r.seat.Shards, Sections: make(map[string]func(document.Node)), Getenv: os.Getenv}
	for name, c := range r.claims {
		read.Sections[name] = func(n document.Node) { fresh[c] = c.decode(n) }
	}
	var file *configfile.File
	var err error
	if accepted := parents(); accepted.Path == path {
		file, err = read.Parse(path, []byte(accepted.Text)) // by now the file may have mistakes
		file.Texts = accepted.Texts
	} else {
		file, err = read.Load(path)
	}
	if file == nil {
		return nil, err
	}
	file.Accept = func(runs bool) (changed, restart []string) { return r.accept(fresh, runs) }
	return &file.Content, err
}

// parents returns what the daemon has accepted whose isolated job this process runs; otherwise nothing.
func parents() (accepted setting.Content) {
	if text := isolate.Config(); text != nil {
		_ = json.Unmarshal(text, &accepted) // the daemon is of the same program
	}
	return accepted
}

// accept has the sections take their values.
func (f *File) accept(fresh map[*claim]reflect.Value, runs bool) (changed, restart []string) {
	for c, v := range fresh {
		switch is, later := c.commit(v, runs); {
		case later:
			restart = append(restart, c.name)
		case is:
			changed = append(changed, c.name)
		}
	}
	slices.Sort(changed)
	slices.Sort(restart)
	return changed, restart
}
