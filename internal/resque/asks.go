package resque

import (
	"github.com/gomodule/redigo/redis"
)

var asksScript = script("asks")

// How much one script asks for at most, which takes one to three milliseconds. Redis serves other clients between two of them.
const (
	endsTogether    = 250 // lists of which the ends are read
	recordsTogether = 170 // processes: three commands each, and hundreds of bytes
	lengthsTogether = 500 // lists of which only the lengths are read
)

// trip is one round trip: commands, and what is done with their answers.
type trip struct {
	c     redis.Conn
	takes []func(reply any, err error)
	err   error
}

func (t *trip) ask(take func(reply any, err error), command string, args ...any) {
	if t.err == nil {
		t.err = t.c.Send(command, args...)
		t.takes = append(t.takes, take)
	}
}

// eval sends a script as text: see Batch.Eval.
func (t *trip) eval(take func(reply any, err error), script *Script, a Call) {
	if t.err == nil {
		t.err = script.Send(t.c, a.Args()...)
		t.takes = append(t.takes, take)
	}
}

// run sends all of it, and returns an error that concerns all of it.
func (t *trip) run() error {
	if t.err == nil {
		t.err = t.c.Flush()
	}
	for _, take := range t.takes {
		if t.err != nil {
			return t.err
		}
		reply, err := t.c.Receive()
		if _, refused := err.(redis.Error); err != nil && !refused {
			return err
		}
		if err != nil && concernsAll(t.c, err) {
			t.err = err // the other answers are still received
		}
		take(reply, err)
	}
	return t.err
}

// together are commands that read one key each and that one script runs. The zero value has none.
type together struct {
	call  Call
	takes []func(reply any, err error)
}

// ask adds a command. take gets its answer, or why Redis refused it.
func (a *together) ask(take func(reply any, err error), command, key string, args ...any) {
	a.each(func(_ int, reply any, err error) { take(reply, err) }, []string{key}, command, args...)
}

// each adds one command for each key.
func (a *together) each(take func(i int, reply any, err error), keys []string, command string, args ...any) {
	if len(keys) == 0 {
		return
	}
	a.call.Arg(command, len(keys), len(args))
	a.call.Arg(args...)
	for i, key := range keys {
		a.call.Key(key)
		a.takes = append(a.takes, func(reply any, err error) { take(i, reply, err) })
	}
}

// on puts them into a round trip as one command. Where Redis refuses the script, it has refused each of them.
func (a *together) on(t *trip) {
	if len(a.takes) == 0 {
		return
	}
	t.eval(func(reply any, err error) {
		all, err := redis.Values(reply, err)
		if err == nil && len(all) != len(a.takes) {
			err = ErrAnswer
		}
		for i, take := range a.takes {
			if err != nil {
				take(nil, err)
			} else {
				take(Answer(all[i]))
			}
		}
	}, asksScript, a.call)
}
