package httpapi

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// accessLog writes a line for each request: what was asked for and how it ended. No line has a query, a header, a body
// or a token.
type accessLog struct {
	log *slog.Logger
	on  atomic.Bool

	mu   sync.Mutex
	said map[string]time.Time // when a refused token of an address was last logged
}

func newAccessLog(log *slog.Logger, on bool) *accessLog {
	l := &accessLog{log: log, said: make(map[string]time.Time)}
	l.on.Store(on)
	return l
}

// request writes the line of a request.
func (l *accessLog) request(r *http.Request, about *request, a *answer, took time.Duration) {
	if !l.on.Load() {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", methodName(r.Method)), slog.String("route", routeName(r.Pattern)), slog.Int("status", a.code()),
		slog.Float64("ms", float64(took.Microseconds())/1000), slog.Int64("bytes", a.bytes), slog.String("request", about.id),
	}
	for _, more := range []struct{ name, value string }{{"namespace", about.namespace}, {"queue", about.queue}, {"token", about.token}} {
		if more.value != "" {
			attrs = append(attrs, slog.String(more.name, more.value))
		}
	}
	l.log.LogAttrs(r.Context(), slog.LevelInfo, "request", attrs...)
}

// refused logs that a client is not who it has to be, once a second for an address.
func (l *accessLog) refused(r *http.Request, what string) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	now := time.Now()
	l.mu.Lock()
	if now.Sub(l.said[host]) < time.Second {
		l.mu.Unlock()
		return
	}
	if len(l.said) >= mostAddresses {
		for address, at := range l.said {
			if now.Sub(at) >= time.Second {
				delete(l.said, address)
			}
		}
	}
	full := len(l.said) >= mostAddresses
	if !full {
		l.said[host] = now
	}
	l.mu.Unlock()
	if !full {
		l.log.Warn(what, "address", host, "request", requestID(r.Context()))
	}
}

// panicked logs a defect: where it is, and not what the request was.
func (l *accessLog) panicked(r *http.Request, failure any) {
	what := fmt.Sprintf("%T", failure)
	if err, ok := failure.(runtime.Error); ok {
		what = err.Error()
	}
	l.log.Error("a handler of the HTTP API panicked", "panic", what, "route", routeName(r.Pattern), "request", requestID(r.Context()), "stack", string(debug.Stack()))
}

// mostAddresses bounds how many addresses refused tokens are logged for, in a second.
const mostAddresses = 1000

// methodName is a method for logs and metrics: clients may send any text.
func methodName(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// routeName is the pattern of a request, which has no text of the client.
func routeName(pattern string) string {
	if pattern == "" {
		return "none"
	}
	return pattern
}
