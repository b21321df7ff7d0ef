package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/internal/setting"
)

// defaultDashboard is where a dashboard listens: only this machine reaches it.
const defaultDashboard = "127.0.0.1:9292"

// dashboardFlags are the flags of goworker dashboard.
type dashboardFlags struct {
	listen         string
	hosts, origins []string
	fleets         []string
	role           string
	tokenFile      string
	basicFile      string
	header         string
	proxies        []string
	keyFile        string
	environment    string
	args           string
	columns        []string
	schedule       string
	cert, key      string
	open           bool
}

// dashboard serves the pages of package dashboard.
func (p *program) dashboard() *cobra.Command {
	var f dashboardFlags
	c := one(p.long(&cobra.Command{
		Use: "dashboard", Short: "Show a Resque in the browser, and mend it there", Args: nounArguments,
		Long: "dashboard serves pages of what waits, runs and failed, those of Ruby's workers too. It listens on this machine only, and prints an address with a token that lets its\n" +
			"reader in until the command ends.\n\n" +
			"Another address than this machine's needs one of --token-file, --basic-auth-file and --auth-header. Give the names of the dashboard with --host then.",
		Example: "  goworker dashboard\n" +
			"  goworker dashboard -u redis://cache:6379/0 -n resque:shop --read-only --open\n" +
			"  goworker dashboard --listen :9292 --host ops.example.com --basic-auth-file users --tls-cert cert.pem --tls-key key.pem\n" +
			"  goworker dashboard --listen 10.0.0.7:9292 --host ops.example.com --auth-header X-Forwarded-User --proxy 10.0.0.5 --role operator\n" +
			"  goworker dashboard --fleet eu=redis://eu:6379 --fleet us=redis://us:6379,resque:us\n" +
			"  goworker dashboard passwd ann --role operator >> users",
	}, func(ctx context.Context, o *operator, _ []string) error {
		return o.serveDashboard(ctx, &f)
	}), "name the others with --fleet")
	fl := c.Flags()
	fl.StringVar(&f.listen, "listen", defaultDashboard, "the address to listen on")
	fl.StringSliceVar(&f.hosts, "host", nil, "a name under which browsers reach the dashboard, beside IP addresses and localhost")
	fl.StringSliceVar(&f.origins, "trusted-origin", nil, "another site whose pages may change something here, as https://ops.example.com")
	fl.StringArrayVar(&f.fleets, "fleet", nil, "a further Resque, as name=uri or name=uri,namespace; without --uri only these are shown")
	fl.StringVar(&f.role, "role", "", "what those may do who know the token (default admin), or whom the proxy names (default viewer): viewer, operator or admin")
	fl.StringVar(&f.tokenFile, "token-file", "", "keep the token in this file, which is made if it is missing")
	fl.StringVar(&f.basicFile, "basic-auth-file", "", "ask for a name and a password; goworker dashboard passwd makes the lines of this file")
	fl.StringVar(&f.header, "auth-header", "", "take the user's name from this header, which a proxy sets")
	fl.StringSliceVar(&f.proxies, "proxy", nil, "the address of a proxy that sets --auth-header")
	fl.StringVar(&f.keyFile, "control-key-file", "", "the key that processes have as -control-key-file [GOWORKER_CONTROL_KEY_FILE]")
	fl.StringVar(&f.environment, "environment", "", "what the pages call this Resque, as production (default the name of the context)")
	fl.StringVar(&f.args, "args", "mask", "what is shown of the arguments of jobs: mask hides secrets, hide hides every value, show hides nothing")
	fl.StringSliceVar(&f.columns, "columns", nil, "what stands beside each job: metadata as meta.tenant, or a place in the arguments as arg.0.account")
	fl.StringVar(&f.schedule, "schedule-file", "", "the schedule.yml of resque-scheduler, to compare with Redis")
	fl.StringVar(&f.cert, "tls-cert", "", "serve TLS with this certificate")
	fl.StringVar(&f.key, "tls-key", "", "the key of --tls-cert")
	fl.BoolVar(&f.open, "open", false, "open the dashboard in the browser")
	c.AddCommand(p.passwd())
	return c
}

