package guard

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strings"

	"github.com/goworker/goworker/internal/clock"
)

// Settings say who may look at a dashboard, and where it is.
type Settings struct {
	// Identify finds the user of a request. nil: nobody is let in but by Token, and a page says how to set it.
	Identify Identify

	// Token lets in requests with a token or its cookie, before Identify is asked. nil: there is none, and ?token= means nothing.
	Token *TokenGate

	// Hosts are the names of the dashboard. Requests to another name are refused, but for those to IP addresses, to
	// localhost and to names that end in .localhost.
	Hosts []string

	// TrustedOrigins are other sites whose pages may change something here, as https://ops.example.com.
	TrustedOrigins []string

	// Prefix is the path that the dashboard is mounted at, as /jobs, without a slash at its end. nil: "".
	Prefix func(r *http.Request) string

	// Log gets refusals. nil: slog.Default.
	Log *slog.Logger

	// Page answers with the page of a refusal. Parts divides its text. nil: a small page without assets.
	Page func(w http.ResponseWriter, r *http.Request, status int, title, text string)

	// Clock tells the time. nil: the clock of this machine.
	Clock clock.Clock
}

// Guard stands before a dashboard, and lets in who may look. It is safe for concurrent use.
type Guard struct {
	settings Settings
	hosts    hosts
	crossing *http.CrossOriginProtection
	limits   limits
}

// New returns a guard with these settings. Its error names a host or an origin that is none.
func New(s Settings) (*Guard, error) {
	g := &Guard{settings: s, crossing: http.NewCrossOriginProtection()}
	var err error
	if g.hosts, err = newHosts(s.Hosts); err != nil {
		return nil, err
	}
	for _, origin := range s.TrustedOrigins {
		if err := g.crossing.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("the trusted origin %q: want one as https://ops.example.com: %w", origin, err)
		}
	}
	if s.Prefix == nil {
		g.settings.Prefix = func(*http.Request) string { return "" }
	}
	if s.Log == nil {
		g.settings.Log = slog.Default()
	}
	if s.Page == nil {
		g.settings.Page = page
	}
	if s.Clock == nil {
		g.settings.Clock = clock.System
	}
	g.limits = newLimits(g.settings.Clock)
	return g, nil
}

// Wrap returns a handler that serves by next the requests of users that are let in:
//
//  1. Each answer gets the headers that protect a browser.
//  2. The Host has to be one of the dashboard.
//  3. /assets/, /healthz and /readyz are served to everybody.
//  4. Token, or Identify, has to find a user. UserOf returns it.
//  5. What changes something has to come from a page of the dashboard, or from no browser.
//  6. A user changes something so often at most. The body of a request has a limit.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if g.settings.Token != nil && carries(r) {
			w.Header().Set("Referrer-Policy", "no-referrer")
		}
		if !g.hosts.allow(r.Host) {
			g.Refuse(w, r, http.StatusForbidden, "This name is not known", unknownHost(r.Host), "unknown host")
			return
		}
		if g.open(r) {
			next.ServeHTTP(w, r)
			return
		}
		user, ok := g.identify(w, r)
		if !ok {
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), userKey{}, user))
		if !g.ours(w, r) {
			return
		}
		if changes(r) {
			if wait, ok := g.limits.changes.take(user.Name); !ok {
				g.TooMany(w, r, wait, fmt.Sprintf("You may change %d things a second. Wait a moment.", ChangesASecond))
				return
			}
		}
		r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
		next.ServeHTTP(w, r)
	})
}

type userKey struct{}

// UserOf returns the user that Wrap found.
func UserOf(ctx context.Context) (User, bool) {
	user, ok := ctx.Value(userKey{}).(User)
	return user, ok
}

// path returns the path of a request below the prefix.
func (g *Guard) path(r *http.Request) string {
	return strings.TrimPrefix(r.URL.Path, g.settings.Prefix(r))
}

// open reports whether everybody may have what is at the path of a request. A path with .. or // in it is none of these: a
// router might find something else there.
func (g *Guard) open(r *http.Request) bool {
	if !reads(r) || path.Clean(r.URL.Path) != r.URL.Path || r.URL.RawPath != "" {
		return false
	}
	p := g.path(r)
	return strings.HasPrefix(p, "/assets/") || p == "/healthz" || p == "/readyz"
}

