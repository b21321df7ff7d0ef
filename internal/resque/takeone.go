package resque

// This file sends a turn that takes from lanes by a shorter way. Where one lane is asked for that is under one limit, takeone.lua takes. Where
// the jobs that have ended need no more than an acknowledgement, the script that takes also acknowledges them.

var takeOne = script("takeone")

// shorten decides by which scripts the exchange goes. Where jobs are taken from lanes, take.lua or takeone.lua does all if nothing else is asked for and the
// jobs that have ended are done and have no effects. They may also free slots of the one limit that is asked for.
func (s Store) shorten(x *Exchange) {
	x.brief, x.alone = s.briefly(x), false
	if x.Take == nil {
		return
	}
	_, apart := x.limit()
	x.Take.one = !apart && x.Take.asksOne()
	x.alone = x.Want == 0 && len(x.Asks)+len(x.Spent) == 0 && x.Handed == "" && !x.Arm && !x.List && x.Sentry == nil &&
		(len(x.Ended) == 0 || x.Take.one && s.onlyFree(x))
}

// script is the one that takes.
func (t *Take) script() *Script {
	if t.one {
		return takeOne
	}
	return takeScript
}

// asksOne reports whether it asks for one lane only that is under one limit, and looks at nothing else: then a shorter script does it.
func (t *Take) asksOne() bool {
	if t.Want == 0 || len(t.Lanes) != 1 || len(t.Limits) != 0 || len(t.Look) != 1 || len(t.Queues) != 1 || t.Look[0].Lanes != t.Lanes[0].Lanes() {
		return false
	}
	t.texts = t.Lanes[0].AppendLimitTexts(t.texts[:0])
	return len(t.texts) == 1 && !ParseLimit(t.texts[0]).putsOff()
}

// onlyFree reports whether all ends are those of jobs that are done and free their slot of the one limit.
func (s Store) onlyFree(x *Exchange) bool {
	slot := s.leaving(x.Take.texts[0], x.Process).slot
	for i := range x.Ended {
		e := &x.Ended[i]
		if slot == nil || e.Place != "" || e.Counts != CountsDone || len(e.Effects) != 1 || &e.Effects[0] != &slot[0] {
			return false
		}
	}
	return true
}

// takesAgain reports whether takeone.lua has answered that it did nothing. The exchange then goes the long way.
func (x *Exchange) takesAgain(reply any) bool {
	r, _ := reply.([]any)
	if len(r) != 1 || firstText(r) != "again" {
		return false
	}
	x.alone, x.Take.one = false, false
	x.parted.part(x.Ended)
	return true
}

// takeOneArgs is takeArgs for takeone.lua.
func (s Store) takeOneArgs(x *Exchange, used *exchangeArgv, script string) []any {
	t := x.Take
	c := s.takeCall(x, used, 64+t.Want+len(x.Done)+len(x.Ended), 32)
	lane, look := t.Lanes[0], t.Look[0]
	kind, key, spec := s.countedAt(t.texts[0], x.Process)
	c.Key(key)
	turns := c.Key(s.turns(look.Lanes))
	c.Key(s.laneBefore(look.Lanes) + lane.Own)
	freed := 0
	if x.alone {
		freed = len(x.Ended)
	}
	c.Arg(kind, spec, t.Numbers[spec], freed, lane.Own, "+"+JobPrefix(look.Shared)+JobPrefix(lane.Own)+JobPrefix(look.Queue))
	c.Arg(1, turns, look.Show, t.Turns, 1, c.Key(s.KeyOfQueue(t.Queues[0])), t.Heads)
	c.keys[0], c.keys[1] = script, len(c.keys)-c.before
	return append(c.keys, c.argv...)
}
