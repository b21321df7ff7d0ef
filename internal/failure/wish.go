package failure

import (
	"fmt"
	"time"
)

// Wish is an error by which a handler decides what becomes of its job.
type Wish struct {
	Kind WishKind
	Wait time.Duration // of WishRetry and WishSnooze
	Err  error         // why; may be nil
}

// WishKind is what a handler asks for.
type WishKind int

// The zero value asks for nothing.
const (
	WishNone WishKind = iota
	WishRetry
	WishDiscard
	WishFail
	WishSnooze
)

func (w *Wish) Error() string {
	switch {
	case w.Err != nil:
		return w.Err.Error()
	case w.Kind == WishRetry:
		return fmt.Sprintf("the handler asked to run again in %s", w.Wait)
	case w.Kind == WishSnooze:
		return fmt.Sprintf("the handler snoozed the job for %s", w.Wait)
	case w.Kind == WishDiscard:
		return "the handler discarded the job"
	}
	return "the handler gave the job up"
}

// Unwrap returns the reason.
func (w *Wish) Unwrap() error { return w.Err }

// Exception makes failure records look through the wish.
func (w *Wish) Exception() string { return "" }

// Wished finds the outermost wish in an error, and the wait that the error, or one it
// wraps, asks for by a method RetryAfter; zero if none does. A wish's wait is its own.
func Wished(err error) (found Wish, after time.Duration) {
	defer func() { _ = recover() }()
	Walk(err, func(e error) bool {
		if w, ok := e.(*Wish); ok {
			found = *w
			return true
		}
		return false
	})
	Walk(err, func(e error) bool {
		if e, ok := e.(interface{ RetryAfter() time.Duration }); ok {
			after = e.RetryAfter()
		}
		return after > 0
	})
	return found, max(after, 0)
}
