package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cmd/goworker/internal/config"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/resque"
)

// DevNamespace is the namespace that the first lines of --dev show. It asks for no token.
const DevNamespace = "dev"

func (p *program) serve() *cobra.Command {
	var dev, show bool
	c := &cobra.Command{
		Use: "serve", Short: "Serve queues over HTTP", Args: noArguments,
		Long: "serve publishes and hands out jobs over HTTP. It keeps nothing itself: any number of servers may serve one Redis, beside workers.\n" +
			"A flag wins over its variable, that over the file, and that over the default.",
		Example: "  goworker serve --dev\n  goworker serve -c /etc/goworker.yaml\n  goworker serve -c lmstfy.toml --redis redis://ours:6379/0",
		RunE: func(c *cobra.Command, _ []string) error {
			s, notes, err := p.settings(c, dev)
			if err != nil {
				return err
			}
			if show {
				fmt.Fprint(c.OutOrStdout(), s.Render(true))
				return nil
			}
			return serve(c, s, notes)
		},
	}
	flags(c, nil)
	c.Flags().BoolVar(&dev, "dev", false, "for a first try: an embedded Redis that keeps nothing, this machine only, no token")
	c.Flags().BoolVar(&show, "print-config", false, "print the settings as a YAML file, passwords too, and end")
	return c
}

// serve runs a server until the context ends.
func serve(c *cobra.Command, s *config.Config, notes []string) error {
	if s.Dev {
		s.Redis = "embedded:"
	}
	home, err := client(s, s.Redis, s.ResqueNamespace)
	if err != nil {
		return err
	}
	defer home.Close()
	all, pools := map[string]*goworker.Client{"": home}, make(map[string]httpapi.Pool)
	for name, pool := range s.Pools {
		of, err := client(s, or(pool.Redis, s.Redis), or(pool.ResqueNamespace, s.ResqueNamespace))
		if err != nil {
			return fmt.Errorf("the pool %s: %w", name, err)
		}
		defer of.Close()
		all[name], pools[name] = of, httpapi.Pool{Client: of, MigrateTo: pool.MigrateTo}
	}
	api, err := httpapi.New(home, settingsOf(s, pools))
	if err != nil {
		return usageError{err}
	}
	server := httpapi.Server{
		API: api, Listen: s.Listen, AdminListen: s.AdminListen, Certificate: s.TLSCert, Key: s.TLSKey, ClientCA: s.TLSClientCA,
		H2C: s.H2C, MaxConnections: s.MaxConnections, DrainDelay: s.DrainDelay,
		Ready: func(listen, admin net.Addr) { greet(c.OutOrStdout(), s, notes, listen, admin) },
	}
	if err := server.Check(); err != nil {
		return usageError{err}
	}
	for name, of := range all {
		if s.Dev {
			break
		}
		warnings, err := fit(c.Context(), of, s.RequireAOF)
		if err != nil && name != "" {
			err = fmt.Errorf("the pool %s: %w", name, err)
		}
		if err != nil {
			return err
		}
		notes = append(notes, warnings...)
	}
	return server.Run(c.Context())
}

// settingsOf returns the settings of the API.
func settingsOf(s *config.Config, pools map[string]httpapi.Pool) httpapi.Settings {
	h := httpapi.Settings{
		Namespaces: make(map[string]httpapi.Namespace), Pools: pools, Certificates: s.Certificates, AdminCertificates: s.AdminCertificates, Open: s.Dev,
		NoQueryTokens: !s.QueryTokens, PublicSizes: s.PublicSizes, MaxBody: s.MaxBody, MaxBatch: s.MaxBatch,
		Classes: classesOf(s), Waiters: s.Waiters, Listeners: s.Listeners, Accounts: s.Accounts, Pprof: s.Pprof, QuietAccess: !s.AccessLog, LmstfyMetrics: s.LmstfyMetrics,
		Defaults: httpapi.Defaults{Delay: s.Delay, TTL: s.TTL, TTR: s.TTR, Timeout: s.Timeout, Tries: s.Tries},
	}
	if s.TTL == 0 {
		h.Defaults.TTL = goworker.NoTimeout
	}
	for name, n := range s.Namespaces {
		h.Namespaces[name] = httpapi.Namespace{
			Bare: n.Bare(), Queues: n.Queues, Class: n.Class,
			MaxLength: n.MaxLength, MaxDelayed: n.MaxDelayed, MaxDelayedQueue: n.MaxDelayedQueue,
		}
	}
	return h
}

