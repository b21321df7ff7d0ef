package record

import (
	"time"

	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// registeredEvery is how often what has not changed is written again: it would expire.
const registeredEvery = 12 * time.Hour

// RegisteredConfig says what a Registered writes.
type RegisteredConfig struct {
	Process func() resque.Process
	Now     func() time.Time         // Redis's
	Version func() uint64            // changes with what Read returns; it is cheap
	Read    func() resque.Registered // without At
}

// Registered writes what the program has registered, with the first renewal of the lease and with the next one after each change. It
// is a rider of the lease, whose goroutine calls it.
type Registered struct {
	base   part.Base
	config RegisteredConfig

	process string // whose was written last
	version uint64
	changed int64 // when Version changed last, in ms
	written time.Time
	mute    bool
}

// NewRegistered makes the rider.
func NewRegistered(b part.Base, c RegisteredConfig) *Registered {
	return &Registered{base: b, config: c}
}

// Load has the next renewal carry what has changed.
func (r *Registered) Load(c *resque.Cargo) {
	process, now, version := r.config.Process().ID, r.base.Clock.Now(), r.config.Version()
	switch {
	case r.mute, c.Last, process == r.process && version == r.version && now.Sub(r.written) < registeredEvery && !now.Before(r.written):
		return
	}
	if r.changed == 0 || version != r.version {
		r.changed = r.config.Now().UnixMilli()
	}
	r.process, r.version, r.written = process, version, now
	all := r.config.Read()
	all.At = r.changed
	r.base.Store.WriteRegistered(c, process, all, r.heard)
}

// heard says why Redis refuses it. It is not written again then.
func (r *Registered) heard(err error) {
	if err != nil && !r.mute {
		r.mute = true
		r.base.Log.Warn("operators do not see which classes and schedules this process has; the jobs run all the same", "error", err)
	}
}

// Answered hears that a renewal was answered.
func (*Registered) Answered(bool, resque.Due) {}
