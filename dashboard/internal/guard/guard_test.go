package guard

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// userLines are lines of a file of users, whose password is their name. The hash has the least iterations.
var userLines = sync.OnceValue(func() string {
	var text strings.Builder
	for _, u := range []struct{ name, role, queues string }{{"vera", "viewer", ""}, {"oscar", "operator", ""}, {"ada", "admin", ""}, {"quinn", "operator", "mail,img*"}} {
		fmt.Fprintf(&text, "%s:%s:%s:%s\n", u.name, u.role, u.queues, quickHash(u.name))
	}
	return text.String()
})

func usersFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte(userLines()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func login(name, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

// protected are the headers that each answer has.
var protected = map[string]string{
	"Content-Security-Policy": Policy, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Robots-Tag": "noindex",
	"Cross-Origin-Opener-Policy": "same-origin", "Permissions-Policy": permissions, "Referrer-Policy": "same-origin",
}

func (a answer) protected(t *testing.T) {
	t.Helper()
	for name, want := range protected {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s %s: %s is %q, want %q", a.Request.Method, a.Request.URL, name, got, want)
		}
	}
}

// TestRoutes asks for a route of each kind as each kind of user.
func TestRoutes(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/jobs"} {
		identify, err := BasicAuth(usersFile(t))
		if err != nil {
			t.Fatal(err)
		}
		clock := newHand()
		s := serve(t, Settings{Identify: identify, Prefix: func(*http.Request) string { return prefix }, Clock: clock})
		users := []string{"", login("vera", "wrong"), login("vera", "vera"), login("oscar", "oscar"), login("ada", "ada"), login("quinn", "quinn")}
		for route, want := range map[string][]int{
			"GET /":                               {401, 401, 200, 200, 200, 200},
			"HEAD /":                              {401, 401, 200, 200, 200, 200},
			"GET /queues/mail":                    {401, 401, 200, 200, 200, 200},
			"GET /queues/secret":                  {401, 401, 200, 200, 200, 404},
			"GET /api/v1/queues/mail":             {401, 401, 200, 200, 200, 200},
			"GET /api/v1/queues/secret":           {401, 401, 200, 200, 200, 404},
			"GET /live":                           {401, 401, 200, 200, 200, 200},
			"POST /queues/img1/pause":             {401, 401, 403, 200, 200, 200},
			"POST /queues/secret/pause":           {401, 401, 403, 200, 200, 404},
			"POST /queues/mail/clear":             {401, 401, 403, 403, 200, 403},
			"POST /api/v1/queues/mail/pause":      {401, 401, 403, 200, 200, 200},
			"GET /queues/mail/pause":              {401, 401, 405, 405, 405, 405},
			"PUT /queues/mail/pause":              {401, 401, 405, 405, 405, 405},
			"DELETE /queues/mail":                 {401, 401, 405, 405, 405, 405},
			"OPTIONS /queues/mail":                {401, 401, 405, 405, 405, 405},
			"GET /nowhere":                        {401, 401, 404, 404, 404, 404},
			"GET /assets/abc/app.css":             {200, 200, 200, 200, 200, 200},
			"GET /healthz":                        {200, 200, 200, 200, 200, 200},
			"GET /readyz":                         {200, 200, 200, 200, 200, 200},
			"POST /healthz":                       {401, 401, 405, 405, 405, 405},
			"GET /healthz/x":                      {401, 401, 404, 404, 404, 404},
			"GET /assets/%2e%2e/queues/mail":      {401, 401, -1, -1, -1, -1},
			"GET /assets/%2E%2E%2Fqueues%2Fmail":  {401, 401, -1, -1, -1, -1},
			"GET /assets//queues/mail":            {401, 401, 307, 307, 307, 307},
			"GET /assets/x%2f..%2f..%2fqueues/ma": {401, 401, -1, -1, -1, -1},
			"GET /Assets/x":                       {401, 401, 404, 404, 404, 404},
		} {
			method, path, _ := strings.Cut(route, " ")
			if prefix != "" && strings.Contains(path, "//") {
				continue // the program's own mux redirects it
			}
			for i, user := range users {
				clock.pass(time.Minute) // so that no failure and no change is one too many
				var headers []string
				if user != "" {
					headers = []string{user}
				}
				a := s.ask(t, method, prefix+path, headers...)
				a.protected(t)
				if want[i] >= 0 {
					a.want(t, want[i])
				}
				if a.StatusCode == 401 && strings.Contains(a.Header.Get("Content-Type"), "json") != strings.HasPrefix(path, "/api/") {
					t.Errorf("%s is refused with %s", route, a.Header.Get("Content-Type"))
				}
				if a.StatusCode == 401 && !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Basic ") {
					t.Errorf("%s: WWW-Authenticate is %q", route, a.Header.Get("WWW-Authenticate"))
				}
				if strings.Contains(a.text, "hello") && (i < 2 || want[0] == 200) {
					t.Errorf("%s as %q shows %s", route, user, a.text)
				}
			}
		}
	}
}