// serveDashboard serves a dashboard until the context ends.
func (o *operator) serveDashboard(ctx context.Context, f *dashboardFlags) error {
	entry, err := o.entry(f)
	if err != nil {
		return usageError{err}
	}
	certificate, err := certificateOf(f.cert, f.key)
	if err != nil {
		return usageError{err}
	}
	options, err := o.dashboardOptions(f, entry)
	if err != nil {
		return usageError{err}
	}
	fleets, err := o.fleets(f)
	if err != nil {
		return usageError{err}
	}
	options.Fleets = fleets
	var of dashboard.Client
	if o.hasAddress() || len(fleets) == 0 {
		of = o.client()
	}
	pages, err := dashboard.New(of, options)
	if err != nil {
		return usageError{err}
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return exitError{exitFailed, fmt.Errorf("the dashboard cannot listen at %s: %w; choose another address with --listen", f.listen, err)} // its errno is not Redis's
	}
	scheme := "http"
	if certificate != nil {
		scheme = "https"
		l = tls.NewListener(l, certificate)
	}
	addresses := entry.addresses(scheme, l.Addr(), f.hosts)
	o.greetDashboard(f, entry, addresses)
	if f.open {
		remove, err := o.openBrowser(addresses[0])
		if err != nil {
			o.note("the browser does not open: %s", err)
		}
		defer remove()
	}
	return servePages(ctx, l, pages, options.Logger)
}

// entry is who is let in.
type entry struct {
	token string // "": there is none
	kept  bool   // the token stands in a file
	role  dashboard.Role
	users func(r *http.Request) (dashboard.User, error)
}

// entry reads the flags that say who is let in.
func (o *operator) entry(f *dashboardFlags) (*entry, error) {
	modes := 0
	for _, mode := range []string{f.tokenFile, f.basicFile, f.header} {
		if mode != "" {
			modes++
		}
	}
	switch {
	case modes > 1:
		return nil, errors.New("--token-file, --basic-auth-file and --auth-header each say who is let in; give one of them")
	case (f.header == "") != (len(f.proxies) == 0):
		return nil, errors.New("--auth-header and --proxy go together: the header counts only from the addresses of the proxies")
	case f.basicFile != "" && f.role != "":
		return nil, errors.New("the file of --basic-auth-file says each user's role; leave out --role")
	case modes == 0 && !onlyHere(f.listen):
		return nil, fmt.Errorf("%s can be reached from other machines, so say who is let in: give --basic-auth-file, --auth-header with --proxy, or --token-file; else listen on 127.0.0.1", f.listen)
	}
	e := &entry{role: dashboard.Admin}
	if f.header != "" {
		e.role = dashboard.Viewer
	}
	if f.role != "" {
		var err error
		if e.role, err = dashboard.ParseRole(f.role); err != nil {
			return nil, fmt.Errorf("--role: %w", err)
		}
	}
	var err error
	switch {
	case f.basicFile != "":
		e.users, err = dashboard.BasicAuth(f.basicFile)
	case f.header != "":
		e.users, err = dashboard.HeaderAuth(f.header, f.proxies, func(name string) dashboard.User {
			return dashboard.User{Name: name, Role: e.role}
		})
	case f.tokenFile != "":
		e.kept = true
		e.token, err = dashboard.TokenFile(f.tokenFile)
	default:
		e.token = dashboard.NewToken()
	}
	return e, err
}

