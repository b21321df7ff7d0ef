package resque

import "sync/atomic"

// exchangeKeys are the keys of each exchange of a process, and its name.
type exchangeKeys struct {
	id      string
	process any // the id, as an argument that costs no allocation
	keys    [8]any
	used    atomic.Pointer[exchangeArgv] // nil: another exchange uses it
	briefs  briefs
}

// exchangeArgv is the memory of an exchange's values before they are behind the keys. It is used again.
type exchangeArgv struct {
	argv    []any
	tickets [2 * MaxExchangeJobs]any
}

// ticket is a ticket as an argument. A ticket that is given out comes again when it is done, and then costs no allocation.
func (a *exchangeArgv) ticket(ticket int64) any {
	kept := &a.tickets[uint64(ticket)%uint64(len(a.tickets))]
	if *kept != ticket {
		*kept = ticket
	}
	return *kept
}

func (s Store) exchangeKeys(process string) *exchangeKeys {
	k := s.ofExchange.Load()
	if k == nil || k.id != process {
		k = &exchangeKeys{id: process, process: process, keys: [8]any{
			s.inflight(process), s.process(process), s.processes(), s.reaped(process),
			s.stat("processed"), s.pauseAll(), s.recovered(), s.KeyOfQueues(),
		}}
		s.ofExchange.Store(k)
	}
	return k
}
