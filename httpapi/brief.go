package httpapi

import (
	"context"
	"sync"
	"time"
)

// brief makes the contexts of calls that are short. Calls that begin within a second share one: a context and a timer for
// each cost more than what many calls ask for.
type brief struct {
	mu    sync.Mutex
	ctx   context.Context
	until time.Time // it is given to no call any more
}

const briefShared = time.Second

// context returns a context that lasts so long, or a second longer. All calls name the same time.
func (b *brief) context(within time.Duration) context.Context {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !now.Before(b.until) {
		ctx, cancel := context.WithTimeout(context.Background(), within+briefShared)
		context.AfterFunc(ctx, cancel) // it ends by its time alone
		b.ctx, b.until = ctx, now.Add(briefShared)
	}
	return b.ctx
}
