package guard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// tokenBytes is how much of a token is random: 160 bits.
const tokenBytes = 20

// leastToken is how many characters a token of a file has to have.
const leastToken = 26

// NewToken returns a token of 160 random bits, as 32 letters and digits.
func NewToken() string {
	random := make([]byte, tokenBytes)
	rand.Read(random) // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(random))
}

// TokenFile returns the token in a file. Where the file is not there, TokenFile makes it, with a new token and the mode 0600. It
// refuses a file that others than its owner may read or write.
func TokenFile(file string) (string, error) {
	if err := makeTokenFile(file); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("the token file: %w", err)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("the token file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("the token file: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("the token file %s has the mode %s; want a plain file with 0600, since all who can read it are let in", file, info.Mode())
	}
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", fmt.Errorf("the token file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if err := checkToken(token); err != nil {
		return "", fmt.Errorf("the token file %s: %w", file, err)
	}
	return token, nil
}

// makeTokenFile makes the file with all its content at once, so that another process that starts reads a whole token. Its error
// is os.ErrExist where the file is there.
func makeTokenFile(file string) error {
	if _, err := os.Stat(file); err == nil {
		return os.ErrExist
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), ".token-") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.WriteString(NewToken() + "\n")
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Link(temporary.Name(), file)
}

func checkToken(token string) error {
	if len(token) < leastToken || len(token) > 256 || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return fmt.Errorf("the token has %d characters; want %d to 256 of ASCII without spaces", len(token), leastToken)
	}
	return nil
}

// TokenGate lets in a browser that opens an address with the right token: /?token=… . The browser gets a cookie with a
// digest of the token, and keeps it until it is closed. Scripts send the token in the header Authorization. It is safe for
// concurrent use.
type TokenGate struct {
	user   User
	digest [sha256.Size]byte // of the token
	cookie string            // the value of the cookie
}

// NewTokenGate returns the gate of a token, which is of NewToken or TokenFile. All who know it are the user.
func NewTokenGate(token string, user User) (*TokenGate, error) {
	if err := checkToken(token); err != nil {
		return nil, err
	}
	if !validName(user.Name) {
		return nil, fmt.Errorf("the user %.300q of the token has no name that can be shown", user.Name)
	}
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("the cookie of goworker dashboard"))
	return &TokenGate{user: user, digest: sha256.Sum256([]byte(token)), cookie: base64.RawURLEncoding.EncodeToString(mac.Sum(nil))}, nil
}

const (
	needToken  = "Open the address that goworker dashboard printed when it started. If this browser did so since then, load this page again."
	wrongToken = "This token is not the one of this dashboard. It may be of an earlier start. Open the address that goworker dashboard printed when it started last."
)

// Identify lets in a request with the cookie, or with the token in its Authorization header. It is an Identify.
func (t *TokenGate) Identify(r *http.Request) (User, error) {
	for _, cookie := range r.CookiesNamed(cookieName(r)) {
		if subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(t.cookie)) == 1 {
			return t.user, nil
		}
	}
	token, ok := bearer(r)
	if !ok {
		return User{}, &Refused{Challenges: []string{"Bearer"}, Text: needToken}
	}
	if !t.right(token) {
		return User{}, wrongBearer()
	}
	return t.user, nil
}

func (t *TokenGate) right(token string) bool {
	digest := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(digest[:], t.digest[:]) == 1
}

// cookieName has the port that the browser sees, since a cookie goes to all ports of a host.
func cookieName(r *http.Request) string {
	port := "80"
	if r.TLS != nil {
		port = "443"
	}
	if _, p, err := net.SplitHostPort(r.Host); err == nil && p != "" {
		port = p
	}
	return "goworker-" + port
}

// carries reports whether the address of a request has a token.
func carries(r *http.Request) bool {
	return reads(r) && r.URL.Query().Has("token")
}

// reads reports whether a request changes nothing.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// enter answers a request with a token in its address: a right one gets the cookie, and goes on to the same address without it.
func (t *TokenGate) enter(w http.ResponseWriter, r *http.Request, prefix string) error {
	query := r.URL.Query()
	if tokens := query["token"]; len(tokens) != 1 || !t.right(tokens[0]) {
		return &Refused{Challenges: []string{"Bearer"}, Wrong: true, Text: wrongToken}
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: t.cookie, Path: prefix + "/", Secure: r.TLS != nil, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	query.Del("token")
	forward(w, r, prefix, query)
	return nil
}

// crossing reports whether a browser follows a link of another site. It leaves a SameSite=Strict cookie out then. The answer is
// a page that forwards to the same address: its own request comes from this site, with the cookie. That request is no crossing
// one, so a browser without the cookie is forwarded once.
func crossing(r *http.Request) bool {
	return reads(r) && r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// forwarding is not a redirect: a browser that came from another site follows a redirect without the cookie. The empty icon keeps it
// from asking for /favicon.ico.
var forwarding = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>goworker</title><link rel="icon" href="data:,"><meta http-equiv="refresh" content="{{.Refresh}}"></head>
<body><p><a href="{{.To}}">Go on to the dashboard</a></p></body></html>
`))

// forward answers with a page that goes on to the path of the request with another query. Its address is in no Referer.
func forward(w http.ResponseWriter, r *http.Request, prefix string, query url.Values) {
	to := r.URL.EscapedPath()
	if !strings.HasPrefix(to, prefix+"/") {
		to = prefix + "/" + strings.TrimLeft(to, "/") // http.StripPrefix took it
	}
	to = "/" + strings.TrimLeft(to, "/") // two slashes at the beginning would name another host
	if len(query) > 0 {
		to += "?" + query.Encode()
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = forwarding.Execute(w, struct{ Refresh, To string }{"0;url=" + to, to}) // the client may be gone
}
