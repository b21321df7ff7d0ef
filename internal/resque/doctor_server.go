package resque

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Config returns a setting of the server, or "" if it has none of this name.
func (s Store) Config(c redis.Conn, name string) (string, error) {
	found, err := redis.StringMap(s.ask(c, "CONFIG", "GET", name))
	return found[name], err
}

// ServerTime asks Redis for its time.
func (s Store) ServerTime(c redis.Conn) (time.Time, error) {
	v, err := redis.Int64s(s.ask(c, "TIME"))
	if err == nil && len(v) != 2 {
		err = fmt.Errorf("asking Redis for the time: %w", ErrAnswer)
	}
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(v[0], v[1]*1000), nil
}

// PingServer sends a PING and waits for its answer.
func (s Store) PingServer(c redis.Conn) error {
	_, err := s.ask(c, "PING")
	return err
}

// ClockAhead returns how far the clock of limits is ahead of Redis's own, because that went back.
func (s Store) ClockAhead(c redis.Conn) (time.Duration, error) {
	text, err := redis.String(s.ask(c, "GET", s.clock()))
	if err == redis.ErrNil {
		return 0, nil
	}
	ahead, _, _ := strings.Cut(text, " ")
	us, _ := strconv.ParseInt(ahead, 10, 64)
	return time.Duration(us) * time.Microsecond, err
}

// SlowCommand is a command of the server's slow log.
type SlowCommand struct {
	At     time.Time
	Took   time.Duration
	Args   []string // the command and its arguments; Redis cuts long ones
	Client string   // host:port
	Name   string   // that the client gave itself, or ""
}

// SlowCommands returns the newest commands of the slow log, at most so many.
func (s Store) SlowCommands(c redis.Conn, most int) (all []SlowCommand, err error) {
	entries, err := redis.Values(s.ask(c, "SLOWLOG", "GET", most))
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		var id, at, took int64
		var slow SlowCommand
		fields, err := redis.Values(entry, nil)
		if err == nil {
			_, err = redis.Scan(fields, &id, &at, &took, &slow.Args, &slow.Client, &slow.Name)
		}
		if err != nil || len(slow.Args) == 0 {
			return nil, fmt.Errorf("reading the slow log: %w", ErrAnswer)
		}
		slow.At, slow.Took = time.Unix(at, 0), time.Duration(took)*time.Microsecond
		all = append(all, slow)
	}
	return all, nil
}

// Client is a connection that the server has.
type Client struct {
	Address  string // of the client's end, without its port
	Command  string // its last one: "evalsha", "client|caching"
	User     string
	Tracking bool // Redis notifies it, or another connection for it, of changed keys
}

// Clients returns the connections of the server.
func (s Store) Clients(c redis.Conn) (all []Client, err error) {
	text, err := redis.String(s.ask(c, "CLIENT", "LIST"))
	for line := range strings.Lines(text) {
		client := Client{User: "default"}
		for field := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(field, "=")
			switch name {
			case "addr":
				client.Address = value
				if at := strings.LastIndexByte(value, ':'); at >= 0 {
					client.Address = value[:at]
				}
			case "cmd":
				client.Command = value
			case "user":
				client.User = value
			case "flags":
				client.Tracking = strings.Contains(value, "t")
			}
		}
		all = append(all, client)
	}
	return all, err
}

// RunsScripts reports whether the connection's last command is one of those that goworker sends and Ruby's programs do not.
func (c Client) RunsScripts() bool {
	return slices.Contains([]string{"eval", "evalsha", "subscribe", "client|caching", "client|tracking", "script|load"}, c.Command)
}

// KeySize is a key and how much memory it takes.
type KeySize struct {
	Key   string // without the namespace
	Bytes int64
}

// LargestKeys returns the largest ones of the lists of the queues and of the single keys that grow with the number of jobs.
func (s Store) LargestKeys(c redis.Conn, queues []string, most int) ([]KeySize, error) {
	keys := []string{s.failed(), s.KeyOfSchedule(), s.KeyOfSeconds(), s.audit(), s.ns + "go:leased", s.ns + "go:returned", s.KeyOfCancelled()}
	for _, q := range queues {
		keys = append(keys, s.KeyOfQueue(q))
	}
	b := Batch{Conn: c}
	for _, key := range keys {
		b.Send("MEMORY", "USAGE", key)
	}
	replies, err := b.Receive()
	if err != nil {
		return nil, err
	}
	var sizes []KeySize
	for n, key := range keys {
		size, err := redis.Int64(Answer(replies[n]))
		if err == redis.ErrNil {
			continue
		}
		if err != nil {
			return nil, s.denied("MEMORY USAGE", "+memory|usage", err)
		}
		sizes = append(sizes, KeySize{strings.TrimPrefix(key, s.ns), size})
	}
	slices.SortStableFunc(sizes, func(a, b KeySize) int { return int(b.Bytes/1024 - a.Bytes/1024) })
	return sizes[:min(most, len(sizes))], nil
}

// Tracks finds out whether Redis notifies a client of changed keys, with a key of its own. The two connections may be used
// for nothing else afterwards.
func (s Store) Tracks(conn, wake redis.Conn) error {
	err := s.TrackReads(conn, wake)
	if denied, ok := s.Denied(err); ok {
		return denied
	}
	return s.denied("CLIENT", "", err)
}

// KeyOfPauseAll is the string that pauses all workers of Ruby and of goworker.
func (s Store) KeyOfPauseAll() string { return s.pauseAll() }
