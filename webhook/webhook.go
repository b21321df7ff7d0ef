// Package webhook sends failures of jobs, and findings of the checks, to an HTTP server or a program.
//
//	w, err := webhook.New(client, webhook.Settings{Name: "ops", URL: "https://ops.example.com/hook", Key: key})
//	…
//	goworker.AddPart(goworker.Part{Name: "webhook", Run: w.Run, Info: w.Info})
//
// Processes write their failures into a stream while a Deliverer runs, and for 24 hours after the last one has ended. Each failure is
// delivered at least once: see docs/webhook.md.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker/events"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque/webhook"
)

// Inspects is a *goworker.Client, a *goworker.Daemon or *goworker.Shards.
type Inspects interface{ Inspect() *inspect.Inspector }

// KeyVariable is the environment variable with the key, which the command goworker webhook run reads. A program of exec: does not get it.
const KeyVariable = "GOWORKER_WEBHOOK_KEY"

// LeastKey is how many bytes a key has at least.
const LeastKey = 16

// Settings say what a Deliverer delivers, and where to.
type Settings struct {
	// Name is the name of the webhook: at most 32 letters, digits, _ and -. Deliverers with the same name share the deliveries, so they
	// need the same settings. A Redis has at most 8 webhooks.
	Name string

	// URL is the receiver: http or https, or exec: and the path of a program, with its arguments behind blanks. Redis does not get it.
	URL string

	// Key signs the deliveries over HTTP: LeastKey bytes or more. Without one they have no signature.
	Key []byte `config:"-"`

	// KeyFile is a file with the key, in place of Key.
	KeyFile string

	// Kinds are the bad ends of jobs to deliver, from Kinds(); none: events.Failed and events.Poison.
	Kinds []string

	// Arguments adds the arguments of jobs to deliveries, unless they have more than 4 KiB. They may be secret.
	Arguments bool

	// NoNotices leaves out the findings of the checks.
	NoNotices bool

	// Transport carries the requests, for example with a certificate of your own; nil: http.DefaultTransport.
	Transport http.RoundTripper `config:"-"`

	// Logger logs what fails; nil: slog.Default().
	Logger *slog.Logger `config:"-"`
}

// Kinds are the kinds of events that a webhook can deliver: the bad ends of jobs.
func Kinds() []string {
	return []string{events.Failed, events.Retried, events.Expired, events.Discarded, events.Cancelled, events.Recovered, events.Poison}
}

// Deliverer delivers to one receiver. Any number of Deliverers of a webhook may run at the same time. It is safe for concurrent use.
type Deliverer struct {
	settings Settings
	of       Inspects
	target   target
	pace     pace
	clock    clock.Clock

	mu    sync.Mutex
	stats Stats
}

// Stats are what a Deliverer has done since it was made.
type Stats struct {
	Delivered int64  `json:"delivered"`       // deliveries that were accepted
	Failed    int64  `json:"failed"`          // tries that failed
	Dead      int64  `json:"dead"`            // deliveries that were given up
	Events    int64  `json:"events"`          // in accepted deliveries
	Cut       int64  `json:"cut"`             // events that were lost before they were delivered, as far as that was reported
	Foreign   int64  `json:"foreign"`         // entries that were passed over, because no process of goworker wrote them
	Held      int    `json:"held"`            // deliveries that are tried again
	Waiting   int64  `json:"waiting"`         // events in Redis
	Error     string `json:"error,omitempty"` // why the last try failed; "": it did not
}

