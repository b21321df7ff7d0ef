// Package httpapi serves Resque's queues over HTTP: any language publishes, takes, acknowledges and inspects jobs. Jobs
// that are published here run in Go or Ruby workers too, and jobs of Ruby programs are taken here.
//
//	api, err := httpapi.New(client, httpapi.Settings{})
//	…
//	daemon.AddPart(api.Part()) // or api.Run(ctx)
//	http.Handle("/", api)
//
// There are two versions. Paths below /api/ are lmstfy's: its clients work as they are. Paths below /v2/ have more to offer:
// problem details, leases by name, results, events; GET /openapi.json describes them.
//
// A consumer has a job for its time to run, the TTR. A job that was not acknowledged until then goes back to its queue,
// and in the end, after as many tries as it has, to the failures of its queue. Leases are in Redis, so any server of the same
// Redis serves any request, and a server that dies loses no job.
//
// A job that runs here has the class HTTPJob unless its publisher names another. Body is the parameter with which a Go
// handler takes its body.
package httpapi

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/goworker/goworker"
)

// API is an http.Handler that serves jobs. All methods are safe for concurrent use.
type API struct {
	*guard
	v2      *v2
	handler http.Handler

	started atomic.Bool // requests are served

	mu    sync.Mutex
	state apiState
}

type apiState int

const (
	isNew apiState = iota
	isRunning
	isStopped
)

// New returns an API for the Redis of a client. It serves nothing until it is started, by Run or as a Part.
func New(client *goworker.Client, s Settings) (*API, error) {
	if client == nil {
		return nil, errors.New("httpapi: New needs a Client; make one with goworker.NewClient, or take a Daemon's")
	}
	g, err := newGuard(client, &s)
	if err != nil {
		return nil, err
	}
	a := &API{guard: g}
	a.v2 = newV2(a)
	mux := http.NewServeMux()
	a.v2.routes(mux)
	mux.HandleFunc("/", a.serveV1) // which knows no such call
	a.handler = g.wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.started.Load() {
			turnAway(w, r, newProblem("stopping", "this server has not started; its program is to call Run of the API, or to give its Part to a Daemon"))
			return
		}
		if at := r.URL.EscapedPath(); strings.HasPrefix(at, v1Prefix) || at != cleanPath(at) {
			a.serveV1(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return a, nil
}

// cleanPath returns a path as a ServeMux has it. To the client of another one a ServeMux names the right path, and the
// query with it, which may have a token.
func cleanPath(at string) string {
	clean := path.Clean(at)
	if strings.HasSuffix(at, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// ServeHTTP serves a request of any version. To serve below a path, give http.StripPrefix the API.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Part returns the API as a part of a daemon or of a group of daemons, which starts and stops it. The part that listens
// requires the part httpapi. It stops first: its Stop calls Drain, and then the Shutdown of its http.Server.
func (a *API) Part() goworker.Part {
	return goworker.Part{Name: "httpapi", Start: a.Start, Stop: a.Stop}
}

// Run starts the API, and stops it when the context ends. It returns after the stop.
func (a *API) Run(ctx context.Context) error {
	if err := a.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainMost)
	defer cancel()
	return a.Stop(stop)
}

// Start connects to Redis and returns when requests are served. An API starts once.
func (a *API) Start(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != isNew {
		return errors.New("httpapi: the API was started before; make another one with New")
	}
	if err := a.guard.start(ctx); err != nil {
		return err
	}
	a.state = isRunning
	a.started.Store(true)
	return nil
}

// Drain begins a stop: requests that wait get the answer that there is no job, and no consumer gets one any more, while
// acknowledgements go on. The other calls of a stop are the Shutdown of the http.Server, which waits for requests, and Stop.
func (a *API) Drain() { a.drain() }

// Stop drains the API, and ends its work with Redis. Requests under way may end until the context does. Leases stay in
// Redis, where another server ends them. Without a Start it does nothing.
func (a *API) Stop(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != isRunning {
		return nil
	}
	a.state = isStopped
	a.guard.stop(ctx)
	return nil
}
