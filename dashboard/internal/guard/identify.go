package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Refused is the error of an Identify that says how its request is refused. Another error is answered with 401 and a
// sentence that tells nothing of it; the log has it.
type Refused struct {
	Status     int           // 0: 401
	Challenges []string      // values of WWW-Authenticate
	Wrong      bool          // the request has a name, a password or a token, and it is wrong; this counts as a failure of its address
	Text       string        // for the page; it may say what to do and no secret
	Wait       time.Duration // for Retry-After; 0: none
	Err        error         // for the log only; nil: Text says it all
}

// Error returns the text, and the error behind it.
func (e *Refused) Error() string {
	if e.Err != nil {
		return e.Text + ": " + e.Err.Error()
	}
	return e.Text
}

// Unwrap returns the error behind it.
func (e *Refused) Unwrap() error { return e.Err }

// asRefused finds the Refused in an error.
func asRefused(err error) (*Refused, bool) {
	var refused *Refused
	return refused, errors.As(err, &refused)
}

// HeaderAuth lets in the users that a proxy names in a header, as X-Forwarded-User. proxies are the addresses that the proxies connect
// from, one by one. A request from another address is refused, whatever its headers are. roles gives the user of a name, and
// a User without a Name where the name may not look; nil: each name is a viewer.
//
// The proxy must set the header on each request, also to nothing: what it leaves as the client sent it, the client decides.
// A program that connects from a listed address can take any name. List a loopback address only where all users of that
// host are trusted.
func HeaderAuth(header string, proxies []string, roles func(name string) User) (Identify, error) {
	if header == "" || strings.ContainsFunc(header, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == ':' }) {
		return nil, fmt.Errorf("the header %q is no name of a header", header)
	}
	if len(proxies) == 0 {
		return nil, errors.New("no proxies: name the addresses of those that set " + header)
	}
	var from []netip.Addr
	for _, proxy := range proxies {
		address, err := oneAddress(proxy)
		if err != nil {
			return nil, err
		}
		from = append(from, address)
	}
	if roles == nil {
		roles = func(name string) User { return User{Name: name} }
	}
	return func(r *http.Request) (User, error) {
		address, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !slices.Contains(from, address.Addr().Unmap()) {
			return User{}, &Refused{Text: "This request did not come through the proxy that says who you are. Open the dashboard by its public address."}
		}
		values := r.Header.Values(header)
		if len(values) != 1 || !validName(values[0]) {
			return User{}, &Refused{
				Text: "The proxy did not say who you are.",
				Err:  fmt.Errorf("the header %s has %d values, or no name in it", header, len(values)),
			}
		}
		user := roles(values[0])
		if user.Name == "" {
			return User{}, &Refused{Status: http.StatusForbidden, Text: "Your name is not among those who may look at this dashboard."}
		}
		return user, nil
	}, nil
}

// oneAddress parses the address of one host. It may be written as a net of that host alone.
func oneAddress(s string) (netip.Addr, error) {
	address, err := netip.ParseAddr(s)
	if net, e := netip.ParsePrefix(s); e == nil {
		if address, err = net.Addr(), nil; !net.IsSingleIP() {
			return address, fmt.Errorf("the proxy %q is a net; list the addresses of the proxies themselves, since all others in it could take any name", s)
		}
	}
	if err != nil || address.IsUnspecified() || address.IsMulticast() {
		return address, fmt.Errorf("the proxy %q is no address of a host, as 10.0.0.5 or fd00::5", s)
	}
	return address.Unmap(), nil
}

// validName reports whether a name can be shown, logged and kept: not empty, at most 256 bytes of UTF-8, all of it visible.
func validName(name string) bool {
	return name != "" && len(name) <= 256 && utf8.ValidString(name) && strings.TrimSpace(name) == name &&
		!strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) })
}

// minToken is how long a token has to be. Shorter ones can be guessed.
const minToken = 16

// BearerTokens lets in requests with one of these tokens in their Authorization header, as scripts send it.
func BearerTokens(users map[string]User) (Identify, error) {
	type known struct {
		digest [sha256.Size]byte
		user   User
	}
	var all []known
	for token, user := range users {
		if len(token) < minToken {
			return nil, fmt.Errorf("the token of the user %q has %d bytes, and %d are the least", user.Name, len(token), minToken)
		}
		if !validName(user.Name) {
			return nil, fmt.Errorf("the token of the user %q: the user has no name that can be shown", user.Name)
		}
		all = append(all, known{sha256.Sum256([]byte(token)), user})
	}
	return func(r *http.Request) (User, error) {
		token, ok := bearer(r)
		if !ok {
			return User{}, &Refused{Challenges: []string{"Bearer"}, Text: "Send a token in the header Authorization."}
		}
		// All are compared, so that the time says nothing of which one is alike.
		digest := sha256.Sum256([]byte(token))
		found := -1
		for i := range all {
			if subtle.ConstantTimeCompare(digest[:], all[i].digest[:]) == 1 {
				found = i
			}
		}
		if found < 0 {
			return User{}, wrongBearer()
		}
		return all[found].user, nil
	}, nil
}

// bearer returns the token of the Authorization header.
func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

func wrongBearer() *Refused {
	return &Refused{Challenges: []string{`Bearer error="invalid_token"`}, Wrong: true, Text: "This token is wrong."}
}

// AnyOf lets in a request that one of several lets in. It asks them in their order, and answers with all their challenges
// where none does.
func AnyOf(ids ...Identify) Identify {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id Identify) bool { return id == nil })
	if len(ids) == 0 {
		return nil
	}
	return func(r *http.Request) (User, error) {
		var errs []error
		for _, id := range ids {
			user, err := id(r)
			if err == nil {
				return user, nil
			}
			errs = append(errs, err)
		}
		return User{}, join(errs)
	}
}

// join returns one error for those of several Identify. A way in that is open to other credentials stands before one that
// knows the user and refuses them, and what is broken before both.
func join(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	var all Refused
	var texts []string
	forbidden := true
	for _, err := range errs {
		refused, ok := asRefused(err)
		if !ok || refused.Status != http.StatusForbidden {
			forbidden = false
		}
		if !ok {
			continue
		}
		if refused.Status != http.StatusForbidden {
			all.Status = max(all.Status, refused.Status)
		}
		all.Challenges = append(all.Challenges, refused.Challenges...)
		all.Wrong = all.Wrong || refused.Wrong
		all.Wait = max(all.Wait, refused.Wait)
		if !slices.Contains(texts, refused.Text) {
			texts = append(texts, refused.Text)
		}
	}
	if forbidden {
		all.Status = http.StatusForbidden
	}
	all.Text, all.Err = strings.Join(texts, " "), errors.Join(errs...)
	return &all
}
