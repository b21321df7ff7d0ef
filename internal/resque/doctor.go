package resque

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/pattern"
)

// DeniedError says that Redis did not answer a question of an operator: the user may not ask it, or the server does not
// know the command.
type DeniedError struct {
	Command string
	Rule    string // the ACL rule that the user lacks; "": the server does not know the command
	Err     error
}

func (e *DeniedError) Error() string {
	if e.Rule == "" {
		return "this server does not know " + e.Command
	}
	return "this Redis user may not run " + e.Command
}

func (e *DeniedError) Unwrap() error { return e.Err }

// denied turns the error of a command that Redis denies to this user, or to all, into a DeniedError. The rule is that of the
// command; where a key is refused it is the namespace's.
func (s Store) denied(command, rule string, err error) error {
	var refused redis.Error
	if !errors.As(err, &refused) {
		return err
	}
	text := strings.ToLower(string(refused))
	switch {
	case strings.HasPrefix(text, "noperm ") && strings.Contains(text, " key"):
		return &DeniedError{Command: command + " on these keys", Rule: "~" + s.ns + "*", Err: err}
	case strings.HasPrefix(text, "noperm "):
		return &DeniedError{Command: command, Rule: rule, Err: err}
	case strings.HasPrefix(text, "err unknown command"), strings.HasPrefix(text, "err unknown subcommand"):
		return &DeniedError{Command: command, Err: err}
	}
	return fmt.Errorf("running %s: %w", command, err)
}

// quotedCommand is the command that a refusal of Redis names.
var quotedCommand = pattern.New(`'([a-z|]+)' command`)

// Denied returns what an error says that Redis denies to this user, whichever call it comes from: a command, or keys.
func (s Store) Denied(err error) (*DeniedError, bool) {
	var denied *DeniedError
	var refused redis.Error
	switch {
	case errors.As(err, &denied):
		return denied, true
	case !errors.As(err, &refused):
		return nil, false
	}
	text := strings.ToLower(string(refused))
	switch named := quotedCommand.FindStringSubmatch(text); {
	case strings.HasPrefix(text, "err "+strings.ToLower(deniedInScript)):
		return &DeniedError{Command: "a command of a script", Rule: "that ACL LOG names", Err: err}, true
	case !strings.HasPrefix(text, "noperm "):
		return nil, false
	case named != nil:
		return &DeniedError{Command: strings.ToUpper(strings.Replace(named[1], "|", " ", 1)), Rule: "+" + named[1], Err: err}, true
	case strings.Contains(text, " key"):
		return &DeniedError{Command: "commands on these keys", Rule: "~" + s.ns + "*", Err: err}, true
	}
	return &DeniedError{Command: "a command", Rule: "that ACL LOG names", Err: err}, true
}

// ask runs a command that only operators need. An error is a DeniedError where the user lacks a permission.
func (s Store) ask(c redis.Conn, command string, args ...any) (any, error) {
	reply, err := c.Do(command, args...)
	if err == nil {
		return reply, nil
	}
	name, rule := command, "+"+strings.ToLower(command)
	if sub, ok := subcommand(command, args); ok {
		name, rule = command+" "+sub, rule+"|"+strings.ToLower(sub)
	}
	return nil, s.denied(name, rule, err)
}

// subcommand is the first argument of a command that has several meanings.
func subcommand(command string, args []any) (sub string, ok bool) {
	switch command {
	case "CONFIG", "CLIENT", "ACL", "SLOWLOG", "MEMORY", "CLUSTER", "OBJECT":
		sub, ok = args[0].(string)
	}
	return sub, ok
}

// ServerInfo is what the command INFO says of a server, by the names of its lines.
type ServerInfo map[string]string

// ServerInfo asks Redis about itself.
func (s Store) ServerInfo(c redis.Conn) (ServerInfo, error) {
	text, err := redis.String(s.ask(c, "INFO"))
	if err != nil {
		return nil, err
	}
	return parseInfo(text), nil
}

// Text is a line's value, or "" if there is none.
func (i ServerInfo) Text(name string) string { return i[name] }

// Number is a line's value as a number. It returns false if the line is missing or is no number.
func (i ServerInfo) Number(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(i[name], 10, 64)
	return n, err == nil
}

// Refuses reports whether a server refuses a write that it would take at another time or on another node: it is a replica,
// out of memory, or cannot save.
func Refuses(err error) bool {
	var refused redis.Error
	if !errors.As(err, &refused) {
		return false
	}
	code, _, _ := strings.Cut(string(refused), " ")
	switch code {
	case "READONLY", "OOM", "MISCONF", "NOREPLICAS", "CLUSTERDOWN":
		return true
	}
	return false
}

// IsCrossSlot reports whether a Cluster refused a command because its keys lie on several nodes.
func IsCrossSlot(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused) && strings.HasPrefix(string(refused), "CROSSSLOT ")
}
