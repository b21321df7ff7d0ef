package history

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// MostLogged is about how many lines the log keeps.
const MostLogged = 5000

// LogKey is the stream of what happened to processes.
func (s Store) LogKey() resque.Key { return s.StreamKey("log") }

// Line is a line of the log.
type Line struct {
	ID   string // of the stream; "" before it is written
	At   time.Time
	Kind string
	Text map[string]string // further fields
}

// The kinds of a Line that processes write.
const (
	Online  = "online"  // a process came
	Offline = "offline" // it left
	Lost    = "lost"    // another one found it dead

	PartRestarted = "part-restarted" // a part of it has failed, and is started again
	PartFailed    = "part-failed"    // a part of it has failed for good, so it stops

	MaxRSS = "max-rss" // its memory is above its setting MaxRSS, so it stops

	WebhookDead = "webhook-dead" // a delivery of a webhook has failed for good

	Deploy = "deploy" // a program or an operator said that a version was deployed

	RuleEnded    = "rule-ended"    // the time of a rule of operators was over, and it has taken it away
	RuleRestored = "rule-restored" // a process of an older release had overwritten what a rule says
)

// MostVersion is how many bytes the version of a program has at most.
const MostVersion = 100

// IsVersion reports whether a text can be the version of a program.
func IsVersion(text string) bool {
	return text != "" && len(text) <= MostVersion && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// LogDeploy writes a line about a deploy at once.
func (s Store) LogDeploy(c redis.Conn, version, text, by string) error {
	_, err := c.Do("XADD", s.Logged(Deploy, "", "app", version, "text", text, "by", by)...)
	if err != nil {
		return fmt.Errorf("writing a deploy into the log of the fleet: %w", resque.Explain(err))
	}
	return nil
}

// Log has a renewal write a line about a process. fields are names and values beside each other. heard gets the error with which
// Redis refused it.
func (s Store) Log(c *resque.Cargo, heard func(error), kind, process string, fields ...any) {
	c.Write(heard, "XADD", s.LogKey(), logged(kind, process, fields)...)
}

// Logged returns the arguments of the XADD that writes a line at once.
func (s Store) Logged(kind, process string, fields ...any) []any {
	return append([]any{s.LogKey().String()}, logged(kind, process, fields)...)
}

// logged are the arguments behind the key.
func logged(kind, process string, fields []any) []any {
	return append([]any{"MAXLEN", "~", MostLogged, "*", "kind", kind, "process", process}, fields...)
}

// ReadLog returns lines behind that of an id, the oldest first; with "" the newest ones.
func (s Store) ReadLog(c redis.Conn, after string, most int) (lines []Line, err error) {
	var reply any
	if after == "" {
		reply, err = c.Do("XREVRANGE", s.LogKey().String(), "+", "-", "COUNT", most)
	} else {
		reply, err = c.Do("XRANGE", s.LogKey().String(), "("+after, "+", "COUNT", most)
	}
	entries, err := redis.Values(reply, err)
	if err != nil {
		return nil, fmt.Errorf("reading the log of the fleet: %w", resque.Explain(err))
	}
	for _, e := range entries {
		pair, err := redis.Values(e, nil)
		if err != nil || len(pair) != 2 {
			return nil, fmt.Errorf("reading the log of the fleet: %w", resque.ErrAnswer)
		}
		id, err := redis.String(pair[0], nil)
		if err != nil {
			return nil, fmt.Errorf("reading the log of the fleet: %w", err)
		}
		line := Line{ID: id}
		if line.Text, err = redis.StringMap(pair[1], nil); err != nil {
			return nil, fmt.Errorf("reading the log of the fleet: %w", err)
		}
		ms, _, _ := strings.Cut(id, "-")
		if n, err := strconv.ParseInt(ms, 10, 64); err == nil {
			line.At = time.UnixMilli(n).UTC()
		}
		line.Kind = line.Text["kind"]
		delete(line.Text, "kind")
		lines = append(lines, line)
	}
	if after == "" {
		slices.Reverse(lines)
	}
	return lines, nil
}
