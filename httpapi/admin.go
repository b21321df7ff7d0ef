package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"slices"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/tokens"
)

// Admin returns the handler for operators: tokens and their limits, metrics, what there is. It is no part of the API's own
// handler; a Server serves it on an address of its own.
//
// Tokens, limits and profiles need an account of Settings.Accounts, or a certificate of Settings.AdminCertificates. Without any of
// these they are served to this machine only: requests must name it as their host. Pages of other sites are refused.
func (a *API) Admin() http.Handler {
	d := &admin{guard: a.guard}
	mux := http.NewServeMux()
	for _, row := range []struct {
		pattern string
		open    bool // to all who reach the listener, as lmstfy's
		serve   http.HandlerFunc
	}{
		{"GET /metrics", true, d.metrics},
		{"GET /version", true, d.version},
		{"GET /info", true, d.info},
		{"GET /pools", true, d.pools},
		{"GET /pools/{$}", true, d.pools},
		{"GET /accesslog", true, d.accessLog},
		{"POST /accesslog", false, d.switchAccessLog},
		{"GET /limits", false, d.limits},

		{"GET /token/{namespace}", false, d.listOf},
		{"POST /token/{namespace}", false, d.makeOf},
		{"DELETE /token/{namespace}/{token}", false, d.revokeOf},
		{"GET /token/{namespace}/{token}/limit", false, d.limitOf},
		{"POST /token/{namespace}/{token}/limit", false, d.addLimit},
		{"PUT /token/{namespace}/{token}/limit", false, d.setLimit},
		{"DELETE /token/{namespace}/{token}/limit", false, d.dropLimit},

		{"GET /tokens", false, d.list},
		{"POST /tokens", false, d.create},
		{"GET /tokens/{id}", false, d.get},
		{"DELETE /tokens/{id}", false, d.revoke},
		{"POST /tokens/{id}/rotate", false, d.rotate},
		{"PUT /tokens/{id}/limits", false, d.putLimits},
		{"DELETE /tokens/{id}/limits", false, d.removeLimits},
	} {
		serve := row.serve
		if !row.open {
			serve = d.known(serve)
		}
		mux.HandleFunc(row.pattern, serve)
	}
	if a.settings.Pprof {
		mux.HandleFunc("GET /debug/pprof/", d.known(pprof.Index))
		mux.HandleFunc("GET /debug/pprof/cmdline", d.known(pprof.Cmdline))
		mux.HandleFunc("GET /debug/pprof/profile", d.known(pprof.Profile))
		mux.HandleFunc("GET /debug/pprof/symbol", d.known(pprof.Symbol))
		mux.HandleFunc("POST /debug/pprof/symbol", d.known(pprof.Symbol))
		mux.HandleFunc("GET /debug/pprof/trace", d.known(pprof.Trace))
	}
	return a.wrap(d.local(http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(mux, mostAdminBody))))
}

// admin serves the operators.
type admin struct{ *guard }

// guarded reports whether there is a way to tell who asks.
func (d *admin) guarded() bool {
	return len(d.settings.Accounts) > 0 || len(d.settings.AdminCertificates) > 0
}

// local refuses requests to another host than this machine, if nothing else tells who asks: a name that an attacker's page
// has pointed here is another host.
func (d *admin) local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !d.guarded() && !isHere(r.Host) {
			d.refuse(w, http.StatusForbidden, "the admin handler has no accounts, so it serves this machine only: use localhost, or configure accounts")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// known lets a request pass whose operator is known.
func (d *admin) known(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if d.guarded() && d.who(r) == "" {
			if r.Header.Get("Authorization") != "" {
				d.log.refused(r, "a request to the admin handler with a wrong account was refused")
			}
			if len(d.settings.Accounts) > 0 {
				w.Header().Set("WWW-Authenticate", `Basic realm="Authorization Required"`)
			}
			d.refuse(w, http.StatusUnauthorized, "this call needs an account of the admin handler")
			return
		}
		next(w, r)
	}
}

// who returns the operator who asks; "": it is not known.
func (d *admin) who(r *http.Request) string {
	if name, password, ok := r.BasicAuth(); ok {
		got := sha256.Sum256([]byte(name + "\x00" + password))
		for _, account := range slices.Sorted(maps.Keys(d.settings.Accounts)) {
			want := sha256.Sum256([]byte(account + "\x00" + d.settings.Accounts[account]))
			if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
				return account
			}
		}
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		subject := r.TLS.VerifiedChains[0][0].Subject
		if slices.Contains(d.settings.AdminCertificates, subject.CommonName) || slices.Contains(d.settings.AdminCertificates, subject.String()) {
			return subject.CommonName
		}
	}
	return ""
}

