package guard

import (
	"encoding/json"
	"html/template"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Refuse answers a request that is not served: with a page, or with application/problem+json where the client wants JSON. The
// text has paragraphs with an empty line between them. A paragraph whose lines begin with a tab is code. why is for the log,
// which has one refusal a second of each address.
func (g *Guard) Refuse(w http.ResponseWriter, r *http.Request, status int, title, text, why string) {
	g.note(r, status, why)
	if !g.wantsJSON(r) {
		g.settings.Page(w, r, status, title, text)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { // the client may be gone
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", title, status, text})
}

// TooMany answers with 429 a request of a user who did something too often, or does too much at a time. wait is how long the
// user has to wait; 0: nobody knows.
func (g *Guard) TooMany(w http.ResponseWriter, r *http.Request, wait time.Duration, text string) {
	retryAfter(w, wait)
	g.Refuse(w, r, http.StatusTooManyRequests, "Too many requests", text, "too many requests")
}

// retryAfter sets the header in whole seconds.
func retryAfter(w http.ResponseWriter, wait time.Duration) {
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
}

// note writes a refusal to the log. A path stands there without its query, which may have a token.
func (g *Guard) note(r *http.Request, status int, why string) {
	if _, ok := g.limits.logged.take(addressOf(r)); !ok {
		return
	}
	args := []any{"address", short(r.RemoteAddr), "method", r.Method, "host", short(r.Host), "path", short(r.URL.Path), "status", status, "reason", short(why)}
	if user, ok := UserOf(r.Context()); ok {
		args = append(args, "user", user.Name)
	}
	level := slog.LevelWarn
	if status == http.StatusUnauthorized && !guesses(r) && !carries(r) {
		level = slog.LevelInfo // a browser asks without, and is asked for its user
	}
	g.settings.Log.Log(r.Context(), level, "dashboard request refused", args...)
}

// short cuts what a client sent, so that it does not fill the log.
func short(s string) string {
	const most = 300
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// addressOf returns what the failures and refusals of an address are counted by: the address that a request came from, without the
// port. Of IPv6 it is the net of 64 bits, since one host may use each address in it.
func addressOf(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return short(r.RemoteAddr) // of a Unix socket
	}
	address := from.Addr().Unmap().WithZone("")
	if address.Is6() && !address.IsLoopback() {
		return netip.PrefixFrom(address, 64).Masked().String()
	}
	return address.String()
}

// wantsJSON reports whether a client reads JSON and no pages.
func (g *Guard) wantsJSON(r *http.Request) bool {
	if strings.HasPrefix(g.path(r), "/api/") {
		return true
	}
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "json") && !strings.Contains(accept, "text/html")
}

// plain is the page of a refusal where the settings have none. It needs no assets, since a request for them may be refused too.
var plain = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title></head>
<body><main><h1>{{.Title}}</h1>
{{range .Parts}}{{if .Code}}<pre><code>{{.Text}}</code></pre>{{else}}<p>{{.Text}}</p>{{end}}
{{end}}</main></body></html>
`))

// Part is a part of the text of a refusal.
type Part struct {
	Text string
	Code bool
}

// Parts divides the text of a refusal into its paragraphs, and takes the tabs from its code.
func Parts(text string) (parts []Part) {
	for part := range strings.SplitSeq(text, "\n\n") {
		code, ok := strings.CutPrefix(part, "\t")
		if ok {
			part = strings.ReplaceAll(code, "\n\t", "\n")
		}
		parts = append(parts, Part{part, ok})
	}
	return parts
}

func page(w http.ResponseWriter, _ *http.Request, status int, title, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = plain.Execute(w, struct { // the client may be gone
		Title string
		Parts []Part
	}{title, Parts(text)})
}
