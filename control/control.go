// Package control asks running processes how they are, and sends them commands of operators.
//
//	c := control.New(client)
//	for reply, err := range c.Inspect(ctx, control.Ping, control.To("mail-*")) {
//		…
//	}
//
// A call reads from the leases which processes have to answer. It yields each answer as it comes, ends with the last one or at its
// deadline, and names each process that did not answer, with the age of its lease. So a caller can tell silence from death.
//
// A Control holds no connection between calls. A call borrows one connection of the client until it ends.
package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
)

// Inspects is a *goworker.Client, a *goworker.Daemon or *goworker.Shards.
type Inspects interface{ Inspect() *inspect.Inspector }

// Control asks the processes of a fleet. It is safe for concurrent use.
type Control struct {
	of        Inspects
	keyFile   string
	who, face string
}

// Option is a setting of New: KeyFile, By or Face.
type Option func(*Control)

// KeyFile signs commands with the key in a file: the one of the processes' setting ControlKeyFile. Each call reads the file.
func KeyFile(path string) Option { return func(c *Control) { c.keyFile = path } }

// By says who asks. The audit of changes names it. By default it is the user of the system and the host.
func By(who string) Option { return func(c *Control) { c.who = who } }

// Face names the program that asks for a person, for the audit.
func Face(name string) Option { return func(c *Control) { c.face = name } }

// New returns a Control. It does not ask Redis anything.
func New(of Inspects, opts ...Option) *Control {
	c := &Control{of: of}
	for _, opt := range opts {
		opt(c)
	}
	c.who = cmp.Or(c.who, operator())
	return c
}

// operator is the user and host that run this program, as far as the system knows them.
func operator() string {
	name := "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return name + "@" + host
}

// DefaultTimeout is how long a call waits for answers.
const DefaultTimeout = 5 * time.Second

// call is the options of one call.
type call struct {
	to      []string
	args    any
	why     string
	timeout time.Duration

	who, face string // in place of the Control's

	lasts time.Duration // of a rule
	ends  bool          // For was given
	key   string
}

// CallOption is an option of Inspect and Do: To, Args, Timeout, Why or As.
type CallOption func(*call)

// To addresses processes: by id, by host or by name, or by a pattern of these with * ? [. Of several addresses one is enough. Without To
// all processes are asked.
func To(addresses ...string) CallOption {
	return func(c *call) { c.to = append(c.to, addresses...) }
}

// Args gives the verb arguments, which are sent as JSON.
func Args(v any) CallOption { return func(c *call) { c.args = v } }

// Timeout is how long the call waits for answers, in place of DefaultTimeout. A process begins to obey the command within this time,
// and within 30 seconds, or not at all.
func Timeout(d time.Duration) CallOption { return func(c *call) { c.timeout = d } }

// Why says why a change is made, for the audit.
func Why(text string) CallOption { return func(c *call) { c.why = text } }

// As says who asks, and with which program, in place of By and Face: a program that serves many people has one Control for all of them.
// An empty word leaves that of the Control.
func As(who, face string) CallOption { return func(c *call) { c.who, c.face = who, face } }

// Reply is what one process answers.
type Reply struct {
	Process string // its id
	Host    string
	Name    string
	Version string

	// Body is the answer as JSON; nil: the verb has none.
	Body json.RawMessage

	// After is the time from the command to the answer.
	After time.Duration

	// Shard is the Redis where the process is, if there are several.
	Shard string
}

// Errors of a call as a whole.
var (
	// ErrNobody is returned if no goworker process holds a lease.
	ErrNobody = errors.New("goworker: no goworker process holds a lease here")
	// ErrNoMatch is returned if no process with a lease has such an address.
	ErrNoMatch = errors.New("goworker: no process has such an id, host or name")
)

// SilentError is the error of a process that did not answer. It says why.
type SilentError struct {
	Process string
	Version string
	Age     time.Duration // since the process renewed its lease, when the call ended

	Off    bool // its -control is off
	TooOld bool // its release knows no commands
	Gone   bool // it left, or was found dead, while the call waited
}

// fresh is the age up to which a lease proves that its process lives: a process renews its lease every two seconds.
const fresh = 3 * time.Second

func (e *SilentError) Error() string {
	return fmt.Sprintf("goworker: process %s %s", e.Process, e.Why())
}

