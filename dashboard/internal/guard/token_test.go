package guard

import (
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

var me = User{Name: "me", Role: Admin}

func gate(t *testing.T, token string) *TokenGate {
	t.Helper()
	g, err := NewTokenGate(token, me)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var refresh = regexp.MustCompile(`http-equiv="refresh" content="0;url=([^"]*)"`)

// forwards returns where a page forwards to. "": it is no such page.
func (a answer) forwards() string {
	if found := refresh.FindStringSubmatch(a.text); found != nil {
		return html.UnescapeString(found[1])
	}
	return ""
}

// link are the headers of a browser that follows a link of another site.
var link = []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}

func TestToken(t *testing.T) {
	t.Parallel()
	token, old := NewToken(), NewToken()
	if len(token) != 32 || token == old {
		t.Fatalf("the tokens are %q and %q", token, old)
	}
	s := serve(t, Settings{Token: gate(t, token), Clock: newHand()})
	before := serve(t, Settings{Token: gate(t, old)})
	_, port, _ := strings.Cut(s.address, ":")

	// Another user of this host, without the token.
	for _, path := range []string{"/", "/queues/a", "/live"} {
		s.ask(t, "GET", path).want(t, 401).says(t, "goworker dashboard").protected(t)
	}
	s.ask(t, "POST", "/queues/a/clear").want(t, 401)
	s.ask(t, "POST", "/queues/a/clear?token="+token).want(t, 401)
	s.ask(t, "GET", "/healthz").want(t, 200)

	// The address that was printed: a page that forwards, with a cookie.
	a := s.ask(t, "GET", "/queues/a%2Fb?q=x%3By&token="+token+"&z=%22%3E").want(t, 200)
	if to := a.forwards(); to != "/queues/a%2Fb?q=x%3By&z=%22%3E" {
		t.Errorf("it forwards to %q: %s", to, a.text)
	}
	if a.Header.Get("Referrer-Policy") != "no-referrer" || a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Content-Security-Policy") != Policy {
		t.Errorf("the headers are %v", a.Header)
	}
	cookies := a.Cookies()
	if len(cookies) != 1 {
		t.Fatalf("the cookies are %v", cookies)
	}
	c := cookies[0]
	if c.Name != "goworker-"+port || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.MaxAge != 0 || !c.Expires.IsZero() || c.Domain != "" || c.Path != "/" || strings.Contains(c.Value, token) {
		t.Errorf("the cookie is %+v", c)
	}
	cookie := "Cookie: " + c.Name + "=" + c.Value
	s.ask(t, "GET", "/", cookie).want(t, 200).says(t, "hello me admin").protected(t)
	s.ask(t, "POST", "/queues/a/clear", cookie, "Sec-Fetch-Site: same-origin", "Origin: http://"+s.address).want(t, 200)
	s.ask(t, "POST", "/queues/a/clear", cookie, "Sec-Fetch-Site: cross-site", "Origin: https://evil.example").want(t, 403)
	s.ask(t, "GET", "/", "Cookie: "+c.Name+"=forged; "+c.Name+"="+c.Value).want(t, 200)
	s.ask(t, "HEAD", "/?token="+token).want(t, 200)

	// Scripts.
	s.ask(t, "GET", "/api/v1/queues/a", "Authorization: Bearer "+token).want(t, 200)
	s.ask(t, "POST", "/api/v1/queues/a/pause", "Authorization: Bearer "+token).want(t, 200)

	// What is no cookie and no token of this start.
	was := before.ask(t, "GET", "/?token="+old).Cookies()[0]
	for range 2 * FailuresAMinute { // a page that is open since the last start fails as often as it likes
		s.ask(t, "GET", "/", "Cookie: "+c.Name+"="+was.Value).want(t, 401)
	}
	for _, value := range []string{"", "x", token, strings.ToUpper(c.Value), c.Value + "x", c.Value[1:]} {
		s.ask(t, "GET", "/", "Cookie: "+c.Name+"="+value).want(t, 401)
	}
	s.ask(t, "GET", "/", "Cookie: goworker-1="+c.Value).want(t, 401)

	failures := []func() answer{
		func() answer { return s.ask(t, "GET", "/?token="+old) },
		func() answer { return s.ask(t, "GET", "/?token=") },
		func() answer { return s.ask(t, "GET", "/?token="+old+"&token="+token) },
		func() answer { return s.ask(t, "GET", "/api/v1/queues/a", "Authorization: Bearer "+old) },
		func() answer { return s.ask(t, "GET", "/?token="+old, cookie) },
	}
	for _, fail := range failures {
		if a := fail().want(t, 401); len(a.Cookies()) != 0 {
			t.Errorf("a wrong token gets the cookies %v", a.Cookies())
		}
	}
	for _, fail := range failures {
		fail().want(t, 429)
	}
	// Another user of this host, whose address is the same, locks out nobody.
	s.ask(t, "GET", "/", cookie).want(t, 200)
	s.ask(t, "GET", "/", "Authorization: Bearer "+token).want(t, 200)
	if a := s.ask(t, "GET", "/?token="+token).want(t, 200); a.forwards() != "/" {
		t.Errorf("it forwards to %q", a.forwards())
	}
}

