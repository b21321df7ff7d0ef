// Package control knows how commands reach processes, and how they answer: the keys, the scripts and the bytes.
//
// A command is an entry of a stream. Two things announce it: a message of a channel, which a process receives on a connection that waits
// anyway, and a field of the notice, which every renewal of a lease reads. So a lost message costs the delay of a renewal. What must last
// is a rule: it is in a hash of its own, and the same step writes it.
package control

import (
	"embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

//go:embed scripts
var scriptFiles embed.FS

var (
	announceScript = resque.LoadScript(scriptFiles, "announce")
	tellScript     = resque.LoadScript(scriptFiles, "tell")
	listenScript   = resque.LoadScript(scriptFiles, "listen")
	answerScript   = resque.LoadScript(scriptFiles, "answer")
)

// Scripts returns the scripts of this package by name, as they are sent to Redis.
func Scripts() map[string]string { return resque.ScriptsOf(scriptFiles) }

const (
	// MostCommands is about how many commands the stream keeps.
	MostCommands = 1000
	// CommandsKept is how long the stream stays after its last command.
	CommandsKept = time.Hour
	// NoticeKept is the TTL of the notice after its last change: a little longer than a webhook is announced whose deliverers are away. A
	// process that finds a field gone looks once whether anything has changed, so it loses nothing.
	NoticeKept = 25 * time.Hour
	// MostNotices is how many fields the notice has at most.
	MostNotices = 20
	// MostRules is how many rules there are at most.
	MostRules = 1000
	// MostRuleBytes is how many bytes a rule's name and value have together at most.
	MostRuleBytes = 1024
	// MostMessage is how many bytes a message has at most.
	MostMessage = 8 << 10

	// AnswersKept is how long answers stay after the last one.
	AnswersKept = time.Minute
	// PieceBytes is how many bytes a piece of an answer has at most.
	PieceBytes = 64 << 10
	// MostAnswered is how many bytes all answers to one command have at most.
	MostAnswered = 32 << 20
	// roomForRefusals is how many bytes beyond MostAnswered processes may use to answer that their answers found no room.
	roomForRefusals = 1 << 20
)

// The fields of the notice that this package writes.
const (
	CommandNotice = "command" // the id of the newest command
	RulesNotice   = "rules"   // the number of the last change of the rules
)

// Store is resque's Store with the words of control.
type Store struct{ resque.Store }

// New returns the Store of control in a namespace.
func New(s resque.Store) Store { return Store{s} }

// NoticeKey is the hash that announces changes, with a field for each kind. If it is gone, nothing has changed for NoticeKept.
func (s Store) NoticeKey() resque.Key { return s.HashKey("notice") }

// CommandsKey is the stream of the commands: the fields "m", the message, and "s", its signature.
func (s Store) CommandsKey() resque.Key { return s.StreamKey("control") }

// RulesKey is the hash of the rules that operators set: name to value.
func (s Store) RulesKey() resque.Key { return s.HashKey("rules") }

// ReplyKey is the stream of the answers to a command, in pieces.
func (s Store) ReplyKey(id string) resque.Key { return s.StreamKey("reply:" + id) }

// ReplySizeKey is the string that has how many bytes these answers have.
func (s Store) ReplySizeKey(id string) resque.Key { return s.TextKey("reply:" + id + ":n") }

// Errors of Announce and Tell.
var (
	ErrChanged = errors.New("it was changed meanwhile")
	ErrFull    = errors.New("there is no room for more")
)

// Rule is a change of a rule.
type Rule struct {
	Name  string
	Value string // "": it is removed

	// Was is what the rule must be now; "": there must be none. With Any the rule may have any value.
	Was string
	Any bool
}

// Announcement is what one step writes. Any part of it may be missing.
type Announcement struct {
	Message   []byte // of a command: Sign makes it
	Signature string
	Rules     []Rule
	Changes   []Change // of paused queues and limits, which follow from the rules
	Audit     []byte   // the line of the audit, as JSON
}

// Announced is what a step has done.
type Announced struct {
	ID     string // of the command in the stream; "": there was none
	Number string // of the change of the rules, another one each time; "": there was none
	Heard  int    // how many clients of Redis received the message; -1: the user may not use the channel
}

// Announce writes all of an announcement or nothing. The error wraps ErrChanged if a rule is not as it must be, and ErrFull if there are
// too many rules.
func (s Store) Announce(c redis.Conn, an Announcement) (done Announced, err error) {
	const doing = "announcing it to processes: %w"
	if len(an.Message) > MostMessage {
		return done, fmt.Errorf(doing, fmt.Errorf("the command has %d bytes, and %d are allowed", len(an.Message), MostMessage))
	}
	var a resque.Call
	a.Key(s.NoticeKey().String())
	a.Key(s.CommandsKey().String())
	a.Key(s.RulesKey().String())
	a.Key(s.AuditKey())
	if len(an.Changes) > 0 { // a user that may only ask processes lacks the permission for these keys
		a.Key(s.LimitsKey().String())
		a.Key(s.PausedKey().String())
	}
	a.Arg(s.NoticeChannel(), NoticeKept.Milliseconds(), CommandsKept.Milliseconds(), MostCommands, MostRules, an.Audit, resque.MostAudited, an.Message, an.Signature, len(an.Rules))
	for _, r := range an.Rules {
		if n := len(r.Name) + len(r.Value); r.Name == "" || n > MostRuleBytes {
			return done, fmt.Errorf(doing, fmt.Errorf("the rule %q needs a name, and has %d bytes where %d are allowed", r.Name, n, MostRuleBytes))
		}
		was := must(r.Was)
		if r.Any {
			was = ""
		}
		a.Arg(r.Name, was, must(r.Value))
	}
	for _, change := range an.Changes {
		a.Arg(change.command, change.what, change.number)
	}
	reply, err := redis.Values(a.Do(c, announceScript))
	if err != nil {
		return done, fmt.Errorf(doing, resque.Explain(err))
	}
	texts, err := redis.Strings(reply, nil)
	switch {
	case err != nil || len(texts) == 0:
		return done, fmt.Errorf(doing, resque.ErrAnswer)
	case texts[0] == "changed" && len(texts) > 1:
		return done, fmt.Errorf("rule %s: %w", texts[1], ErrChanged)
	case texts[0] == "full":
		return done, fmt.Errorf("more than %d rules: %w", MostRules, ErrFull)
	case texts[0] != "ok" || len(texts) != 4:
		return done, fmt.Errorf(doing, resque.ErrAnswer)
	}
	done.ID, done.Number = texts[1], texts[2]
	done.Heard, err = strconv.Atoi(texts[3])
	return done, err
}

// must is how the script expects the present value of a rule, or that there is none.
func must(value string) string {
	if value == "" {
		return "-"
	}
	return "=" + value
}

// ReadRules reads all rules.
func (s Store) ReadRules(c redis.Conn) (map[string]string, error) {
	rules, err := redis.StringMap(c.Do("HGETALL", s.RulesKey().String()))
	if err != nil {
		return nil, fmt.Errorf("reading the rules of operators, key %s: %w", s.RulesKey(), resque.Explain(err))
	}
	return rules, nil
}

// Tell sets a field of the notice, or removes it with the value "". With now it also sends a message, which wakes processes at once;
// otherwise they read the field with their next renewal. It returns how many clients of Redis received the message, or -1 if the user may
// not use the channel.
func (s Store) Tell(c redis.Conn, field, value string, now bool) (heard int, err error) {
	var a resque.Call
	a.Key(s.NoticeKey().String())
	a.Arg(s.NoticeChannel(), NoticeKept.Milliseconds(), field, value, MostNotices, map[bool]string{true: "1"}[now])
	heard, err = redis.Int(a.Do(c, tellScript))
	if err == nil && heard == -2 {
		err = ErrFull
	}
	if err != nil {
		return 0, fmt.Errorf("writing %s into the notice of processes: %w", field, resque.Explain(err))
	}
	return heard, nil
}

// Told reads a field of the notice; "": it is not there.
func (s Store) Told(c redis.Conn, field string) (string, error) {
	value, err := redis.String(c.Do("HGET", s.NoticeKey().String(), field))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return "", fmt.Errorf("reading the notice of processes: %w", resque.Explain(err))
	}
	return value, nil
}

