// Package dashboard shows an operator how a Resque is, what is wrong with it and why, and mends it: the fleet's queues, jobs,
// failures, schedules and processes, those of Ruby, PHP and Node included. It is an http.Handler:
//
//	http.Handle("/jobs/", dashboard.Handler(client, dashboard.Options{User: login}))
//
// Without Options.User it shows nobody anything, on no address. goworker dashboard is the same as a program of its own.
//
// The dashboard only renders. What it reads and changes are the calls of package inspect, what it says to processes those of
// package control. It asks Redis nothing while nobody looks, and the same for any number of readers of a page.
package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/live"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/mask"
	"github.com/goworker/goworker/dashboard/internal/site"
)

// Server is a dashboard. It is an http.Handler, and safe for concurrent use.
type Server struct {
	fault   error // of the options
	prefix  string
	handler http.Handler
	fleets  []*served
	assets  *look.Assets
	closed  atomic.Bool
}

// served is a fleet with its pages.
type served struct {
	name  string
	fleet *site.Fleet
	site  *site.Site
}

// Handler returns a dashboard of the client's Resque. It has four connections of its own to each Redis, dials at the first request,
// and closes them half a minute after the last one. An Options with a mistake shows as the page of every request; New returns it.
func Handler(client Client, options Options) *Server {
	s, err := New(client, options)
	if err != nil {
		return &Server{fault: err}
	}
	return s
}

// New is Handler for programs that look at the error of the options.
func New(client Client, options Options) (*Server, error) {
	if err := options.check(client); err != nil {
		return nil, err
	}
	log := options.Logger
	if log == nil {
		log = slog.Default()
	}
	assets, err := look.NewAssets()
	if err != nil {
		return nil, err
	}
	s := &Server{prefix: options.Prefix, assets: assets}
	config := &site.Config{
		Name: options.Environment, ReadOnly: options.ReadOnly, Location: options.Location, Columns: options.Columns,
		Masks:      mask.New(mask.Rules{Level: options.Args, Args: options.MaskArgs, Func: options.MaskFunc}),
		FailureURL: options.FailureURL, Schedule: options.ScheduleFile, Palette: palette, Log: log,
	}
	for _, l := range options.Links {
		config.Links = append(config.Links, site.Link(l))
	}
	for _, p := range options.Pages {
		config.Extra = append(config.Extra, site.Extra{Name: p.Name, Path: p.Path})
	}
	for _, f := range options.fleets(client) {
		config.Fleets = append(config.Fleets, f.Name)
	}
	for _, f := range options.fleets(client) {
		fleet := site.NewFleet(f.Name, f.Client, f.Control, config.Masks, live.Settings{Log: log})
		one, err := site.New(config, fleet, s.assets, log, pages(), actions())
		if err != nil {
			return nil, err
		}
		s.fleets = append(s.fleets, &served{f.Name, fleet, one})
	}
	g, err := guard.New(guard.Settings{
		Identify: options.User, Token: options.Token, Hosts: options.Hosts, TrustedOrigins: options.TrustedOrigins, Log: log, Prefix: rootOf,
	})
	if err != nil {
		return nil, err
	}
	config.Limits = g
	extra := make(map[string]http.Handler)
	for _, p := range options.Pages {
		extra[p.Path] = p.Handler
	}
	s.handler = g.Wrap(s.routes(extra))
	return s, nil
}

// UserOf returns the user of a request, for the handlers of Options.Pages.
func UserOf(ctx context.Context) (User, bool) { return guard.UserOf(ctx) }

// ServeHTTP serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.fault != nil:
		http.Error(w, s.fault.Error(), http.StatusInternalServerError)
		return
	case s.closed.Load():
		w.Header().Set("Retry-After", "5")
		http.Error(w, "the dashboard stops", http.StatusServiceUnavailable)
		return
	}
	root, below := s.mounted(r)
	r2 := r.Clone(context.WithValue(r.Context(), rootKey{}, root))
	r2.URL = below
	s.handler.ServeHTTP(w, r2)
}

// Shutdown ends the live streams, so that an http.Server can stop, and closes the connections. Further requests are answered 503.
// Register it with the server's RegisterOnShutdown, or call it before the server's own Shutdown.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closed.Store(true)
	var all []error
	for _, f := range s.fleets {
		all = append(all, f.fleet.Close(ctx))
	}
	return errors.Join(all...)
}

type rootKey struct{}

// rootOf is the path that the dashboard is mounted at, without a slash at its end.
func rootOf(r *http.Request) string {
	root, _ := r.Context().Value(rootKey{}).(string)
	return root
}

// routes serves paths below the root.
func (s *Server) routes(extra map[string]http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		root := rootOf(r)
		first, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case first == "assets":
			s.assets.ServeHTTP(w, r)
			return
		case r.URL.Path == "/healthz":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("ok\n"))
			return
		case r.URL.Path == "/readyz":
			s.ready(w)
			return
		}
		if h := extra[first]; h != nil {
			http.StripPrefix("/"+first, h).ServeHTTP(w, r)
			return
		}
		if to := oldAddress(r); to != "" && r.Method == http.MethodGet {
			http.Redirect(w, r, root+s.home()+to, http.StatusMovedPermanently)
			return
		}
		if len(s.fleets) == 1 {
			s.fleets[0].site.Serve(w, r, root, root)
			return
		}
		if first == "fleets" {
			name, _, _ := strings.Cut(rest, "/")
			for _, f := range s.fleets {
				if f.name == name {
					prefix := "/fleets/" + name
					if below := stripped(r.URL, prefix); below != nil {
						r2 := *r
						r2.URL = below
						f.site.Serve(w, &r2, root, root+prefix)
						return
					}
				}
			}
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, root+"/fleets/"+s.fleets[0].name+"/", http.StatusSeeOther)
	})
}

// home is what comes before a page's path: "" where there is one fleet.
func (s *Server) home() string {
	if len(s.fleets) == 1 {
		return ""
	}
	return "/fleets/" + s.fleets[0].name
}

// ready answers whether the dashboard's last look at Redis succeeded, or nobody looks.
func (s *Server) ready(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, f := range s.fleets {
		if _, err := f.fleet.Last(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(f.name + ": " + err.Error() + "\n"))
			return
		}
	}
	_, _ = w.Write([]byte("ok\n"))
}
