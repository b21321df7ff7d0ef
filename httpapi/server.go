package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/goworker/goworker/internal/prefix"
)

// The defaults of a Server.
const (
	DefaultListen      = "127.0.0.1:7777"
	DefaultAdminListen = "127.0.0.1:7778"
	DefaultConnections = 20000
)

// Server listens for an API: on one address for programs, and on another for its operators. It bounds what a client can
// hold, and stops within five seconds whatever clients have asked for.
type Server struct {
	API *API // must be given. Run starts and stops it

	Listen      string // "": DefaultListen
	AdminListen string // "": there is no such listener. Another address than this machine's own needs Accounts or AdminCertificates

	// Certificate and Key are files in PEM; both listeners speak TLS then. They are read again when they have changed.
	Certificate, Key string

	// ClientCA is the file of the authority of clients' certificates; see Settings.Certificates and AdminCertificates.
	ClientCA string

	H2C            bool          // HTTP/2 without TLS, for a proxy
	MaxConnections int           // 0: DefaultConnections. More wait until one ends
	DrainDelay     time.Duration // how long readyz fails before the listener closes

	// Ready is called once when the server serves, with the addresses it listens on; admin is nil without a listener.
	Ready func(listen, admin net.Addr)
}

// Run serves until the context ends. It returns an error if it could not begin, or if a listener failed. The end is
// graceful: readyz fails for DrainDelay, then no connection is accepted, consumers that wait get the answer that there is no
// job, and requests under way have five seconds.
func (s *Server) Run(ctx context.Context) error { return prefix.Of(s.run(ctx)) }

// Check returns what is wrong with the settings, of which Run would return an error: an admin address that is open to the network, or
// files of certificates that cannot be read.
func (s *Server) Check() error {
	if s.API == nil {
		return errNoAPI
	}
	err := s.checkAdmin()
	if err == nil {
		_, err = s.certificates()
	}
	return prefix.Of(err)
}

var errNoAPI = errors.New("httpapi: a Server needs an API; make one with New")

func (s *Server) certificates() (*certificates, error) {
	c, err := newCertificates(s.Certificate, s.Key, s.ClientCA, true, s.API.log.log)
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	return c, nil
}

func (s *Server) run(ctx context.Context) (err error) {
	if s.API == nil {
		return errNoAPI
	}
	log := s.API.log.log
	if err := s.checkAdmin(); err != nil {
		return err
	}
	certificates, err := s.certificates()
	if err != nil {
		return err
	}
	most := s.MaxConnections
	if most <= 0 {
		most = DefaultConnections
	}
	var servers []*http.Server
	var listeners []net.Listener
	add := func(address string, handler http.Handler, count func(int64)) error {
		l, err := net.Listen("tcp", address)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return fmt.Errorf("httpapi: another program listens at %s; end it, or choose another address", address)
		case err != nil:
			return fmt.Errorf("httpapi: the server cannot listen at %s: %w; choose another address, or end the program that has it", address, err)
		}
		servers = append(servers, s.server(handler, log, count))
		listeners = append(listeners, newLimited(l, most))
		return nil
	}
	defer func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	}()
	connections := &s.API.metrics.connections
	listen := s.Listen
	if listen == "" {
		listen = DefaultListen
	}
	if err := add(listen, s.API, func(n int64) { connections.Add(n) }); err != nil {
		return err
	}
	var admin net.Addr
	if s.AdminListen != "" {
		if err := add(s.AdminListen, s.API.Admin(), func(int64) {}); err != nil {
			return err
		}
		admin = listeners[1].Addr()
	}
	for _, p := range s.API.pools {
		p.gateway.ListensAt(listeners[0].Addr().String())
	}
	if err := s.API.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // it was stopped while it waited for Redis
		}
		return err
	}
	failed := make(chan error, len(servers))
	var wg sync.WaitGroup
	for i, server := range servers {
		wg.Go(func() {
			l := listeners[i]
			if certificates != nil {
				l = tls.NewListener(l, certificates.server())
			}
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("httpapi: serving %s: %w", l.Addr(), err)
			}
		})
	}
	log.Info("the HTTP API serves", "address", listeners[0].Addr().String(), "tls", certificates != nil)
	if s.Ready != nil {
		s.Ready(listeners[0].Addr(), admin)
	}
	select {
	case <-ctx.Done():
		s.API.leave()
		if s.DrainDelay > 0 {
			delay := time.NewTimer(s.DrainDelay)
			defer delay.Stop()
			select {
			case <-delay.C:
			case err = <-failed:
			}
		}
	case err = <-failed:
	}
	s.stop(context.WithoutCancel(ctx), servers)
	wg.Wait()
	log.Info("the HTTP API has stopped")
	return err
}

// stop ends all servers, and what is not ready after five seconds.
func (s *Server) stop(ctx context.Context, servers []*http.Server) {
	ctx, cancel := context.WithTimeout(ctx, drainMost)
	defer cancel()
	s.API.drain()
	var wg sync.WaitGroup
	for _, server := range servers {
		wg.Go(func() {
			requests, cancel := context.WithTimeout(ctx, drainMost*4/5)
			defer cancel()
			if server.Shutdown(requests) != nil {
				_ = server.Close()
			}
		})
	}
	wg.Wait()
	_ = s.API.Stop(ctx)
}

// server returns a server that cuts slow clients.
func (s *Server) server(h http.Handler, log *slog.Logger, count func(int64)) *http.Server {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headerWithin, IdleTimeout: idleAfter, MaxHeaderBytes: DefaultMaxHeaders,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				count(1)
			case http.StateClosed, http.StateHijacked:
				count(-1)
			}
		},
		Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(s.H2C)
	return server
}

// checkAdmin refuses to open the admin handler to a network without a way to tell who asks.
func (s *Server) checkAdmin() error {
	settings := &s.API.settings
	if s.AdminListen == "" || isHere(s.AdminListen) || len(settings.Accounts) > 0 || s.ClientCA != "" && len(settings.AdminCertificates) > 0 {
		return nil
	}
	return fmt.Errorf("httpapi: the admin address %s is open to the network, and every program that reaches it can make tokens; set accounts, or admin certificates with a client CA, or listen on %s",
		s.AdminListen, DefaultAdminListen)
}

// limited is a listener that has at most so many connections open.
type limited struct {
	net.Listener
	places chan struct{}
	closed chan struct{} // Close was called
	once   sync.Once
}

func newLimited(l net.Listener, most int) *limited {
	return &limited{Listener: l, places: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept waits for a place, and then for a connection.
func (b *limited) Accept() (net.Conn, error) {
	select {
	case b.places <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.places
		return nil, err
	}
	return &limitedConn{Conn: c, free: func() { <-b.places }}, nil
}

// Close ends an Accept that waits.
func (b *limited) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

type limitedConn struct {
	net.Conn
	once sync.Once
	free func()
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.free)
	return err
}
