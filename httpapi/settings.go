package httpapi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/pattern"
)

// The defaults of Settings.
const (
	DefaultMaxBody    = 1 << 20
	DefaultMaxBatch   = 8 << 20
	DefaultWaiters    = 1000
	DefaultListeners  = 100
	DefaultMaxHeaders = 16 << 10
)

// Settings are those of an API. The zero value of each field is its default.
type Settings struct {
	// Namespaces are those that differ from the default. A token may be of a namespace that is not here.
	Namespaces map[string]Namespace

	// Pools are further Redises, or namespaces of Resque, by the name that their tokens begin with: the token
	// "meipai:01D…" is of the pool meipai. The Client of New is the pool "default".
	Pools map[string]Pool

	// Certificates maps the subject of a client certificate to the namespace that it may use without a token: its common name,
	// or the whole subject as in "CN=shop,O=Acme". TLS must ask for certificates: see Server.ClientCA.
	Certificates map[string]string

	// Open asks for no token. It is for a first try on one's own machine: requests from pages of other hosts, and
	// to another host than this machine, are refused.
	Open bool

	NoQueryTokens bool // refuse ?token=, which proxies log
	PublicSizes   bool // v1 answers sizes of queues without a token, as lmstfy does

	// Defaults are what v1 takes for the parameters that a request leaves out.
	Defaults Defaults

	MaxBody   int // bytes of a job; 0: 1 MiB
	MaxBatch  int // bytes of a request with many jobs; 0: 8 MiB
	Waiters   int // long polls of a token at a time; 0: 1,000
	Listeners int // streams of events of a token at a time; 0: 100

	// Classes are those whose jobs have their names in the history, beside HTTPJob and the Class of each namespace. Jobs of all others
	// count as (unknown) there, because any client may invent classes. There are 250 at most.
	Classes []string

	// Accounts are those of the admin handler: name and password. None: it asks for none.
	Accounts map[string]string

	// AdminCertificates are subjects of client certificates, as in Certificates, that may use the admin handler.
	AdminCertificates []string

	// Pprof serves Go's profiles on the admin handler, to its Accounts.
	Pprof bool

	// QuietAccess writes no line for each request. The admin handler can change that later.
	QuietAccess bool

	// LmstfyMetrics adds the metrics of lmstfy, under their names.
	LmstfyMetrics bool
}

// Namespace is what differs in a namespace from the default.
type Namespace struct {
	// Bare says that its queues are Resque's own, by their names: queue "mail" is resque:queue:mail. One namespace of a
	// pool may be bare. The queues of any other have the namespace and a dot in front.
	Bare bool

	// Queues are those queues of a bare namespace whose names have a dot. Its tokens reach no other such queue, since
	// they are of other namespaces.
	Queues []string

	// Class is the class of jobs that name none; "": HTTPJob.
	Class string

	// MaxLength is how many jobs may be ready in each queue; 0: no limit.
	MaxLength int

	// MaxDelayed is how many jobs may be delayed in the namespace, and MaxDelayedQueue in each queue; 0: no limit.
	MaxDelayed, MaxDelayedQueue int
}

// Pool is another Redis, or another namespace of Resque.
type Pool struct {
	// Client reaches it. It must be given, and stays the program's.
	Client *goworker.Client

	// MigrateTo is the name of the pool that takes its place: jobs are published there, taken first here and then there, and
	// sizes are sums.
	MigrateTo string
}

// mostClasses is how many classes the history names: a row of it names a few more.
const mostClasses = 250

// classes returns the classes that the history names.
func (s *Settings) classes() []string {
	names := append([]string{httpjob.DefaultClass}, s.Classes...)
	for _, n := range s.Namespaces {
		if n.Class != "" {
			names = append(names, n.Class)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var namespaceName = pattern.New(`^[-_A-Za-z0-9]{1,255}$`)

// check returns an error that names what is wrong, and fills in the defaults.
func (s *Settings) check() error {
	for _, d := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"MaxBody", &s.MaxBody, DefaultMaxBody}, {"MaxBatch", &s.MaxBatch, DefaultMaxBatch},
		{"Waiters", &s.Waiters, DefaultWaiters}, {"Listeners", &s.Listeners, DefaultListeners},
	} {
		if *d.value < 0 {
			return fmt.Errorf("the setting %s is %d; it is a number of at least 1, or 0 for %d", d.name, *d.value, d.zero)
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if n := len(s.classes()); n > mostClasses {
		return fmt.Errorf("Settings.Classes and the namespaces name %d classes, and the history has room for %d; name fewer in Classes", n, mostClasses)
	}
	if err := s.Defaults.check(); err != nil {
		return err
	}
	bare := ""
	for _, name := range slices.Sorted(maps.Keys(s.Namespaces)) {
		n := s.Namespaces[name]
		switch {
		case !namespaceName.MatchString(name):
			return fmt.Errorf("the namespace %q: a namespace has letters, digits, - and _, at most 255", name)
		case n.Bare && bare != "":
			return fmt.Errorf("the namespaces %s and %s are both bare; their jobs would be in the same queues, so only one may be", bare, name)
		case n.MaxLength < 0 || n.MaxDelayed < 0 || n.MaxDelayedQueue < 0:
			return fmt.Errorf("the namespace %s: a quota is a number of jobs, or 0 for none", name)
		case !n.Bare && len(n.Queues) > 0:
			return fmt.Errorf("the namespace %s: Queues is for a bare namespace; set Bare, or leave it out", name)
		}
		if n.Bare {
			bare = name
		}
	}
	for name, p := range s.Pools {
		_, there := s.Pools[p.MigrateTo]
		switch {
		case name == "" || strings.ContainsAny(name, ": \x00"):
			return fmt.Errorf("the pool %q: a name of a pool has no colon and no blank", name)
		case p.Client == nil && name != defaultPool:
			return fmt.Errorf("the pool %s has no Client", name)
		case p.MigrateTo == name:
			return fmt.Errorf("the pool %s migrates to itself", name)
		case p.MigrateTo != "" && !there && p.MigrateTo != defaultPool:
			return fmt.Errorf("the pool %s migrates to %s, which is no pool", name, p.MigrateTo)
		case p.MigrateTo != "" && s.Pools[p.MigrateTo].MigrateTo != "":
			return fmt.Errorf("the pool %s migrates to %s, which migrates too; name the last one", name, p.MigrateTo)
		}
	}
	for subject, namespace := range s.Certificates {
		if subject == "" || !namespaceName.MatchString(namespace) {
			return fmt.Errorf("the certificate %q of the namespace %q: both are names", subject, namespace)
		}
	}
	if s.Pprof && len(s.Accounts) == 0 && len(s.AdminCertificates) == 0 {
		return errors.New("Settings.Pprof needs Settings.Accounts or Settings.AdminCertificates, since profiles show what the program holds")
	}
	for name, password := range s.Accounts {
		if name == "" || password == "" {
			return errors.New("an account of the admin handler has a name and a password")
		}
	}
	return nil
}

// drainMost bounds a stop, whatever clients ask for.
const drainMost = 5 * time.Second
