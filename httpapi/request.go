package httpapi

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/pattern"
)

// retrySoon is when a client may try again what fails for a moment.
const retrySoon = time.Second

const (
	bodyGrace    = 5 * time.Second // how long a body may take, beside the time that its bytes have
	bodyRate     = 10 << 10        // bytes a second that a client sends at least
	writeWithin  = 5 * time.Second // how long an answer may take, beside the time that its bytes have
	headerWithin = 5 * time.Second
	idleAfter    = 2 * time.Minute
)

// request is what the guard notes of a request. Its handler and admit write it, and wrap reads it when they are through.
type request struct {
	id               string
	namespace, queue string
	token            string      // the first digits of its digest
	header           http.Header // of the answer
}

type requestKey struct{}

// visit is what wrap has of a request, in one piece.
type visit struct {
	context.Context
	about  request
	answer answer
	id     [1]string
}

// Value has the context of a request say what is noted of it.
func (v *visit) Value(key any) any {
	if key == (requestKey{}) {
		return &v.about
	}
	return v.Context.Value(key)
}

// aboutRequest returns what is noted of the request of a context; nil: nothing is.
func aboutRequest(ctx context.Context) *request {
	about, _ := ctx.Value(requestKey{}).(*request)
	return about
}

// requestID returns the id of the request of a context.
func requestID(ctx context.Context) string {
	if about := aboutRequest(ctx); about != nil {
		return about.id
	}
	return ""
}

// wrap gives each request an id, bounds the times of its body and of its answer, counts it and writes its line of the access
// log. A handler that panics costs its own request only.
func (g *guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		v := &visit{Context: r.Context(), about: request{id: idOf(r, began), header: w.Header()}, answer: answer{ResponseWriter: w}}
		r = r.WithContext(v)
		about, answer := &v.about, &v.answer
		v.id[0] = about.id
		answer.Header()["X-Request-Id"] = v.id[:]
		if r.Header["Expect"] != nil { // net/http answers to it when the body is read, and may have the limit of the answer before
			answer.bound(0)
		}
		if g.stopping() {
			answer.Header().Set("Connection", "close")
		}
		limitBody(answer, r)
		g.metrics.inFlight.Add(1)
		defer func() {
			failure := recover()
			whole := failure == nil || answer.status == 0 && failure != http.ErrAbortHandler
			if failure != nil && whole {
				answer.Header().Set("Connection", "close")
				turnAway(answer, r, newProblem("internal", "the server has a defect; its log says which, by the id of the request"))
			}
			if answer.status == 0 {
				answer.bound(0) // net/http answers for a handler that wrote nothing
			}
			took := time.Since(began)
			g.metrics.end(r.Pattern, answer.code(), took)
			g.log.request(r, about, answer, took)
			if failure != nil && failure != http.ErrAbortHandler {
				g.log.panicked(r, failure)
			}
			if !whole {
				panic(http.ErrAbortHandler) // half an answer must not look like one
			}
		}()
		if g.settings.Open && !fromHere(r) {
			turnAway(answer, r, newProblem("forbidden", "this server asks for no token, so it serves only its own machine: use localhost, and no page of another host"))
			return
		}
		next.ServeHTTP(answer, r)
	})
}

var givenID = pattern.New(`^[-_.A-Za-z0-9]{1,64}$`)

// idOf returns the id that a proxy has given a request, or makes one.
func idOf(r *http.Request, now time.Time) string {
	if given := r.Header.Get("X-Request-Id"); given != "" && givenID.MatchString(given) {
		return given
	}
	return httpjob.NewID(now.UnixMilli(), rand.Uint32())
}

// answer notes what was answered, and bounds how long each part of it may take.
type answer struct {
	http.ResponseWriter
	status int
	bytes  int64
	until  time.Time // the client has to take what was written until then
}

// bound gives the client time for so many bytes more.
func (a *answer) bound(bytes int64) {
	const exact = writeWithin / 10 // what is written at once needs no limit of its own
	if until := time.Now().Add(writeWithin + timeOf(bytes)); until.Sub(a.until) > exact {
		a.until = until
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(until)
	}
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
	a.bound(0)
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	a.bound(int64(len(p)))
	n, err := a.ResponseWriter.Write(p)
	a.bytes += int64(n)
	return n, err
}

