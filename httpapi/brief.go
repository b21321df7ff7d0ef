package httpapi

import (
	"context"
	"sync"
	"time"
)

// brief makes the contexts of calls that are short. Calls that begin at about the same time share one: a context and a timer
// for each cost more than what many calls ask for.
type brief struct {
	within time.Duration

	mu    sync.Mutex
	ctx   context.Context
	until time.Time // it is given to no call any more
}

// briefShare is which part of its time a context is shared for.
const briefShare = 10

// context returns a context that lasts for the time, or a tenth longer.
func (b *brief) context() context.Context {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !now.Before(b.until) {
		share := b.within / briefShare
		ctx, cancel := context.WithTimeout(context.Background(), b.within+share)
		context.AfterFunc(ctx, cancel) // it ends by its time alone
		b.ctx, b.until = ctx, now.Add(share)
	}
	return b.ctx
}
