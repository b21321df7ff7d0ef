package daemontest

import (
	"context"
	"errors"
	"strings"

	"github.com/goworker/goworker"
)

// EnqueueUnique enqueues a job and returns its receipt, or who holds its lock.
func (b *Bundle) EnqueueUnique(class, id string, opts ...goworker.EnqueueOption) (r goworker.Receipt, holder string) {
	b.T.Helper()
	r, err := b.Daemon.Client().Enqueue(context.Background(), goworker.NewJob("work", class, id), opts...)
	var duplicate *goworker.DuplicateError
	if errors.As(err, &duplicate) {
		return r, duplicate.Holder
	}
	if err != nil {
		b.T.Fatal(err)
	}
	return r, ""
}

func (b *Bundle) MustEnqueue(class, id string, opts ...goworker.EnqueueOption) goworker.Receipt {
	b.T.Helper()
	r, holder := b.EnqueueUnique(class, id, opts...)
	if holder != "" {
		b.T.Fatalf("%s(%s) is refused by %s", class, id, holder)
	}
	return r
}

func (b *Bundle) MustRefuse(by goworker.Receipt, class, id string, opts ...goworker.EnqueueOption) {
	b.T.Helper()
	if _, holder := b.EnqueueUnique(class, id, opts...); holder != by.ID {
		b.T.Errorf("%s(%s) is refused by %q, want %q", class, id, holder, by.ID)
	}
}

func (b *Bundle) Locks() []string {
	b.T.Helper()
	return b.Redis.List(b.T, "KEYS", "*go:unique:"+strings.Repeat("?", 32)) // without the counts beside them
}

// Free waits until no job has a lock.
func (b *Bundle) Free() {
	b.T.Helper()
	b.Eventually("the lock is given up", func() bool { return len(b.Locks()) == 0 })
}