// Notices reads all fields of the notice.
func (s Store) Notices(c redis.Conn) (map[string]string, error) {
	fields, err := redis.StringMap(c.Do("HGETALL", s.NoticeKey().String()))
	if err != nil {
		return nil, fmt.Errorf("reading the notice of processes: %w", resque.Explain(err))
	}
	return fields, nil
}

// CarryNotice adds the read of the notice to a renewal. If there is no notice, heard gets an empty map.
func (s Store) CarryNotice(c *resque.Cargo, heard func(map[string]string, error)) {
	c.Read(func(reply any, err error) {
		if reply == nil && err == nil {
			heard(nil, nil)
			return
		}
		heard(redis.StringMap(reply, err))
	}, "HGETALL", s.NoticeKey())
}

// Entry is a command in the stream.
type Entry struct {
	ID        string
	Message   []byte
	Signature string
}

// MostRead is how many commands are read at a time.
const MostRead = 200

// ReadCommands reads the notice, and at most MostRead commands behind the one with an id.
func (s Store) ReadCommands(c redis.Conn, after string) (notice map[string]string, entries []Entry, err error) {
	b := resque.Batch{Conn: c}
	b.Send("HGETALL", s.NoticeKey().String())
	b.Send("XRANGE", s.CommandsKey().String(), "("+after, "+", "COUNT", MostRead)
	replies, err := b.Receive()
	if err == nil {
		notice, err = redis.StringMap(resque.Answer(replies[0]))
	}
	var rows []row
	if err == nil {
		rows, err = rowsOf(resque.Answer(replies[1]))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the commands of operators: %w", resque.Explain(err))
	}
	for _, r := range rows {
		entries = append(entries, Entry{ID: r.id, Message: r.fields["m"], Signature: string(r.fields["s"])})
	}
	return notice, entries, nil
}