// TestNobody shows nothing where no function finds users, to a loopback address too.
func TestNobody(t *testing.T) {
	t.Parallel()
	s := serve(t, Settings{})
	for _, path := range []string{"/", "/queues/a", "/live", "/?token=" + NewToken()} {
		s.ask(t, "GET", path, login("ada", "ada")).want(t, 403).says(t, "dashboard.BasicAuth").says(t, "<pre><code>").protected(t)
	}
	s.ask(t, "POST", "/queues/a/clear").want(t, 403)
	a := s.ask(t, "GET", "/api/v1/queues/a").want(t, 403)
	var problem struct {
		Title, Detail string
		Status        int
	}
	if err := json.Unmarshal([]byte(a.text), &problem); err != nil || problem.Status != 403 || problem.Title == "" || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("the problem is %s, %v", a.text, err)
	}
	if a := s.ask(t, "GET", "/", "Accept: application/json"); a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("a client that accepts JSON gets %s", a.Header.Get("Content-Type"))
	}
	s.ask(t, "GET", "/healthz").want(t, 200)
}

// TestIdentify refuses users that are none, and hides the errors of programs.
func TestIdentify(t *testing.T) {
	t.Parallel()
	for name, identify := range map[string]Identify{
		"no name":   as(User{Role: Admin}),
		"bad name":  as(User{Name: "a\nb"}),
		"long name": as(User{Name: strings.Repeat("a", 257)}),
		"no role":   as(User{Name: "a", Role: 7}),
		"error":     func(*http.Request) (User, error) { return User{Name: "a", Role: Admin}, errors.New("db: secret") },
	} {
		s := serve(t, Settings{Identify: identify})
		if a := s.ask(t, "GET", "/").want(t, 401); strings.Contains(a.text, "secret") || strings.Contains(a.text, "hello") {
			t.Errorf("%s: the page says %s", name, a.text)
		}
		if !strings.Contains(s.log.String(), "dashboard request refused") {
			t.Errorf("%s: the log is %q", name, s.log)
		}
	}
	s := serve(t, Settings{Identify: as(User{Name: "alice"}), Page: func(w http.ResponseWriter, _ *http.Request, status int, title, text string) {
		w.WriteHeader(status)
		fmt.Fprint(w, "MINE ", title)
	}})
	s.ask(t, "GET", "/").want(t, 200).says(t, "hello alice viewer")
	s.ask(t, "POST", "/queues/a/pause").want(t, 403).says(t, "MINE")
}

// TestFailures lets an address fail five times, and then holds back what may be a guess.
func TestFailures(t *testing.T) {
	t.Parallel()
	file := usersFile(t)
	passwords, err := BasicAuth(file)
	if err != nil {
		t.Fatal(err)
	}
	session := func(r *http.Request) (User, error) {
		if c, err := r.Cookie("session"); err == nil && c.Value == "good" {
			return User{Name: "sam"}, nil
		}
		return User{}, &Refused{Text: "Sign in."}
	}
	clock := newHand()
	s := serve(t, Settings{Identify: AnyOf(session, passwords), Clock: clock})
	for range 20 {
		s.ask(t, "GET", "/").want(t, 401) // without a password nothing fails
	}
	for range FailuresAMinute {
		s.ask(t, "GET", "/", login("ada", "wrong")).want(t, 401)
	}
	if a := s.ask(t, "GET", "/", login("ada", "ada")).want(t, 429); a.Header.Get("Retry-After") != "12" {
		t.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
	}
	s.ask(t, "GET", "/", "Cookie: session=good").want(t, 200)
	s.ask(t, "GET", "/").want(t, 401)
	s.ask(t, "GET", "/healthz", login("ada", "wrong")).want(t, 200)
	clock.pass(12 * time.Second)
	s.ask(t, "GET", "/", login("ada", "ada")).want(t, 200)
	s.ask(t, "GET", "/", login("ada", "wrong")).want(t, 401)
	s.ask(t, "GET", "/", login("ada", "ada")).want(t, 429) // remembered, and no guess faster than others
}

