package fleet

import (
	"context"
	"log/slog"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/resque"
)

// Cargo is what the riders have the next renewal carry. If it is not empty, the last renewal that carried it was not
// answered. It is for one goroutine.
type Cargo struct {
	resque.Cargo
	said logging.Once
}

// Send has renew renew a lease with the cargo, or without it where the renewal before failed.
func (c *Cargo) Send(log *slog.Logger, renew func(*resque.Cargo) error) error {
	aboard := c.Aboard()
	carried := !aboard.Empty()
	err := renew(aboard)
	if lost := c.Renewed(carried, err); lost != nil && c.said.News("lost", lost.Error()) {
		log.Warn("what went with a renewal of the lease is lost, and operators lack these numbers; the lease is renewed without it, and jobs run as before",
			"error", lost)
	}
	return err
}

// outlive takes back what must not be written once the record is gone that had the number of the last cargo: all, if Redis may
// have written it already, or else what is for these keys. Another process keeps them now.
func (c *Cargo) outlive(keys ...resque.Key) {
	if c.Unsure() {
		c.Clear()
	}
	for _, key := range keys {
		c.Drop(key)
	}
}

// Load has those of the riders that are Carriers load a cargo, unless it still holds what Redis has not answered.
func Load[R any](cargo *Cargo, riders []R) {
	if !cargo.Empty() {
		return
	}
	cargo.Number++
	for _, r := range riders {
		if carrier, ok := any(r).(Carrier); ok {
			carrier.Load(&cargo.Cargo)
		}
	}
}

// Unload has renew send what is left at the stop: what Redis did not answer, and then what the riders have last. It takes half
// of the time at most, since the process has to leave behind it. What is lost are numbers for operators.
func Unload[R any](ctx context.Context, cargo *Cargo, riders []R, renew func(context.Context) error) error {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, clock.Until(clock.System, end)/2) // a context ends by this machine's clock
		defer cancel()
	}
	cargo.Last = true
	if !cargo.Empty() {
		if err := renew(ctx); err != nil {
			return err
		}
	}
	if Load(cargo, riders); cargo.Empty() {
		return nil
	}
	return renew(ctx)
}
