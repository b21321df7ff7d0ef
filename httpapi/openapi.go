package httpapi

import (
	_ "embed"
	"net/http"
)

// The description of v2. A test compares its calls with those that are served, and another one checks every answer of the
// server against it.
//
//go:embed openapi.json
var openAPIText []byte

// openAPI answers the description of v2.
func (c *v2Call) openAPI() (response, error) {
	return response{status: http.StatusOK, body: openAPIText, header: http.Header{
		"Content-Type": {"application/json"}, "Cache-Control": {"max-age=3600"},
	}}, nil
}

// health is the answer about the server itself.
type health struct {
	Status string `json:"status"`
}

// healthz answers whether the server serves: its turns are answered.
func (c *v2Call) healthz() (response, error) {
	for _, p := range c.api.pools {
		if p.gateway.Healthy() != nil {
			return response{}, newProblem("redis-away", "Redis has not answered this server for ten seconds; look at Redis, and at the server's log")
		}
	}
	return response{status: http.StatusOK, body: health{"ok"}}, nil
}

// readyz answers whether requests should be sent here.
func (c *v2Call) readyz() (response, error) {
	if c.api.stopping() {
		return response{}, newProblem("stopping", "this server stops; send requests to another one")
	}
	if c.api.ready(c.r.Context()) != nil {
		return response{}, newProblem("redis-away", "Redis has not answered within two seconds; send requests to another server, or try again")
	}
	return response{status: http.StatusOK, body: health{"ready"}}, nil
}
