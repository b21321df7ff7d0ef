package dashboard

import (
	"net/http"

	"github.com/goworker/goworker/dashboard/internal/guard"
)

// BasicAuth returns a function for Options.User that asks for a name and a password, which stand in a file with the users' roles.
// goworker dashboard passwd makes its lines. The file is read again when it has changed. Behind anything but TLS passwords can be read.
func BasicAuth(file string) (func(r *http.Request) (User, error), error) {
	return identify(guard.BasicAuth(file))
}

// HeaderAuth returns a function for Options.User that takes the user's name from a header which a proxy sets after a login. Only requests
// from these addresses of proxies count: name each address, no net with people in it. roles says what a name may do; nil: every user
// is a viewer.
func HeaderAuth(header string, proxies []string, roles func(name string) User) (func(r *http.Request) (User, error), error) {
	return identify(guard.HeaderAuth(header, proxies, roles))
}

// BearerTokens returns a function for Options.User that takes tokens of programs: Authorization: Bearer.
func BearerTokens(users map[string]User) (func(r *http.Request) (User, error), error) {
	return identify(guard.BearerTokens(users))
}

// AnyOf returns a function for Options.User that asks others in turn: the first that knows the user decides.
func AnyOf(several ...func(r *http.Request) (User, error)) func(r *http.Request) (User, error) {
	all := make([]guard.Identify, len(several))
	for n, one := range several {
		all[n] = one
	}
	return guard.AnyOf(all...)
}

func identify(i guard.Identify, err error) (func(r *http.Request) (User, error), error) {
	return i, err
}

// TokenGate lets in who knows a token: in ?token= of an address once, which becomes a cookie, or as Authorization: Bearer.
type TokenGate = guard.TokenGate

// NewToken returns a token of 160 random bits.
func NewToken() string { return guard.NewToken() }

// NewTokenGate returns a gate for a token. Who knows it is this user.
func NewTokenGate(token string, user User) (*TokenGate, error) {
	return guard.NewTokenGate(token, user)
}

// TokenFile returns the token in a file, which it makes if it is missing. A file that others may read is refused.
func TokenFile(path string) (string, error) { return guard.TokenFile(path) }

// HashPassword returns a password as the file of BasicAuth has it.
func HashPassword(password string) string { return guard.HashPassword(password) }

// UserLine returns a line of the file of BasicAuth.
func UserLine(user User, password string) (string, error) {
	return guard.UserLine(user.Name, user.Role, user.Queues, password)
}

// ParseRole reads viewer, operator or admin.
func ParseRole(word string) (Role, error) { return guard.ParseRole(word) }
