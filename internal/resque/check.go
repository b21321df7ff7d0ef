package resque

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

var proveScript = script("prove")

// Check reports whether the server can do what the scripts need: Redis 6.2 or newer
// (or Valkey), and a user that may run their commands on the namespace's keys.
func (s Store) Check(c redis.Conn, process string) error {
	if info, err := redis.String(c.Do("INFO", "server")); err == nil {
		if err := checkVersion(info); err != nil {
			return err
		}
	} else if c.Err() != nil {
		return err
	}
	var a Call
	a.Key(s.probe(process))
	refused, err := redis.Strings(a.Do(c, proveScript))
	if err != nil {
		return s.mayNotRun(err)
	}
	if len(refused) != 2 {
		return nil
	}
	reason := redis.Error(strings.TrimPrefix(refused[1], "-"))
	for _, passing := range []string{"READONLY ", "MISCONF ", "OOM ", "NOREPLICAS "} {
		if strings.HasPrefix(string(reason), passing) {
			return fmt.Errorf("running %s on keys of %s: %w", refused[0], s.ns, Explain(reason))
		}
	}
	return s.missing(refused[0]+" in scripts", "+"+strings.ToLower(refused[0]), reason)
}

// mayNotRun explains an error of running a script.
func (s Store) mayNotRun(err error) error {
	var reply redis.Error
	switch {
	case !errors.As(err, &reply) || !strings.HasPrefix(string(reply), "NOPERM "):
		return fmt.Errorf("running a script on the keys %s*: %w", s.ns, err)
	case strings.Contains(string(reply), " keys "):
		return s.missing("scripts on its keys", "~"+s.ns+"*", err)
	}
	return s.missing("scripts", "+eval +evalsha", err)
}

// missing is the error of a permission that the user lacks.
func (s Store) missing(what, rules string, err error) error {
	return fmt.Errorf("the Redis user may not run %s (the namespace is %s): add the ACL rule %s, or all of the minimal ACL in docs/redis.md; Redis says: %w",
		what, s.ns, rules, err)
}

// Evicts returns the policy by which the server deletes keys when its memory is
// full, or "" if it deletes none, or does not say.
func (s Store) Evicts(c redis.Conn) (policy string) {
	info, err := redis.String(c.Do("INFO", "memory"))
	if err != nil {
		return ""
	}
	limit := "0"
	for line := range strings.Lines(info) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "maxmemory":
			limit = value
		case "maxmemory_policy":
			policy = value
		}
	}
	if limit == "0" || policy == "noeviction" {
		return ""
	}
	return policy
}

// AppendOnly reports whether the server keeps an append-only file, and whether it says so at all.
func (s Store) AppendOnly(c redis.Conn) (on, known bool) {
	info, err := redis.String(c.Do("INFO", "persistence"))
	if err != nil {
		return false, false
	}
	for line := range strings.Lines(info) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == "aof_enabled" {
			return value == "1", true
		}
	}
	return false, false
}

func checkVersion(info string) error {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "redis_version" {
			continue
		}
		major, rest, _ := strings.Cut(value, ".")
		minor, _, _ := strings.Cut(rest, ".")
		a, err := strconv.Atoi(major)
		b, err2 := strconv.Atoi(minor)
		if err == nil && err2 == nil && (a < 6 || a == 6 && b < 2) {
			return fmt.Errorf("the server is Redis %s; goworker needs Redis 6.2 or newer, or Valkey", value)
		}
	}
	return nil
}