// Answer adds a piece of a process's answer to a command. It reports false if the answers to this command have no room for it. The short
// piece in which the process then says that has room of its own.
func (s Store) Answer(c redis.Conn, p Piece, id string, refusal bool) (room bool, err error) {
	var a resque.Call
	a.Key(s.ReplyKey(id).String())
	a.Key(s.ReplySizeKey(id).String())
	most := MostAnswered
	if refusal {
		most += roomForRefusals
	}
	a.Arg(most, AnswersKept.Milliseconds(), p.Process, p.Number, map[bool]string{true: "1"}[p.Last], p.Bytes)
	room, err = redis.Bool(a.Do(c, answerScript))
	if err != nil {
		return false, fmt.Errorf("answering the command %s: %w", id, resque.Explain(err))
	}
	return room, nil
}

// Piece is a part of a process's answer.
type Piece struct {
	ID      string // of the stream
	Process string
	Number  int
	Last    bool
	Bytes   []byte
}

// ReadAnswers reads at most 100 pieces of answers behind the one with an id. It waits up to the given time for one.
func (s Store) ReadAnswers(c redis.Conn, id, after string, wait time.Duration) (pieces []Piece, err error) {
	ms := max(1, wait.Milliseconds())
	reply, err := redis.Values(redis.DoWithTimeout(c, wait+answerWithin, "XREAD", "COUNT", 100, "BLOCK", ms, "STREAMS", s.ReplyKey(id).String(), after))
	if errors.Is(err, redis.ErrNil) {
		return nil, nil
	}
	var rows []row
	if err == nil && len(reply) > 0 {
		var stream []any
		if stream, err = redis.Values(reply[0], nil); err == nil && len(stream) == 2 {
			rows, err = rowsOf(stream[1], nil)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the answers of processes: %w", resque.Explain(err))
	}
	for _, r := range rows {
		number, _ := strconv.Atoi(string(r.fields["n"]))
		pieces = append(pieces, Piece{r.id, string(r.fields["p"]), number, string(r.fields["l"]) == "1", r.fields["b"]})
	}
	return pieces, nil
}

// answerWithin is how long Redis may take to answer beside the time that it was to wait.
const answerWithin = 5 * time.Second

// Forget removes the answers to a command.
func (s Store) Forget(c redis.Conn, id string) error {
	_, err := c.Do("DEL", s.ReplyKey(id).String(), s.ReplySizeKey(id).String())
	return err
}

// row is an entry of a stream.
type row struct {
	id     string
	fields map[string][]byte
}

func rowsOf(reply any, err error) (rows []row, _ error) {
	entries, err := redis.Values(reply, err)
	for _, e := range entries {
		pair, bad := redis.Values(e, nil)
		if bad != nil || len(pair) != 2 {
			return nil, resque.ErrAnswer
		}
		id, bad := redis.String(pair[0], nil)
		texts, worse := redis.ByteSlices(pair[1], nil)
		if bad != nil || worse != nil || len(texts)%2 != 0 {
			return nil, resque.ErrAnswer
		}
		r := row{id: id, fields: make(map[string][]byte, len(texts)/2)}
		for i := 0; i < len(texts); i += 2 {
			r.fields[string(texts[i])] = texts[i+1]
		}
		rows = append(rows, r)
	}
	return rows, err
}
