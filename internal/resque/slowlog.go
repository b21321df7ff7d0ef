package resque

import (
	"strconv"
	"strings"

	"github.com/goworker/goworker/internal/pattern"
)

// Redis cuts long arguments in its slow log, and leaves out those behind the first 31.
var (
	moreBytes     = pattern.New(`\.\.\. \((\d+) more bytes\)$`)
	moreArguments = pattern.New(`^\.\.\. \((\d+) more arguments\)$`)
)

// mostShown is how many words of a command the slow log has; the last of so many may stand for others.
const mostShown = 32

// Verb is the command's name in capitals, without its arguments. A program can send any text as a name: what is none is "?".
func (c SlowCommand) Verb() string {
	name := strings.ToUpper(c.Args[0])
	if len(name) > 40 || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._|-") != "" {
		return "?"
	}
	return name
}

// Weigh returns how many arguments the command had, and their bytes. The bytes of those that Redis left out are not counted.
func (c SlowCommand) Weigh() (arguments int, bytes int64) {
	for i, arg := range c.Args[1:] {
		if left := moreArguments.FindStringSubmatch(arg); left != nil && i+2 == mostShown {
			n, _ := strconv.Atoi(left[1])
			return arguments + n, bytes
		}
		arguments++
		bytes += int64(len(arg))
		if cut := moreBytes.FindStringSubmatch(arg); cut != nil {
			n, _ := strconv.ParseInt(cut[1], 10, 64)
			bytes += n - int64(len(cut[0]))
		}
	}
	return arguments, bytes
}

// KeyOfSlow returns the first key of a command of the slow log, if it is in the namespace. It looks only where the command has a key.
func (s Store) KeyOfSlow(c SlowCommand) string {
	at := 1
	switch c.Verb() {
	case "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO":
		at = 3
		if len(c.Args) < 3 || c.Args[2] == "0" {
			return ""
		}
	case "OBJECT", "MEMORY", "XGROUP", "XINFO", "BITOP":
		at = 2
	case "PUBLISH", "SPUBLISH", "SCAN", "KEYS", "CONFIG", "CLIENT", "ACL", "SCRIPT", "AUTH", "HELLO", "SELECT", "ECHO", "PING", "XREAD", "XREADGROUP", "?":
		return ""
	}
	if at >= len(c.Args) || !strings.HasPrefix(c.Args[at], s.ns) {
		return ""
	}
	return c.Args[at]
}