// classesOf returns the classes that a setting lists.
func classesOf(s *config.Config) (names []string) {
	for name := range strings.SplitSeq(s.Classes, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// reach is how long the first look at a Redis may take.
const reach = 10 * time.Second

// fit returns an error if a Redis is too old, lacks a permission, or may lose jobs by its settings, and warnings where it might
// lose some after a crash.
func fit(ctx context.Context, c *goworker.Client, requireAOF bool) (warnings []string, err error) {
	var n neighbor.Neighbor
	if err := goworker.Beside(&n, c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	err = n.Do(ctx, func(store resque.Store, conn redis.Conn) error {
		if policy := store.Evicts(conn); policy != "" {
			return fmt.Errorf("this Redis deletes keys when its memory is full (%s), and with them jobs: set its maxmemory-policy to noeviction", policy)
		}
		if err := store.Check(conn, "http:"+rand.Text()); err != nil {
			return err
		}
		on, known := store.AppendOnly(conn)
		switch {
		case known && !on && requireAOF:
			return errors.New("this Redis keeps no append-only file, so a restart may lose jobs, and require_aof is set: set appendonly to yes in Redis")
		case known && !on:
			warnings = append(warnings, "This Redis keeps no append-only file: a restart may lose jobs. Set appendonly to yes in it.")
		case !known && requireAOF:
			return errors.New("this Redis does not say whether it keeps an append-only file, and require_aof is set: permit INFO to its user, or leave require_aof out")
		}
		return nil
	})
	return warnings, err
}

// greet prints the first lines: where the server is, and what to try.
func greet(w io.Writer, s *config.Config, notes []string, listen, admin net.Addr) {
	scheme := "http"
	if s.TLSCert != "" {
		scheme = "https"
	}
	base := scheme + "://" + reachable(listen)
	fmt.Fprintf(w, "goworker serves jobs at %s", base)
	if admin != nil {
		fmt.Fprintf(w, ", and its admin pages at %s://%s", scheme, reachable(admin))
	}
	fmt.Fprintln(w, ".")
	if s.From != "" {
		fmt.Fprintf(w, "The settings are those of %s.", s.From)
		if text := s.Render(false); text != "" && len(notes) > 0 {
			fmt.Fprintf(w, " In ours, passwords aside:\n\n%s\n", text)
		} else {
			fmt.Fprintln(w)
		}
	}
	for _, n := range notes {
		fmt.Fprintln(w, n)
	}
	if s.Dev {
		fmt.Fprintf(w, "The Redis is embedded and keeps nothing. No token is needed. Publish a job, and take it:\n\n"+
			"  curl %[1]s/v2/%[2]s/queues/mail/jobs -d hello\n"+
			"  curl %[1]s/v2/%[2]s/reservations -d '{\"queues\":[\"mail\"]}'\n\n", base, DevNamespace)
		return
	}
	fmt.Fprintf(w, "A client needs a token: goworker token create <namespace> makes one. Publish a job, and take it:\n\n"+
		"  curl -H \"X-Token: $TOKEN\" %[1]s/v2/<namespace>/queues/mail/jobs -d hello\n"+
		"  curl -H \"X-Token: $TOKEN\" %[1]s/v2/<namespace>/reservations -d '{\"queues\":[\"mail\"]}'\n\n", base)
}

// reachable is an address that a reader can type: one of all interfaces is this machine's.
func reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && (ip.IsUnspecified() || ip.Equal(net.IPv4(127, 0, 0, 1))) {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