// Why is the reason without the name of the process.
func (e *SilentError) Why() string {
	switch {
	case e.TooOld:
		return fmt.Sprintf("is too old: %s does not know remote control", cmp.Or(e.Version, "its release"))
	case e.Off:
		return "obeys no commands and answers no questions: its -control is off; start it with -control=on or full"
	case e.Gone:
		return "left the fleet, or was found dead, before it answered"
	case e.Age <= fresh:
		return fmt.Sprintf("is silent: its lease was renewed %s ago, so it is busy or cut off, not dead", brief(e.Age))
	}
	return fmt.Sprintf("is silent: its lease was not renewed for %s", brief(e.Age))
}

func brief(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// RefusedError is the error with which a process answered.
type RefusedError struct {
	Process string
	Text    string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("goworker: process %s: %s", e.Process, e.Text)
}

// Inspect asks processes a question. It yields one pair for each process: its reply, or a *SilentError or *RefusedError with a Reply
// that names the process. An error of the whole call, such as ErrNobody, an error of Redis or the end of ctx, has an empty Reply.
func (c *Control) Inspect(ctx context.Context, verb string, opts ...CallOption) iter.Seq2[Reply, error] {
	return c.ask(ctx, verb, false, opts)
}

// Do sends processes a command. It yields what Inspect yields. Redis takes the command and its line of the audit in one step: if the
// audit cannot be written, no process gets the command.
func (c *Control) Do(ctx context.Context, verb string, opts ...CallOption) iter.Seq2[Reply, error] {
	return c.ask(ctx, verb, true, opts)
}

// Result is the outcome of a whole call.
type Result struct {
	Replies []Reply
	Refused []*RefusedError
	Silent  []*SilentError
}

// Gather waits for a call to end. The error is an error of the whole call; the Result then has the answers that came before it.
func Gather(call iter.Seq2[Reply, error]) (r Result, err error) {
	for reply, e := range call {
		var refused *RefusedError
		var silent *SilentError
		switch {
		case e == nil:
			r.Replies = append(r.Replies, reply)
		case errors.As(e, &refused):
			r.Refused = append(r.Refused, refused)
		case errors.As(e, &silent):
			r.Silent = append(r.Silent, silent)
		default:
			err = errors.Join(err, e)
		}
	}
	return r, err
}

// by returns the inspector that changes the fleet for the one who asks.
func (c *Control) by(o call) *inspect.Inspector {
	return c.of.Inspect().By(cmp.Or(o.who, c.who), o.why).Face(cmp.Or(o.face, c.face))
}

// command makes the command that all shards get, without its times.
func (c *Control) command(verb string, o call) (control.Command, error) {
	cmd := control.Command{ID: control.NewID(), Verb: verb, To: o.to, By: cmp.Or(o.who, c.who)}
	if err := control.CheckAddresses(o.to); err != nil {
		return cmd, fmt.Errorf("goworker: %w", err)
	}
	if o.args != nil {
		text, err := json.Marshal(o.args)
		if err != nil {
			return cmd, fmt.Errorf("goworker: the arguments of %s are no JSON: %w", verb, err)
		}
		cmd.Args = text
	}
	return cmd, nil
}

// on is the addresses and arguments of a command, for the audit.
func on(cmd control.Command) string {
	var words []string
	if len(cmd.To) > 0 {
		words = append(words, "to "+strings.Join(cmd.To, ", "))
	}
	if len(cmd.Args) > 0 {
		words = append(words, string(cmd.Args))
	}
	return strings.Join(words, ": ")
}

// Member is a process with a lease, whether it obeys commands or not.
type Member struct {
	Process, Host, Name, Version string

	Control string        // its setting; "": its release knows no commands
	Age     time.Duration // since it renewed its lease
	Shard   string        // the Redis where it is, of several
}

// Members lists the processes that have one of the addresses; without addresses, all. It asks Redis and no process.
func (c *Control) Members(ctx context.Context, addresses ...string) (members []Member, err error) {
	if err := control.CheckAddresses(addresses); err != nil {
		return nil, fmt.Errorf("goworker: %w", err)
	}
	doors := c.of.Inspect().Doors()
	for _, door := range doors {
		shard := ""
		if len(doors) > 1 {
			shard = door.Name()
		}
		err = errors.Join(err, door.Do(ctx, func(s resque.Store, conn redis.Conn) error {
			_, all, err := control.New(s).Members(conn)
			for _, m := range all {
				if m.Meant(addresses) {
					members = append(members, Member{m.ID, m.Host, m.Name, m.Version, m.Control, m.Age, shard})
				}
			}
			return err
		}))
	}
	return members, prefix.Of(err)
}