// timeOf is how long so many bytes may take.
func timeOf(bytes int64) time.Duration {
	return time.Duration(min(max(bytes, 0), 1<<40)/bodyRate) * time.Second
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) code() int {
	if a.status == 0 {
		return http.StatusOK // as net/http answers for a handler that wrote nothing
	}
	return a.status
}

// redisTime is the time that a call has for what it asks of Redis, but for waits. It begins with the first question: until then a
// slow client may send its body.
type redisTime struct {
	brief *brief
	now   context.Context // nil: it has not begun
}

// ctx is the context of a question to Redis. It does not end with the client: for net/http a client has gone that has closed its
// half of the connection, and it may still read the answer.
func (t *redisTime) ctx() context.Context {
	if t.now == nil {
		t.now = t.brief.context()
	}
	return t.now
}

// over ends the time. A further question begins it again.
func (t *redisTime) over() { t.now = nil }

// limitBody sets until when a body must be there, so that one that no handler reads holds nothing up either.
func limitBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyGrace + timeOf(r.ContentLength)))
}

// readBody reads a body of at most so many bytes. Slow clients are cut.
func readBody(w http.ResponseWriter, r *http.Request, most int) ([]byte, *refusal) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	control := http.NewResponseController(w)
	if r.ContentLength > int64(most) {
		return nil, tooLarge(most)
	}
	began := time.Now()
	body := make([]byte, 0, min(max(r.ContentLength, 511), 64<<10)+1)
	for {
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > most:
			return nil, tooLarge(most)
		case errors.Is(err, io.EOF):
			_ = control.SetReadDeadline(time.Time{}) // else it would end a long poll
			return body, nil
		case err != nil:
			return nil, unreadable(err)
		}
		if len(body) == cap(body) {
			body = slices.Grow(body, cap(body))
		}
		if r.ContentLength < 0 && n > 0 { // its length is not known: it may take as long as what came so far
			_ = control.SetReadDeadline(began.Add(bodyGrace + timeOf(int64(len(body)))))
		}
	}
}

func tooLarge(most int) *refusal {
	return refuse(http.StatusRequestEntityTooLarge, "body-too-large", "body too large", "the body has more than %d bytes; send less, or raise the server's limit", most).with("most", most)
}

func unreadable(err error) *refusal {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return refuse(http.StatusRequestTimeout, "too-slow", "failed to read body", "the body came slower than %d bytes a second; send it in one go", bodyRate)
	}
	return refuse(http.StatusBadRequest, "invalid-parameter", "failed to read body", "the body ended before its declared length, or is not encoded as its headers say").with("parameter", "body")
}

// deliver writes an answer whose headers are set. Its client has five seconds and the time that its bytes have: else a slow client
// that asks for many jobs would be given the same ones again and again. After an error the client has not got it, as far as
// can be known: jobs in it go back.
func deliver(w http.ResponseWriter, status int, body []byte) error {
	stream := w.Header().Get("Content-Type") == "text/event-stream"
	if !stream && status != http.StatusNoContent {
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	if len(body) > 0 {
		if _, err := w.Write(body); err != nil {
			return err
		}
	}
	if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// given returns the token that a request gives; "" is none. Only v1 reads the query.
func (g *guard) given(r *http.Request) string {
	if scheme, rest, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		if token := strings.TrimSpace(rest); token != "" {
			return token
		}
	}
	if token := r.Header.Get("X-Token"); token != "" {
		return token
	}
	if g.settings.NoQueryTokens || strings.HasPrefix(r.URL.Path, "/v2/") {
		return ""
	}
	return r.URL.Query().Get("token")
}

// certified reports whether the client's certificate stands for a namespace.
func (g *guard) certified(r *http.Request, namespace string) bool {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(g.settings.Certificates) == 0 {
		return false
	}
	subject := r.TLS.VerifiedChains[0][0].Subject
	for _, name := range []string{subject.String(), subject.CommonName} {
		if of, ok := g.settings.Certificates[name]; ok {
			return of == namespace
		}
	}
	return false
}

// fromHere reports whether a request names this machine as its host, and comes from no page of another.
func fromHere(r *http.Request) bool {
	if !isHere(r.Host) {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	at, err := url.Parse(origin)
	return err == nil && isHere(at.Host)
}

func isHere(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