// changes reports whether a request may change something.
func changes(r *http.Request) bool { return !reads(r) && r.Method != http.MethodOptions }

// identify finds the user of a request, or answers it.
//
// The failures of an address hold back what may be a guess: a request with an Authorization header. The cookie and the token
// are too long to guess, and what a proxy or a session of the program says is no guess. So a stranger who fails from the address
// of a proxy does not lock out its users.
func (g *Guard) identify(w http.ResponseWriter, r *http.Request) (User, bool) {
	token, identify, address := g.settings.Token, g.settings.Identify, addressOf(r)
	if token == nil && identify == nil {
		g.Refuse(w, r, http.StatusForbidden, "Nobody may look yet", noIdentify, "no function finds users")
		return User{}, false
	}
	var errs []error
	if token != nil {
		if carries(r) {
			if err := token.enter(w, r, g.settings.Prefix(r)); err != nil {
				g.unknown(w, r, address, err)
			}
			return User{}, false
		}
		user, err := token.Identify(r)
		if err == nil {
			return user, true
		}
		errs = append(errs, err)
	}
	if identify != nil {
		blocked := func() bool { return guesses(r) && g.limits.failures.left(address) > 0 }
		if blocked() {
			g.failedTooOften(w, r, address)
			return User{}, false
		}
		user, err := identify(r)
		if err == nil {
			err = checkUser(user)
		}
		if err == nil && blocked() {
			// Other requests failed while this one was looked at: many guesses at once learn no more than some.
			g.failedTooOften(w, r, address)
			return User{}, false
		}
		if err == nil {
			return user, true
		}
		errs = append(errs, err)
	}
	if token != nil && !guesses(r) && crossing(r) {
		forward(w, r, g.settings.Prefix(r), r.URL.Query())
		return User{}, false
	}
	g.unknown(w, r, address, join(errs))
	return User{}, false
}

// guesses reports whether a request may be a guess of a password or a token.
func guesses(r *http.Request) bool { return r.Header.Get("Authorization") != "" }

// checkUser refuses a user that is nobody.
func checkUser(u User) error {
	if !validName(u.Name) {
		return fmt.Errorf("the function that finds users returned no name that can be shown: %.300q", u.Name)
	}
	if u.Role < Viewer || u.Role > Admin {
		return fmt.Errorf("the function that finds users returned the role %d of %s, which is none", u.Role, u.Name)
	}
	return nil
}

// unknown answers a request without a user, and counts the failure.
func (g *Guard) unknown(w http.ResponseWriter, r *http.Request, address string, err error) {
	refused, ok := asRefused(err)
	if !ok {
		refused = &Refused{}
	}
	status, title, text := refused.Status, http.StatusText(refused.Status), refused.Text
	switch {
	case status < 400 || status > 599:
		status, title = http.StatusUnauthorized, "Who are you?"
	case status == http.StatusForbidden:
		title = "You may not look here"
	}
	if text == "" {
		text = "You are not signed in."
	}
	if refused.Wrong || guesses(r) && status == http.StatusUnauthorized {
		if _, ok := g.limits.failures.take(address); !ok {
			g.failedTooOften(w, r, address)
			return
		}
	}
	for _, challenge := range refused.Challenges {
		w.Header().Add("WWW-Authenticate", challenge)
	}
	retryAfter(w, refused.Wait)
	g.Refuse(w, r, status, title, text, err.Error())
}

func (g *Guard) failedTooOften(w http.ResponseWriter, r *http.Request, address string) {
	retryAfter(w, g.limits.failures.left(address))
	g.Refuse(w, r, http.StatusTooManyRequests, "Too many failures",
		fmt.Sprintf("Your address sent %d wrong passwords or tokens within a minute. Wait a moment.", FailuresAMinute), "too many failures")
}

// ours reports whether a request that changes something comes from a page of the dashboard, or from no browser. It answers
// others.
func (g *Guard) ours(w http.ResponseWriter, r *http.Request) bool {
	err := g.crossing.Check(r)
	if err == nil {
		return true
	}
	text := foreignPage
	if origin := r.Header.Get("Origin"); r.Header.Get("Sec-Fetch-Site") == "" && origin != "null" {
		text = rewrittenHost(r.Host, origin)
	}
	g.Refuse(w, r, http.StatusForbidden, "This came from another site", text, err.Error())
	return false
}