// TestLinkFromElsewhere forwards a browser that comes from another site once.
func TestLinkFromElsewhere(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/jobs"} {
		s := serve(t, Settings{Token: gate(t, NewToken()), Prefix: func(*http.Request) string { return prefix }})
		a := s.ask(t, "GET", prefix+"/queues/a?state=failed&arg.0=%3C", link...).want(t, 200)
		if to := a.forwards(); to != prefix+"/queues/a?arg.0=%3C&state=failed" || len(a.Cookies()) != 0 || strings.Contains(a.text, "hello") {
			t.Errorf("it forwards to %q with %v", to, a.Cookies())
		}
		s.ask(t, "GET", prefix+"/", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document").want(t, 401)
		s.ask(t, "GET", prefix+"/", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image").want(t, 401)
		s.ask(t, "GET", prefix+"/", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe").want(t, 401)
		s.ask(t, "POST", prefix+"/queues/a/clear", link...).want(t, 401)
	}
	s := serve(t, Settings{Identify: func(*http.Request) (User, error) { return User{}, &Refused{} }})
	s.ask(t, "GET", "/", link...).want(t, 401)
	token := NewToken()
	s.ask(t, "GET", "/?token="+token).want(t, 401)
}

// TestForwardStaysHere never forwards to another host.
func TestForwardStaysHere(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/jobs"} {
		token := NewToken()
		g, err := New(Settings{Token: gate(t, token), Prefix: func(*http.Request) string { return prefix }})
		if err != nil {
			t.Fatal(err)
		}
		h := g.Wrap(http.NotFoundHandler())
		for _, path := range []string{"//evil.example/", "///evil.example", `/\evil.example`, "/%5Cevil.example", "/%2Fevil.example", "/\t/evil.example", "/x", "/jobs/x", "/jobs//evil.example"} {
			r, w := newRequest("GET", "/", nil)
			r.URL.Path, r.URL.RawPath, r.URL.RawQuery = path, "", "token="+token
			h.ServeHTTP(w, r)
			to := answer{text: w.Body.String()}.forwards()
			if !strings.HasPrefix(to, prefix+"/") || strings.HasPrefix(to, "//") || strings.HasPrefix(to, `/\`) || strings.ContainsAny(to, "\\\t") {
				t.Errorf("%q forwards to %q", path, to)
			}
		}
	}
}

// TestTokenOverTLS has a cookie that stays within TLS, below the prefix.
func TestTokenOverTLS(t *testing.T) {
	t.Parallel()
	token := NewToken()
	g, err := New(Settings{Token: gate(t, token), Prefix: func(*http.Request) string { return "/jobs" }})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(g.Wrap(http.NotFoundHandler()))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	cookies := send(t, server.Client(), "GET", server.URL+"/jobs/?token="+token).Cookies()
	if len(cookies) != 1 || !cookies[0].Secure || cookies[0].Path != "/jobs/" {
		t.Errorf("the cookies are %v", cookies)
	}
	cookies = send(t, server.Client(), "GET", server.URL+"/jobs/?token="+token, "Host: a.localhost").Cookies()
	if len(cookies) != 1 || cookies[0].Name != "goworker-443" {
		t.Errorf("without a port the cookies are %v", cookies)
	}
}

// TestTokenBesideUsers lets in by the token and by passwords, and counts the failures of both.
func TestTokenBesideUsers(t *testing.T) {
	t.Parallel()
	passwords, err := BasicAuth(usersFile(t))
	if err != nil {
		t.Fatal(err)
	}
	token := NewToken()
	s := serve(t, Settings{Token: gate(t, token), Identify: passwords, Clock: newHand()})
	s.ask(t, "GET", "/", login("vera", "vera")).want(t, 200).says(t, "hello vera")
	s.ask(t, "GET", "/", "Authorization: Bearer "+token).want(t, 200).says(t, "hello me")
	if a := s.ask(t, "GET", "/").want(t, 401); len(a.Header.Values("WWW-Authenticate")) != 2 {
		t.Errorf("the challenges are %v", a.Header.Values("WWW-Authenticate"))
	}
	for range FailuresAMinute {
		s.ask(t, "GET", "/", "Authorization: Bearer "+NewToken()).want(t, 401)
	}
	s.ask(t, "GET", "/", login("vera", "vera")).want(t, 429)
	s.ask(t, "GET", "/", "Authorization: Bearer "+token).want(t, 200)
}

func TestTokenFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	var all sync.WaitGroup
	tokens := make([]string, 8)
	for i := range tokens {
		all.Go(func() {
			var err error
			if tokens[i], err = TokenFile(file); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, token := range tokens {
		if token != tokens[0] || len(token) != 32 {
			t.Errorf("processes that start at once have the tokens %q", tokens)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || len(entries) != 1 {
		t.Errorf("the file is %v, %v, among %v", info, err, entries)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o666, 0o610} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := TokenFile(file); err == nil || !strings.Contains(err.Error(), "0600") {
			t.Errorf("the mode %s: %v", mode, err)
		}
	}
	for _, text := range []string{"", "short", "two words that are long enough together", strings.Repeat("a", 300)} {
		name := filepath.Join(dir, "bad")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := TokenFile(name); err == nil || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, name := range []string{dir, filepath.Join(dir, "none", "token")} {
		if _, err := TokenFile(name); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := NewTokenGate("short", me); err == nil {
		t.Error("a short token is accepted")
	}
	if _, err := NewTokenGate(NewToken(), User{}); err == nil {
		t.Error("a token of nobody is accepted")
	}
}
