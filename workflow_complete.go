package goworker

import (
	"context"
	"encoding/json"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
)

// CompleteClass is a class that every Daemon knows. Its jobs do what Client.Complete does, for programs in any language: the
// arguments are the token and the result, or the token, null and the text of an error. A job fails if no step
// has the token.
const CompleteClass = "goworker.Complete"

// completeRetries is how often a reply is tried again that Redis does not take: for some days.
const completeRetries = 25

// provideComplete makes the daemons of a registry know CompleteClass. The step may lie on any of these Redises.
func provideComplete(r *registry, redises func() []access.Redis) {
	r.provide(CompleteClass, func(ctx context.Context, token string, result json.RawMessage, failed ...*string) error {
		w := inspect.New(redises()...).Workflows()
		for _, text := range failed {
			if text != nil {
				return w.CompleteError(ctx, token, *text)
			}
		}
		return w.Complete(ctx, token, result)
	}, Retry(completeRetries, NoRetryOn(inspect.ErrToken)))
}