// TestManyGuesses sends guesses at once, the right one among them: those that are looked at learn no more than five in a row.
func TestManyGuesses(t *testing.T) {
	t.Parallel()
	failed := make(chan struct{})
	identify := func(r *http.Request) (User, error) {
		if _, password, _ := r.BasicAuth(); password == "right" {
			<-failed
			return User{Name: "ada"}, nil
		}
		return User{}, errors.New("wrong")
	}
	s := serve(t, Settings{Identify: identify, Clock: newHand()})
	right := make(chan answer)
	go func() { right <- s.ask(t, "GET", "/", login("ada", "right")) }()
	for range FailuresAMinute {
		s.ask(t, "GET", "/", login("ada", "wrong")).want(t, 401)
	}
	close(failed)
	if a := <-right; a.StatusCode == 200 {
		t.Error("a guess is answered after five others failed")
	}
}

// TestChanges limits the changes of a user, and the size of a body.
func TestChanges(t *testing.T) {
	t.Parallel()
	clock := newHand()
	identify := func(r *http.Request) (User, error) { return User{Name: r.Header.Get("X-Name"), Role: Admin}, nil }
	s := serve(t, Settings{Identify: identify, Clock: clock})
	for range ChangesAtOnce {
		s.ask(t, "POST", "/queues/a/clear", "X-Name: alice").want(t, 200)
	}
	if a := s.ask(t, "POST", "/queues/a/clear", "X-Name: alice").want(t, 429); a.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
	}
	s.ask(t, "GET", "/", "X-Name: alice").want(t, 200)
	s.ask(t, "POST", "/queues/a/clear", "X-Name: bob").want(t, 200)
	clock.pass(time.Second)
	for range ChangesASecond {
		s.ask(t, "POST", "/queues/a/clear", "X-Name: alice").want(t, 200)
	}
	s.ask(t, "POST", "/queues/a/clear", "X-Name: alice").want(t, 429)

	var got int64
	var failed error
	g, err := New(Settings{Identify: as(User{Name: "a"})})
	if err != nil {
		t.Fatal(err)
	}
	h := g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, failed = io.Copy(io.Discard, r.Body) }))
	r, w := newRequest("POST", "/", strings.NewReader(strings.Repeat("x", MaxBody+1)))
	h.ServeHTTP(w, r)
	if tooLarge := new(http.MaxBytesError); got != MaxBody || !errors.As(failed, &tooLarge) {
		t.Errorf("%d bytes are read, %v", got, failed)
	}
}

// TestLog writes one refusal a second of an address, and no token.
func TestLog(t *testing.T) {
	t.Parallel()
	clock := newHand()
	gate, err := NewTokenGate(NewToken(), User{Name: "me", Role: Admin})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, Settings{Token: gate, Clock: clock})
	wrong := NewToken()
	for range 4 {
		s.ask(t, "GET", "/queues/a?token="+wrong).want(t, 401)
	}
	clock.pass(time.Second)
	s.ask(t, "GET", "/"+strings.Repeat("x", 5000), "Authorization: Bearer "+wrong).want(t, 401)
	if text := s.log.String(); strings.Count(text, "\n") != 2 || strings.Contains(text, wrong) || !strings.Contains(text, "path=/queues/a status=401") || len(text) > 2000 {
		t.Errorf("the log is %s", text)
	}
}

// TestAddresses counts the addresses that one host can choose among as one.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"10.0.0.5:4000": "10.0.0.5", "[::ffff:10.0.0.5]:1": "10.0.0.5", "[::1]:4000": "::1",
		"[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64", "[2001:db8:1:2::9]:2": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64", "@": "@", "": "",
	} {
		if got := addressOf(&http.Request{RemoteAddr: from}); got != want {
			t.Errorf("%q counts as %q, want %q", from, got, want)
		}
	}
}
