package dashboard

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/mask"
	"github.com/goworker/goworker/dashboard/internal/site"
)

// User is who a request comes from, and what that user may see and do.
type User = guard.User

// Role says what a user may do.
type Role = guard.Role

// The roles. Each may do what those before it may.
const (
	Viewer   = guard.Viewer   // looks; arguments are masked
	Operator = guard.Operator // retries, pauses, moves, cancels and takes back
	Admin    = guard.Admin    // removes, edits, adds, and changes limits, schedules and processes
)

// Target is what an action concerns, as User.Can gets it.
type Target = guard.Target

// ArgsLevel says what is shown of the arguments of jobs.
type ArgsLevel = mask.Level

// The levels of Options.Args.
const (
	Mask = mask.Mask // secrets are masked: see docs/dashboard.md. The default
	Hide = mask.Hide // every value is masked
	Show = mask.Show // nothing is masked
)

// Client is what the dashboard needs of a *goworker.Client.
type Client = site.Client

// Fleet is one Resque among several that one dashboard shows.
type Fleet struct {
	Name   string // letters, digits, - and _
	Client Client

	// Control sends commands that need the key of the processes. nil: commands without a key.
	Control *control.Control
}

// Link is a link that stands on the page of a job, for logs and traces elsewhere. In the URL {id}, {class}, {queue},
// {process} and {host} stand for what it is beside; a link whose words the thing does not have is left out. Only http and https
// are allowed.
type Link struct {
	Name string
	URL  string
}

// Page is a tab that the program adds. Its handler runs behind the same checks as the pages of the dashboard, and below the
// Content-Security-Policy of the dashboard: see UserOf.
type Page struct {
	Name    string // in the rail
	Path    string // one word of a path: "orders"
	Handler http.Handler
}

// Options of a dashboard. The zero Options show nobody anything: set User.
type Options struct {
	// User finds the user of a request. An error answers 401. Without it nobody is let in, and the page says how to set it.
	// BasicAuth, HeaderAuth and BearerTokens make such functions. It is called by several goroutines.
	User func(r *http.Request) (User, error)

	// Token lets in who has a token: see NewToken. It is asked before User.
	Token *TokenGate

	// Hosts are the names under which the dashboard is reached. IP addresses, localhost and names below it always are; a
	// request to another name gets 403, since a page of a stranger may have bent its name to this server's address.
	Hosts []string

	// TrustedOrigins are other sites whose pages may make changes here: "https://ops.example.com".
	TrustedOrigins []string

	// ReadOnly takes all actions away.
	ReadOnly bool

	// Args says what is shown of the arguments of jobs, and MaskArgs masks more: the paths of a class's arguments, as
	// {"ChargeCard": {"0.card"}}. MaskFunc is asked of each value that the other rules leave.
	Args     ArgsLevel
	MaskArgs map[string][]string
	MaskFunc func(class string, path []string, value string) bool

	// Environment names what the dashboard is of: "production".
	Environment string

	// Location is the zone of times for readers who have chosen none. nil: that of this machine.
	Location *time.Location

	// Columns are shown beside each job: metadata as "meta.tenant", or a place in the arguments as "arg.0.account".
	Columns []string

	// Fleets are further Resques, which the rail switches between. Handler's client is the first one then, if it is not nil.
	Fleets []Fleet

	// Name is what the fleet of Handler's client is called among several. "": "main".
	Name string

	Links []Link
	Pages []Page

	// Control sends commands to the processes of Handler's client, where these need a key. nil: commands without a key.
	Control *control.Control

	// ScheduleFile is a schedule.yml of resque-scheduler, as JSON or YAML. The page of the schedule says where Redis differs from it.
	ScheduleFile string

	// FailureURL is where failures are kept besides, as Resque::Failure.url says it: the page of a failure links there. "": nowhere.
	FailureURL string

	// Prefix is the path that the dashboard is mounted at, where the handler cannot see it: behind http.StripPrefix of another router than
	// http.ServeMux. "": what the pattern of http.ServeMux says.
	Prefix string

	// Logger gets refusals and faults. nil: slog.Default.
	Logger *slog.Logger
}

// check returns what is wrong with the options.
func (o *Options) check(client Client) error {
	if client == nil && len(o.Fleets) == 0 {
		return errors.New("dashboard: Handler needs a client; make one with goworker.NewClient, or take a daemon's")
	}
	names := make(map[string]bool)
	for _, f := range o.fleets(client) {
		switch {
		case !word(f.Name):
			return fmt.Errorf("dashboard: the fleet %q needs a name of letters, digits, - and _", f.Name)
		case names[f.Name]:
			return fmt.Errorf("dashboard: two fleets are called %q; give each a name of its own", f.Name)
		case f.Client == nil:
			return fmt.Errorf("dashboard: the fleet %q has no client", f.Name)
		}
		names[f.Name] = true
	}
	for _, l := range o.Links {
		if u, err := url.Parse(l.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("dashboard: the link %s leads to %q; it is to begin with http:// or https://", l.Name, l.URL)
		}
	}
	for _, p := range o.Pages {
		if !word(p.Path) || p.Handler == nil || p.Name == "" {
			return fmt.Errorf("dashboard: the page %q needs a name, a handler and a path of letters, digits, - and _", p.Name)
		}
	}
	if o.Prefix != "" && (!strings.HasPrefix(o.Prefix, "/") || strings.HasSuffix(o.Prefix, "/")) {
		return fmt.Errorf("dashboard: the prefix %q is to begin with a slash and to end without one", o.Prefix)
	}
	return nil
}

// fleets are all fleets, that of the client first.
func (o *Options) fleets(client Client) (all []Fleet) {
	if client != nil {
		name := o.Name
		if name == "" {
			name = "main"
		}
		all = append(all, Fleet{Name: name, Client: client, Control: o.Control})
	}
	return append(all, o.Fleets...)
}

func word(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}