// New returns a Deliverer that does not run yet, or an error if the settings have a mistake.
func New(of Inspects, s Settings) (*Deliverer, error) {
	if len(s.Kinds) == 0 {
		s.Kinds = []string{events.Failed, events.Poison}
	}
	s.Kinds, s.Key = slices.Clone(s.Kinds), bytes.Clone(s.Key)
	if s.KeyFile != "" {
		key, err := conn.ReadSecret("key of webhook "+s.Name, s.KeyFile)
		if err != nil {
			return nil, prefix.Of(err)
		}
		s.Key = []byte(key)
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	if !webhook.IsName(s.Name) {
		return nil, prefix.Errorf("the name of a webhook has 1 to 32 letters, digits, _ and -, and %q is none", s.Name)
	}
	if len(s.Key) > 0 && len(s.Key) < LeastKey {
		return nil, prefix.Errorf("the key of webhook %s has %d bytes; give it %d or more, as from openssl rand -hex 32", s.Name, len(s.Key), LeastKey)
	}
	for _, kind := range s.Kinds {
		if !slices.Contains(Kinds(), kind) {
			return nil, prefix.Errorf("webhook %s cannot deliver %q; it can deliver %s", s.Name, kind, strings.Join(Kinds(), ", "))
		}
	}
	d := &Deliverer{settings: s, of: of, pace: usualPace, clock: clock.System}
	d.pace.Receiver = receiver(s)
	var err error
	if d.target, err = newTarget(s); err != nil {
		return nil, err
	}
	return d, nil
}

// receiver names a receiver to the other deliverers of the webhook, so that with another URL nothing waits for what this one has asked
// for. Redis does not learn the URL: the few bits fit too many.
func receiver(s Settings) string {
	digest := hmac.New(sha256.New, s.Key)
	digest.Write([]byte(s.URL))
	return hex.EncodeToString(digest.Sum(nil)[:4])
}

// newTarget returns the target of the URL. Its errors do not show the URL, which may hold a secret.
func newTarget(s Settings) (target, error) {
	if line, ok := strings.CutPrefix(s.URL, "exec:"); ok {
		argv := strings.Fields(line)
		if len(argv) == 0 {
			return nil, prefix.Errorf("webhook %s names no program behind exec:", s.Name)
		}
		return &execTarget{argv: argv, within: tryWithin}, nil
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, prefix.Errorf("webhook %s needs a URL that begins with http://, https:// or exec:", s.Name)
	}
	return newHTTPTarget(s, u), nil
}

// Run delivers until its context ends, and then returns nil. It borrows a connection of the client for some milliseconds at a time. If
// Redis refuses something, Run logs that and tries again.
func (d *Deliverer) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	doors := d.of.Inspect().Doors()
	for _, door := range doors {
		c := newCourier(d, door, len(doors) > 1)
		wg.Go(func() { c.run(ctx) })
		if !d.settings.NoNotices {
			l := newLooker(d, door, c.say)
			wg.Go(func() { l.run(ctx) })
		}
	}
	wg.Wait()
	return nil
}

// Stats returns what the Deliverer has done.
func (d *Deliverer) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Info is Stats, for the field Info of a Part.
func (d *Deliverer) Info() any { return d.Stats() }

func (d *Deliverer) count(change func(*Stats)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.stats)
}

// log returns the logger for one Redis.
func (d *Deliverer) log(shard string) *slog.Logger {
	log := d.settings.Logger.With("webhook", d.settings.Name)
	if shard != "" {
		log = log.With("shard", shard)
	}
	return log
}

// pace is the intervals of deliveries. Tests have shorter ones.
type pace struct {
	webhook.Pace
	tick   time.Duration   // how often a deliverer looks whether there is something to deliver
	attend time.Duration   // how often it looks after the announcement and the keys
	orphan time.Duration   // after which what a deliverer has is claimed
	waits  []time.Duration // after the first failed try, the second and so on
	gone   time.Duration   // until the next try where the receiver answers 410
	look   time.Duration   // how often the checks are run
	groups time.Duration   // how often the failures are read for that, at most
	over   time.Duration   // for how long a finding is not seen until it is over
}

// usualPace has eight attempts in about an hour.
var usualPace = pace{
	Pace: webhook.Pace{Every: time.Second, Burst: 10, MostRest: mostRest}, tick: time.Second, attend: 10 * time.Second, orphan: 2 * time.Minute,
	waits: []time.Duration{5 * time.Second, 20 * time.Second, time.Minute, 4 * time.Minute, 10 * time.Minute, 20 * time.Minute, 25 * time.Minute},
	gone:  time.Hour, look: 30 * time.Second, groups: time.Minute, over: 90 * time.Second,
}

// tries is how many attempts a delivery has.
func (p pace) tries() int { return len(p.waits) + 1 }

// Forget ends a webhook: it removes the events in Redis, and processes write none until a Deliverer of this name runs again. It reports
// whether the webhook existed. Stop its Deliverers before.
func Forget(ctx context.Context, of Inspects, name string) (was bool, err error) {
	if !webhook.IsName(name) {
		return false, prefix.Errorf("%q is no name of a webhook", name)
	}
	for _, door := range of.Inspect().Doors() {
		one, bad := forget(ctx, door, name)
		was, err = was || one, cmp.Or(err, bad)
	}
	return was, prefix.Of(err)
}

func (s Settings) String() string { return fmt.Sprintf("webhook %s", s.Name) } // without its secrets