// book returns the tokens as the operator of a request changes them.
func (d *admin) book(r *http.Request) *tokens.Book {
	who := d.who(r)
	if who == "" {
		who = "admin of the HTTP API"
	}
	return &tokens.Book{Do: d.home().neighbor.Do, Clock: clock.System, Who: who}
}

// home is the pool whose Redis has the tokens.
func (g *guard) home() *pool { return g.pools[defaultPool] }

// answer writes JSON as lmstfy does, its names in alphabetical order.
func (d *admin) answer(w http.ResponseWriter, status int, body any) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		status, body = http.StatusInternalServerError, err.Error()
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store") // a token that was just made
	_ = deliver(w, status, bytes.TrimRight(text.Bytes(), "\n"))
}

func (d *admin) refuse(w http.ResponseWriter, status int, text string) {
	d.answer(w, status, map[string]string{"error": text})
}

// WriteMetrics writes the metrics of the API in the text format of Prometheus, as the handler of Admin shows them at /metrics.
func (a *API) WriteMetrics(ctx context.Context, w io.Writer) error { return a.guard.write(ctx, w) }

func (d *admin) metrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_ = d.write(r.Context(), w) // the connection has gone
}

// version answers the release that the program was built of.
func (d *admin) version(w http.ResponseWriter, _ *http.Request) {
	version, commit, date := built()
	d.answer(w, http.StatusOK, map[string]string{"version": version, "build_commit": commit, "build_date": date})
}

// built returns the version of this module in the program, and of which commit and when the program was built.
func built() (version, commit, date string) {
	version = "devel"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, "", ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/goworker/goworker" && m.Version != "" {
			version = m.Version
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.time":
			date = s.Value
		}
	}
	return version, commit, date
}

// pool returns the pool that a request names; it has answered if there is none.
func (d *admin) pool(w http.ResponseWriter, r *http.Request) *pool {
	name := r.FormValue("pool")
	if name == "" {
		name = defaultPool
	}
	p := d.guard.pools[name]
	if p == nil {
		d.refuse(w, http.StatusBadRequest, "the pool was not exists")
	}
	return p
}

// info answers the queues of each namespace. Those without a namespace are of the bare one, or of "".
func (d *admin) info(w http.ResponseWriter, r *http.Request) {
	p := d.pool(w, r)
	if p == nil {
		return
	}
	queues, err := p.jobs.Queues(r.Context())
	if err != nil {
		d.logFailure(r, "the queues cannot be listed", err)
		d.refuse(w, http.StatusInternalServerError, "internal error")
		return
	}
	all := make(map[string][]string)
	for _, q := range queues {
		namespace, name := d.split(q)
		all[namespace] = append(all[namespace], name)
	}
	text, _ := json.MarshalIndent(all, "", "    ") // texts can always be encoded
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = deliver(w, http.StatusOK, append(text, '\n'))
}

// split returns the namespace and the name of one of Resque's queues.
func (g *guard) split(queue string) (namespace, name string) {
	for bare, n := range g.settings.Namespaces {
		if n.Bare && (slices.Contains(n.Queues, queue) || !hasDot(queue)) {
			return bare, queue
		}
	}
	return lmstfyName(queue)
}

func (d *admin) pools(w http.ResponseWriter, _ *http.Request) {
	d.answer(w, http.StatusOK, slices.Sorted(maps.Keys(d.guard.pools)))
}

func (d *admin) accessLog(w http.ResponseWriter, _ *http.Request) {
	status := "disabled"
	if d.log.on.Load() {
		status = "enabled"
	}
	d.answer(w, http.StatusOK, map[string]string{"status": status})
}

func (d *admin) switchAccessLog(w http.ResponseWriter, r *http.Request) {
	switch r.FormValue("status") {
	case "enable":
		d.log.on.Store(true)
	case "disable":
		d.log.on.Store(false)
	default:
		d.refuse(w, http.StatusBadRequest, "invalid status")
		return
	}
	d.accessLog(w, r)
}
