package httpapi

import "net/http"

// logFailure writes why a request could not be served. It names neither the path nor the query, which may have a token.
func (g *guard) logFailure(r *http.Request, what string, err error) {
	g.pools[defaultPool].neighbor.Log.Warn(what, "call", r.Pattern, "request", requestID(r.Context()), "error", err)
}
