package httpapi

import "net/http"

// Wrap returns a handler as the API wraps its own.
func (a *API) Wrap(h http.Handler) http.Handler { return a.wrap(h) }
