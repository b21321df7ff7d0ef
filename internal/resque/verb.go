package resque

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Verb is an effect that a feature has written in Lua, because no single command of Redis does it. The
// file of a verb defines verbs.NAME(job, keys, args) and may define proofs.NAME.
// scripts/parts/rows.lua says what they are given, return and may use. A commit sends only the files
// of the verbs that it uses.
//
// A Lua error in a verb refuses only the job that brings it. A file that does not compile refuses
// every call that uses it, so a test must commit each verb once.
type Verb struct {
	name string
	lua  func() string // reads its file once
	many func() bool   // whether the file has a function for runs: see scripts/parts/ends.lua
}

// letters are what the name of a verb consists of.
const letters = "abcdefghijklmnopqrstuvwxyz"

var (
	ownVerbs  = []string{"head", "tail", "later", "hold"}
	verbNames sync.Map // a name to its Verb; written by NewVerb
)

// NewVerb returns the verb of a name, which consists of small letters, with its file. A line "--@" with the
// name of a file of scripts/parts has that file in its place. Call it for a package's variable. It panics
// if the file does not define the verb or another verb has the name.
func NewVerb(name, lua string) *Verb {
	checkVerb(name, lua)
	return addVerb(name, func() string { return joinParts(lua, scriptFiles) })
}

// LoadVerb returns the verb of a subpackage whose file is scripts/verbs/<name>.lua. As with a Script, it is read when it is
// first used; then LoadVerb panics like NewVerb.
func LoadVerb(files embed.FS, name string) *Verb {
	return addVerb(name, func() string {
		lua := ReadScript(files, "verbs/"+name)
		checkVerb(name, lua)
		return lua
	})
}

func checkVerb(name, lua string) {
	if !strings.Contains(lua, "function verbs."+name+"(") {
		panic(fmt.Sprintf("resque: the file of verb %s does not define verbs.%[1]s", name))
	}
}

func addVerb(name string, lua func() string) *Verb {
	v := &Verb{name: name, lua: sync.OnceValue(lua)}
	v.many = sync.OnceValue(func() bool { return strings.Contains(v.lua(), "function many."+name+"(") })
	if strings.Trim(name, letters) != "" || name == "" || slices.Contains(ownVerbs, name) {
		panic(fmt.Sprintf("resque: a verb cannot be named %q", name))
	}
	if known, taken := verbNames.LoadOrStore(name, v); taken {
		lua := v.lua()
		if v = known.(*Verb); v.lua() != lua {
			panic(fmt.Sprintf("resque: two verbs are named %s", name))
		}
	}
	return v
}

// Effect is one use of the verb. Redis proves the types of all keys before it writes the first row of
// the job.
func (v *Verb) Effect(keys []Key, args ...any) Effect {
	return Effect{verb: v.name, keys: keys, args: args, file: v}
}

// The verbs of this package.
var (
	refund      = ownVerb("refund")
	delayVerb   = ownVerb("delay")
	lockVerb    = ownVerb("lock")
	replaceVerb = ownVerb("replace")
	aheadVerb   = ownVerb("ahead")
	goneVerb    = ownVerb("gone")
	unleaseVerb = ownVerb("unlease")
)

func ownVerb(name string) *Verb { return LoadVerb(scriptFiles, name) }

const (
	verbsPart = "verbs"
	verbsMark = partMark + verbsPart + "\n" // the line that the files of verbs replace
)

// joinVerbs puts the files of verbs into a script. An error while a file is read leaves its verb
// undefined, which refuses the jobs that use it.
func joinVerbs(text string, verbs []*Verb) string {
	var files strings.Builder
	for _, v := range verbs {
		fmt.Fprintf(&files, "pcall(function()\n%s\nend)\n", v.lua())
	}
	return strings.Replace(text, verbsMark, files.String(), 1)
}

// rowScript is a script that writes rows, with the verbs they use. It is safe for concurrent use.
type rowScript struct {
	text   func() string // with the mark
	plain  *Script
	joined sync.Map // the names of verbs to the *Script
}

func newRowScript(name string) *rowScript {
	return newRows(func() string { return readParts(name) })
}

func newRows(read func() string) *rowScript {
	text := sync.OnceValue(read)
	return &rowScript{text: text, plain: newScript(func() string { return joinVerbs(text(), nil) })}
}

// with returns the script for some verbs.
func (r *rowScript) with(verbs []*Verb) *Script {
	if len(verbs) == 0 {
		return r.plain
	}
	verbs = distinct(verbs)
	names := make([]string, len(verbs))
	for i, v := range verbs {
		names[i] = v.name
	}
	key := strings.Join(names, " ")
	script, ok := r.joined.Load(key)
	if !ok {
		script, _ = r.joined.LoadOrStore(key, newScript(func() string { return joinVerbs(r.text(), verbs) }))
	}
	return script.(*Script)
}

// distinct returns each of the verbs once, by name. The list may be used no more: what is left behind of it is cleared.
func distinct(verbs []*Verb) []*Verb {
	slices.SortFunc(verbs, func(a, b *Verb) int { return strings.Compare(a.name, b.name) })
	return slices.Compact(verbs)
}

// addVerbs appends the verbs that some effects use. Most use none.
func addVerbs(verbs []*Verb, effects []Effect) []*Verb {
	for i := range effects {
		if v := effects[i].file; v != nil && (len(verbs) == 0 || verbs[len(verbs)-1] != v) {
			verbs = append(verbs, v)
		}
	}
	return verbs
}
