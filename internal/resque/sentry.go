package resque

import (
	"strings"

	"github.com/gomodule/redigo/redis"
)

// seatedScript is an exchange with sit.lua behind it, as one script.
var (
	sitScript    = script("sit")
	riseScript   = script("rise")
	seatedScript = newScript(func() string {
		parts := strings.NewReplacer(partMark+"exchange", scriptText("exchange"), partMark+"sit", scriptText("sit"))
		return parts.Replace(readScript(scriptFiles, "parts/seated"))
	})
)

const (
	// MostSentries is how many processes of a crew Redis notifies of a push.
	MostSentries = 4
	// placeHolds is how long a process that waits is listed without another claim.
	placeHolds = 4 * LeasePeriod
)

// ClaimEvery is how often a process that is listed claims its place again, at least.
const ClaimEvery = LeasePeriod

// Sentry is what a process has to do with the sentries of its crew: the processes that take the same jobs of the same queues.
type Sentry struct {
	Crew string
	Sit  bool // after the look it claims a seat; it waits if there is none
	Bell bool // before the look it has Redis watch its bell

	// Rise gives up the place. The answer names one process to call, and one more if one of the queues Filled has jobs.
	Rise   bool
	Filled []string

	Call []string // processes whose bells are rung
}

// Seat is the answer to a Sentry.
type Seat struct {
	Held bool     // it has a seat, or Redis refused the claim: then it must hear of each push
	Call []string // whom it must call
}

// bell is the key by which other processes call this one. It never exists for longer than a script runs.
func (s Store) bell(process string) string { return s.probe("bell:" + process) }

// sits reports whether the exchange claims the seat in its own script. What a look reads that arms is watched: there the claim, which reads
// what other claims change, is a script behind it.
func (x *Exchange) sits() bool {
	y := x.Sentry
	return y != nil && y.Sit && !y.Rise && len(y.Call) == 0 && !x.Arm && len(x.parted.groups) == 0
}

func (s Store) sitArgs(x *Exchange, script string) []any {
	return s.sentryCall(x).led(script, x.Process, MostSentries, placeHolds.Milliseconds())
}

func (s Store) riseArgs(x *Exchange, script string) []any {
	c := s.sentryCall(x)
	for _, queue := range x.Sentry.Filled {
		c.Key(s.KeyOfQueue(queue))
	}
	return c.led(script, x.Process, MostSentries)
}

func (s Store) callArgs(x *Exchange, script string) []any {
	var c Call
	for _, process := range x.Sentry.Call {
		c.Key(s.bell(process))
	}
	return c.led(script)
}

func (s Store) sentryCall(x *Exchange) *Call {
	var c Call
	c.Key(s.sentries(x.Sentry.Crew))
	c.Key(s.processes())
	return &c
}

// led returns the call with these values, led by the script.
func (c *Call) led(script string, values ...any) []any {
	c.Arg(values...)
	return append([]any{script}, c.Args()...)
}

// sendBell has Redis watch the bell of the process, where the exchange asks for that.
func (s Store) sendBell(c redis.Conn, x *Exchange) error {
	if x.Sentry == nil || !x.Sentry.Bell {
		return nil
	}
	if err := s.sendArm(c); err != nil {
		return err
	}
	return c.Send("EXISTS", s.bell(x.Process))
}

func (s Store) sendArm(c redis.Conn) error { return c.Send("CLIENT", "CACHING", "YES") }

// receiveBell reads the answers to sendBell. A refusal is one of the look, too, which then says it.
func receiveBell(c redis.Conn, x *Exchange) error {
	if x.Sentry == nil || !x.Sentry.Bell {
		return nil
	}
	if _, err := c.Receive(); err != nil {
		return err
	}
	_, err := c.Receive()
	return err
}

// sentryParts are the scripts of an exchange that are about sentries, in their order.
func (s Store) sentryParts(c redis.Conn, x *Exchange) (parts []*part) {
	if x.Sentry == nil {
		return nil
	}
	add := func(is bool, args func(*Exchange, string) []any, script *Script) {
		if is {
			parts = append(parts, &part{hash: script.Hash(), text: script.Text(), send: func(eval, script string) error { return c.Send(eval, args(x, script)...) }})
		}
	}
	add(len(x.Sentry.Call) > 0, s.callArgs, changeScript)
	add(x.Sentry.Rise, s.riseArgs, riseScript)
	add(x.Sentry.Sit && !x.sits(), s.sitArgs, sitScript)
	return parts
}

// seat reads the answers to sentryParts. What Redis refuses changes nothing else of the exchange.
func (x *Exchange) seat(parts []*part) (seat Seat) {
	for _, p := range parts {
		switch reply := p.reply.(type) {
		case int64:
			seat.Held = reply == 1
		case []any:
			seat.Call, _ = redis.Strings(reply, nil)
		case redis.Error:
			seat.Held = seat.Held || x.Sentry.Sit && p.text == sitScript.Text()
		}
	}
	return seat
}
