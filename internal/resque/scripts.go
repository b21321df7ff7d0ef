package resque

import (
	"embed"
	"fmt"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"
)

//go:embed scripts
var scriptFiles embed.FS

// Script is a Lua script, which is read when it is first used: the child process of an isolated job uses few of them, and
// starts for that job alone. Each call gives the number of keys, since most scripts take a list of queues. It is safe for
// concurrent use.
type Script struct{ load func() *loadedScript }

func newScript(read func() string) *Script {
	return &Script{sync.OnceValue(func() *loadedScript {
		text := read()
		s := redis.NewScript(-1, text)
		return &loadedScript{script: s, hash: s.Hash(), text: text, hashArg: s.Hash(), textArg: text}
	})}
}

type loadedScript struct {
	script           *redis.Script
	hash, text       string
	hashArg, textArg any // the same, as arguments that cost no allocation
}

// Text returns the script as it is sent to Redis.
func (s *Script) Text() string { return s.load().text }

// Hash returns the digest by which Redis knows the script.
func (s *Script) Hash() string { return s.load().hash }

// Do runs the script. One that Redis does not know is sent as text.
func (s *Script) Do(c redis.Conn, args ...any) (any, error) { return s.load().script.Do(c, args...) }

// Send sends the script as text, without waiting for its answer.
func (s *Script) Send(c redis.Conn, args ...any) error { return s.load().script.Send(c, args...) }

// SendHash sends a call by the script's digest, without waiting for its answer.
func (s *Script) SendHash(c redis.Conn, args ...any) error {
	return s.load().script.SendHash(c, args...)
}

// script is one Lua file of this package.
func script(name string) *Script {
	return newScript(func() string { return scriptText(name) })
}

// scriptText returns a script as it is sent to Redis, without verbs of features.
func scriptText(name string) string { return joinVerbs(readParts(name), nil) }

// readParts reads a script and the parts that it shares with others. A line "--@" with the part's
// name marks the place of a part.
func readParts(name string) string { return joinParts(readScript(scriptFiles, name), scriptFiles) }

// partMark begins a line that ends with the name of a part.
const partMark = "--@"

// joinParts puts parts, which are files of scripts/parts, into a script. A part that a subpackage does not have is one of
// this package. "verbs" is the mark of joinVerbs.
func joinParts(text string, files embed.FS) string {
	var joined strings.Builder
	for {
		before, rest, found := cutPart(text)
		joined.WriteString(before)
		if !found {
			return joined.String()
		}
		name, after, _ := strings.Cut(rest, "\n")
		text = after
		if name == verbsPart {
			joined.WriteString(verbsMark)
		} else if _, err := files.Open("scripts/parts/" + name + ".lua"); err != nil {
			joined.WriteString(joinParts(readScript(scriptFiles, "parts/"+name), scriptFiles))
		} else {
			joined.WriteString(joinParts(readScript(files, "parts/"+name), files))
		}
	}
}

// cutPart cuts a text around the first mark of a part, which begins a line.
func cutPart(text string) (before, after string, found bool) {
	if after, found = strings.CutPrefix(text, partMark); found {
		return "", after, true
	}
	before, after, found = strings.Cut(text, "\n"+partMark)
	if found {
		before += "\n"
	}
	return before, after, found
}

// LoadScript returns scripts/<name>.lua of a subpackage, with the subpackage's parts.
func LoadScript(files embed.FS, name string) *Script {
	return newScript(func() string { return ReadScript(files, name) })
}

// ReadScript returns the text of scripts/<name>.lua of a subpackage, with the subpackage's parts.
func ReadScript(files embed.FS, name string) string { return joinParts(readScript(files, name), files) }

func readScript(files embed.FS, name string) string {
	text, err := files.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(fmt.Sprintf("resque: script %s.lua is not embedded: %v", name, err))
	}
	return string(text)
}

// Scripts returns the scripts of this package by name, as they are sent to Redis. A script that is joined
// with one verb has both names: the commit of jobs that give back the start of a rate is "commit+refund".
func Scripts() map[string]string {
	texts := scriptsIn(scriptFiles, scriptText)
	for _, v := range []*Verb{delayVerb, lockVerb, replaceVerb, aheadVerb, goneVerb} {
		texts["push+"+v.name] = pushScript.with([]*Verb{v}).Text()
	}
	verbNames.Range(func(name, v any) bool { // of the features that are linked too
		texts["commit+"+name.(string)] = commitScript.with([]*Verb{v.(*Verb)}).Text()
		texts["ends+"+name.(string)] = exchangeEnds.with([]*Verb{v.(*Verb)}).Text()
		return true
	})
	texts["seated"] = seatedScript.Text()
	texts["ends"] = exchangeEnds.plain.Text() // the exchange with ends that have effects
	return texts
}

// ScriptsOf returns the scripts of a subpackage by name.
func ScriptsOf(files embed.FS) map[string]string {
	return scriptsIn(files, func(name string) string { return ReadScript(files, name) })
}

func scriptsIn(files embed.FS, text func(name string) string) map[string]string {
	entries, _ := files.ReadDir("scripts")
	texts := make(map[string]string, len(entries))
	for _, f := range entries {
		if name, ok := strings.CutSuffix(f.Name(), ".lua"); ok {
			texts[name] = text(name)
		}
	}
	return texts
}

// Call collects the arguments of one script call: keys first, then values.
// Keys are numbered as Lua numbers them, from 1, so that a script's ARGV can
// point at one of its KEYS.
type Call struct {
	keys   []any
	argv   []any
	before int // elements of keys before the first one
}

// Key adds a key and returns its number.
func (c *Call) Key(name string) int {
	c.keys = append(c.keys, name)
	return len(c.keys) - c.before
}

// Arg adds values.
func (c *Call) Arg(v ...any) { c.argv = append(c.argv, v...) }

// Values returns how many values were added.
func (c *Call) Values() int { return len(c.argv) }

// Args returns the arguments of EVALSHA behind the script's hash.
func (c *Call) Args() []any {
	args := make([]any, 0, 1+len(c.keys)+len(c.argv))
	args = append(args, len(c.keys))
	args = append(args, c.keys...)
	return append(args, c.argv...)
}

// Parts returns the keys and the values, for a script that does what this call's script does among other things.
func (c *Call) Parts() (keys, values []any) { return c.keys[c.before:], c.argv }

// Do runs the script.
func (c *Call) Do(conn redis.Conn, s *Script) (any, error) {
	return s.Do(conn, c.Args()...)
}
