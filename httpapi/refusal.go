package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/goworker/goworker/internal/tokens"
)

// refusal is why a request is not served. v1 words it as lmstfy does, v2 as a problem.
type refusal struct {
	status  int
	code    string // the problem's name
	detail  string // the thing and the way out
	message string // lmstfy's words; "": the detail
	after   time.Duration
	members map[string]any // of the problem
}

func (r *refusal) Error() string { return r.detail }

// lmstfy returns the text of a v1 answer.
func (r *refusal) lmstfy() string {
	if r.message != "" {
		return r.message
	}
	return r.detail
}

func refuse(status int, code, message, format string, args ...any) *refusal {
	return &refusal{status: status, code: code, message: message, detail: fmt.Sprintf(format, args...)}
}

// with adds a member of the problem.
func (r *refusal) with(name string, value any) *refusal {
	if r.members == nil {
		r.members = make(map[string]any)
	}
	r.members[name] = value
	return r
}

// later sets when the client may try again.
func (r *refusal) later(after time.Duration) *refusal {
	r.after = after
	return r
}

// retryAfter returns the value of Retry-After, "" if there is none.
func (r *refusal) retryAfter() string {
	if r.after <= 0 {
		return ""
	}
	return fmt.Sprint(int64((r.after + time.Second - 1) / time.Second))
}

func refuseToken(err error) *refusal {
	var away *tokens.AwayError
	if errors.As(err, &away) {
		r := refuse(http.StatusServiceUnavailable, "redis-away", "internal error", "the token is not known to this server, and Redis does not answer now; try again")
		return r.later(time.Second)
	}
	return refuse(http.StatusUnauthorized, "bad-token", "invalid token", "the token is not valid for this namespace; ask the operator for one, or look whether it was revoked")
}