// onlyHere reports whether only programs of this machine reach an address.
func onlyHere(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return true // the listener says what is wrong
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// addresses are the addresses to open. The cookie of the last one goes to no other server on this machine.
func (e *entry) addresses(scheme string, at net.Addr, hosts []string) (all []string) {
	host, port, _ := net.SplitHostPort(at.String())
	names := []string{host, "goworker.localhost"}
	switch ip := net.ParseIP(host); {
	case len(hosts) > 0 && !ip.IsLoopback():
		names = hosts[:1]
	case ip.IsUnspecified():
		names = []string{"localhost"}
	case !ip.IsLoopback():
		names = names[:1]
	}
	for _, name := range names {
		u := url.URL{Scheme: scheme, Host: net.JoinHostPort(name, port), Path: "/"}
		if e.token != "" {
			u.RawQuery = url.Values{"token": {e.token}}.Encode()
		}
		all = append(all, u.String())
	}
	return all
}

// greetDashboard prints where the dashboard is. A token of a file does not get into a log.
func (o *operator) greetDashboard(f *dashboardFlags, e *entry, addresses []string) {
	fmt.Fprintln(o.out, "The dashboard is at")
	for _, address := range addresses {
		if e.kept && !o.terminal {
			address, _, _ = strings.Cut(address, "?")
		}
		fmt.Fprintln(o.out, "  "+address)
	}
	switch {
	case e.kept && !o.terminal:
		fmt.Fprintf(o.out, "Add ?token= and the token of %s.\n", f.tokenFile)
	case e.token != "":
		fmt.Fprintf(o.out, "Those who know the token get in, as %s. Ctrl-C ends it.\n", e.role)
	}
	if len(addresses) > 1 {
		fmt.Fprintln(o.out, "On a machine that others use, open the second one: its cookie goes to no other server here.")
	}
	if !onlyHere(f.listen) && f.cert == "" {
		o.note("This is not encrypted: passwords, tokens and pages can be read on their way. Give --tls-cert and --tls-key, or let a proxy of this machine speak TLS.")
	}
}

// dashboardOptions are the options that the flags give.
func (o *operator) dashboardOptions(f *dashboardFlags, e *entry) (dashboard.Options, error) {
	options := dashboard.Options{
		User: e.users, Hosts: f.hosts, TrustedOrigins: f.origins, ReadOnly: o.p.changeless(), Columns: f.columns, ScheduleFile: f.schedule,
		Environment: or(f.environment, o.place.Name), Name: "main",
		Logger: slog.New(slog.NewTextHandler(o.errs, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	levels := map[string]dashboard.ArgsLevel{"mask": dashboard.Mask, "hide": dashboard.Hide, "show": dashboard.Show}
	level, ok := levels[f.args]
	if !ok {
		return options, fmt.Errorf("--args %s: want mask, hide or show", f.args)
	}
	options.Args = level
	if e.token != "" {
		var err error
		if options.Token, err = dashboard.NewTokenGate(e.token, dashboard.User{Name: o.p.who(), Role: e.role}); err != nil {
			return options, err
		}
	}
	if f.keyFile == "" {
		f.keyFile, _ = o.p.lookup("GOWORKER_CONTROL_KEY_FILE")
	}
	options.Control = o.controlOf(f, o.client())
	return options, nil
}

// controlOf returns what commands the processes of a Resque; nil: without a key.
func (o *operator) controlOf(f *dashboardFlags, of *goworker.Client) *control.Control {
	if f.keyFile == "" {
		return nil
	}
	return control.New(of, control.Face("dashboard"), control.KeyFile(f.keyFile))
}

// hasAddress reports whether the command line or the environment says which Resque is meant.
func (o *operator) hasAddress() bool {
	from, _ := o.p.lookup("GOWORKER_CONTEXT")
	return o.uri != "" || o.context != "" || from != "" || setting.URI(func(name string) string {
		value, _ := o.p.lookup(name)
		return value
	}) != ""
}

// fleets opens the Resques of --fleet. The operator closes them.
func (o *operator) fleets(f *dashboardFlags) (all []dashboard.Fleet, err error) {
	for _, text := range f.fleets {
		name, rest, found := strings.Cut(text, "=")
		if !found || name == "" || rest == "" {
			return nil, fmt.Errorf("--fleet %s: want name=uri or name=uri,namespace", text)
		}
		uri, namespace := fleetAddress(rest)
		client, err := goworker.NewClient(goworker.WorkerSettings{
			URI: uri, Namespace: or(namespace, o.place.Namespace), LogLevel: "error", Connections: 4, ConnectTimeout: o.timeout,
		}, dialers()...)
		if err != nil {
			return nil, fmt.Errorf("--fleet %s: %w", name, err)
		}
		o.clients = append(o.clients, client)
		all = append(all, dashboard.Fleet{Name: name, Client: client, Control: o.controlOf(f, client)})
	}
	return all, nil
}

// fleetAddress divides what stands behind the name of a fleet. The commas between the servers of a cluster or of sentinels stand
// before the path of the URI.
func fleetAddress(text string) (uri, namespace string) {
	authority := 0
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		authority = len(scheme) + len("://")
		if slash := strings.IndexByte(rest, '/'); slash >= 0 {
			authority += slash
		} else if strings.Contains(scheme, "+") {
			return text, ""
		}
	}
	if comma := strings.LastIndexByte(text[authority:], ','); comma >= 0 {
		return text[:authority+comma], text[authority+comma+1:]
	}
	return text, ""
}
