package resque

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// need is a command that workers send, with arguments for a key of the namespace: * stands for the key, and & for the channel of the
// notice.
type need struct{ command string }

// needed are the commands without which a worker does not run. The minimal ACL of docs/redis.md has their rules, and a test
// compares both.
var needed = []need{
	{"PING"}, {"SELECT 0"}, {"INFO"}, {"TIME"}, {"SCAN 0"},
	{"EXISTS *"}, {"GET *"}, {"SET * 1"}, {"MSET * 1"}, {"GETRANGE * 0 0"}, {"SETRANGE * 0 1"}, {"STRLEN *"}, {"BITCOUNT *"},
	{"DEL *"}, {"UNLINK *"}, {"EXPIRE * 9"}, {"PEXPIRE * 9000"}, {"INCRBY * 1"}, {"EVAL return 1 *"}, {"EVALSHA 1 1 *"},
	{"RPUSH * 1"}, {"LPUSH * 1"}, {"LPOP * 9"}, {"LRANGE * 0 0"}, {"LLEN *"}, {"LINDEX * 0"}, {"LSET * 0 1"}, {"LREM * 0 1"},
	{"LPOS * 1"}, {"LTRIM * 0 -1"}, {"LINSERT * BEFORE 1 2"},
	{"SADD * 1"}, {"SREM * 1"}, {"SMEMBERS *"}, {"SSCAN * 0"}, {"SCARD *"}, {"SISMEMBER * 1"}, {"SMISMEMBER * 1"},
	{"HGET * 1"}, {"HSET * 1 1"}, {"HSETNX * 1 1"}, {"HDEL * 1"}, {"HEXISTS * 1"}, {"HLEN *"}, {"HKEYS *"}, {"HGETALL *"},
	{"HMGET * 1"}, {"HINCRBY * 1 1"}, {"HSTRLEN * 1"}, {"HSCAN * 0"},
	{"ZADD * 1 1"}, {"ZSCORE * 1"}, {"ZMSCORE * 1"}, {"ZRANGE * 0 0"}, {"ZRANGEBYSCORE * 0 1"}, {"ZREM * 1"},
	{"ZREMRANGEBYRANK * 9 9"}, {"ZREMRANGEBYSCORE * 0 1"}, {"ZSCAN * 0"}, {"ZCARD *"}, {"MGET *"}, {"MULTI"}, {"EXEC"},
}

// notified are the commands without which Redis does not notify a worker of new jobs and of operators' commands, or the worker cannot
// read those commands and write into the log of the fleet.
var notified = []need{
	{"SUBSCRIBE " + invalidations}, {"SUBSCRIBE &"}, {"CLIENT ID"}, {"CLIENT TRACKING OFF"}, {"CLIENT CACHING YES"},
	{"XADD * 1-1 1 1"}, {"XRANGE * - +"},
}

// Refusals are the rules that a Redis user lacks.
type Refusals struct {
	User  string
	Needs []string // rules of commands without which a worker does not run
	Nudge []string // rules without which it learns late of new jobs and of operators' commands, or not of the latter
}

// RefusedTo asks Redis which commands of a worker it would refuse to a user.
func (s Store) RefusedTo(c redis.Conn, user string) (r Refusals, err error) {
	r.User = user
	if r.Needs, err = s.refusedTo(c, user, needed); err == nil {
		r.Nudge, err = s.refusedTo(c, user, notified)
	}
	return r, err
}

func (s Store) refusedTo(c redis.Conn, user string, needs []need) (rules []string, err error) {
	b := Batch{Conn: c}
	for _, n := range needs {
		b.Send("ACL", append([]any{"DRYRUN", user}, s.tried(n)...)...)
	}
	replies, err := b.Receive()
	if err != nil {
		return nil, err
	}
	for i, n := range needs {
		said, err := redis.String(Answer(replies[i]))
		if err != nil {
			return nil, s.denied("ACL DRYRUN", "+acl|dryrun", err)
		}
		switch said = strings.ToLower(said); {
		case said == "ok":
			continue
		case strings.Contains(said, " channel"):
			rules = append(rules, fmt.Sprint("&", s.tried(n)[1]))
		case strings.Contains(said, " key"):
			rules = append(rules, "~"+s.ns+"*")
		default:
			rules = append(rules, n.rule())
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules), nil
}

// tried is a command with its arguments.
func (s Store) tried(n need) (command []any) {
	words := strings.Fields(n.command)
	switch words[0] {
	case "EVAL": // a script, how many keys, the key
		return []any{"EVAL", "return 1", 1, s.probe("doctor")}
	}
	for _, word := range words {
		switch word {
		case "*":
			word = s.probe("doctor")
		case "&":
			word = s.NoticeChannel()
		}
		command = append(command, word)
	}
	return command
}

// rule is the ACL rule that allows a command.
func (n need) rule() string {
	words := strings.Fields(strings.ToLower(n.command))
	if words[0] == "client" {
		return "+client|" + words[1]
	}
	return "+" + words[0]
}

// WorkerUsers returns the Redis users whose connections look like those of goworker's workers, sorted, and the user that asks. They
// have connections that are notified of changed keys, or at least some that run scripts. The user that asks is never among them,
// since its own connections look the same.
func (s Store) WorkerUsers(c redis.Conn) (users []string, asks string, err error) {
	if asks, err = redis.String(s.ask(c, "ACL", "WHOAMI")); err != nil {
		return nil, "", err
	}
	clients, err := s.Clients(c)
	var scripts []string
	for _, client := range clients {
		switch {
		case client.User == asks:
		case client.Tracking:
			users = append(users, client.User)
		case client.RunsScripts():
			scripts = append(scripts, client.User)
		}
	}
	if len(users) == 0 {
		users = scripts
	}
	slices.Sort(users)
	return slices.Compact(users), asks, err
}

// Reaches reports whether the user may use keys of the namespace at all.
func (r Refusals) Reaches() bool {
	return !slices.ContainsFunc(r.Needs, func(rule string) bool { return strings.HasPrefix(rule, "~") })
}
