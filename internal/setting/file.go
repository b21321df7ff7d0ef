package setting

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// File is a configuration file, as a daemon reads its settings from it.
type File interface {
	// Read reads the file and checks it. given is the path of the flag -config, or "". Where no file is named it returns nil. With a
	// mistake it returns an error that lists all of them, and what is right.
	Read(given string) (*Content, error)
}

// Held is a file as it was read last, for the shards that share it. The sections have their values already.
type Held struct{ atomic.Pointer[Content] }

// Read returns it.
func (h *Held) Read(string) (*Content, error) {
	content := h.Load()
	if content == nil {
		return nil, nil
	}
	own := *content
	own.Accept = func(bool) (changed, restart []string) { return nil, nil }
	return &own, nil
}

// Content is what a configuration file says.
type Content struct {
	Path    string           // of the file
	Text    string           // as it was read
	Texts   map[string]Text  // of the settings, by flag
	Classes map[string]Class // by name

	Secret   bool     // the file has a password
	Warnings []string // for the log

	// Accept has the sections of the program take their values. It returns what has changed, and what of it needs a restart because
	// the program runs.
	Accept func(runs bool) (changed, restart []string) `json:"-"`
}

// Beside returns the content with those settings of the one before that hold until a restart.
func (c *Content) Beside(before *Content, t Table) *Content {
	own := *c
	own.Texts = make(map[string]Text)
	for _, i := range t.Infos {
		from := before.Texts
		if i.Live {
			from = c.Texts
		}
		if text, ok := from[i.Flag]; ok {
			own.Texts[i.Flag] = text
		}
	}
	return &own
}

// Class is what a configuration file lays over the options of a class.
type Class struct {
	Place   string         // in the file
	Timeout *time.Duration // nil: as registered; 0: none
	Retries *int           // nil: as registered; -1: any number
	Limits  []ClassLimit   // nil: as registered
}

// ClassOptions are the names of what a file may say of a class.
var ClassOptions = [3]string{"timeout", "retries", "limits"}

// Texts are these options as text; "": the file does not say.
func (c Class) Texts() (texts [3]string) {
	if c.Timeout != nil {
		texts[0] = c.Timeout.String()
	}
	if c.Retries != nil {
		texts[1] = strconv.Itoa(*c.Retries)
		if *c.Retries < 0 {
			texts[1] = "unlimited"
		}
	}
	var all []string
	for _, l := range c.Limits {
		all = append(all, strings.TrimSpace(l.Numbers+" "+l.Key))
	}
	texts[2] = strings.Join(all, ", ")
	return texts
}

// ClassLimit is a limit of a class, as a configuration file has it.
type ClassLimit struct {
	Numbers string // "3", or a rate as in "5/s"
	Key     string // the place of the key in the arguments, as in "0.account"; "": the limit holds for all jobs together
}

// Info is a setting, for those that show all of them.
type Info struct {
	Field, Flag, Variable string
	Env                   []string // other variables
	Help                  string
	Live, Path            bool
}

// Table is the settings of a daemon, whatever their struct is.
type Table struct {
	Infos []Info

	// Check says what is wrong with the text given to a flag; nil: nothing.
	Check func(flag, text string) error

	// Redact takes a password out of a text given to a flag.
	Redact func(flag, text string) string

	// Resolve returns the settings from sources, without those of a program, and how long a stop takes at most; negative: without limit.
	Resolve func(from Sources) (all []Shown, stop time.Duration, err error)
}

// Flags returns the flags of all settings.
func (t Table) Flags() (flags []string) {
	for _, i := range t.Infos {
		flags = append(flags, i.Flag)
	}
	return flags
}

// IsPath reports whether the value of a setting is the path of a file.
func (t Table) IsPath(flag string) bool {
	return slices.ContainsFunc(t.Infos, func(i Info) bool { return i.Flag == flag && i.Path })
}

// NewTable returns the table of rows.
func NewTable[S any](rows []Row[S], resolve func(from Sources) ([]Shown, time.Duration, error)) Table {
	byFlag := make(map[string]Row[S])
	t := Table{Resolve: resolve}
	for _, r := range rows {
		if r.Flag != "" {
			byFlag[r.Flag] = r
			t.Infos = append(t.Infos, Info{r.Field, r.Flag, r.Variable(), r.Env, r.Help, r.Live, r.Path})
		}
	}
	t.Check = func(flag, text string) error { return byFlag[flag].Parse(new(S), text) }
	t.Redact = func(flag, text string) string { return byFlag[flag].redact(text) }
	return t
}

// Seat is what a daemon gives its configuration file.
type Seat struct {
	Table

	// Shards says that the daemon is one of Shards, which have URI and queues from the program.
	Shards bool

	// Reload reads the file again while the daemon runs. It refuses the file whole or applies it, and logs what it did.
	Reload func(ctx context.Context) error
}
