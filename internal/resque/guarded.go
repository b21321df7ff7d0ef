package resque

import (
	"slices"

	"github.com/gomodule/redigo/redis"
)

// Guarded is what is proven and written as one with the push of a job. A job may have several.
type Guarded struct {
	Effects []Effect // guards too, in any order; Head and Tail push this job's bytes
	Placed  bool     // an effect puts the job into its place

	// Left is called when a guard of these did not hold. It says what to do then. It may be nil.
	Left Left

	lock *claim // of Store.Unique: what it writes and does when the lock is refused, where there are no Effects and no Left
}

// effects are those that are written now.
func (g *Guarded) effects() []Effect {
	if g.takesLock() {
		return []Effect{g.lock.take()}
	}
	return g.Effects
}

// takesLock reports whether all that is written now is a lock.
func (g *Guarded) takesLock() bool { return g.lock != nil && !g.lock.replacing }

// asks reports whether there is something to be asked when a guard did not hold.
func (g *Guarded) asks() bool { return g.lock != nil || g.Left != nil }

func (g *Guarded) left(c redis.Conn, answer string) (Verdict, error) {
	if g.Left == nil {
		return g.lock.left(c, answer)
	}
	return g.Left(c, answer)
}

// Left decides about a job of which a guard, or the proof of a verb, did not hold that has the same first key
// as one of its Effects. answer is what the guard was answered, or what the
// proof of a verb says. An error is one of the whole call.
type Left func(c redis.Conn, answer string) (Verdict, error)

// Verdict is what becomes of a job whose guards did not hold.
type Verdict struct {
	Again    *Guarded // it is tried once more with these in the place of those that did not hold; Left stays
	Replaces string   // then: the id of the job that it replaces
	Why      error    // else: why it was not pushed; nil is ErrGuard
}

// leftUnit is a unit of which a guard did not hold.
type leftUnit struct {
	*unit
	answer string
	key    string // of the guard
}

// of returns the part of the job that has the guard.
func (l leftUnit) of() *Guarded {
	for i := range l.guarded {
		g := &l.guarded[i]
		if g.asks() && slices.ContainsFunc(g.effects(), func(e Effect) bool { return e.keys[0].name == l.key }) {
			return g
		}
	}
	return nil
}

// ask asks the job what to do.
func (l leftUnit) ask(c redis.Conn) error {
	v := Verdict{}
	if g := l.of(); g != nil {
		var err error
		if v, err = g.left(c, l.answer); err != nil {
			return err
		}
		if v.Again != nil {
			g.Effects, g.Placed, l.by = v.Again.Effects, v.Again.Placed, v.Replaces
			return nil
		}
	}
	l.over, l.by, l.err = true, "", v.Why
	if l.err == nil {
		l.err = ErrGuard
	}
	return nil
}
