package command

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

// addresses is the flag --uri: given several times, or with blanks between, it names several Redises. No URI has a blank.
type addresses struct{ to *string }

func (a addresses) String() string { return "" }
func (a addresses) Type() string   { return "string" }
func (a addresses) Set(uri string) error {
	*a.to = strings.TrimSpace(*a.to + " " + uri)
	return nil
}

// needsOne is the annotation of a command that works with one Redis.
const needsOne = "one Redis"

// one makes a command refuse several Redises. why says what it would not know.
func one(c *cobra.Command, why string) *cobra.Command {
	c.Annotations = map[string]string{needsOne: why}
	return c
}

// reach makes the clients of the Redises that a command line names, and the Inspector of all of them.
func (o *operator) reach(c *cobra.Command) error {
	uris := distinct(strings.Fields(o.place.URI))
	if why := c.Annotations[needsOne]; why != "" && len(uris) > 1 {
		return usagef("%s takes one Redis, and %d are given: %s", c.CommandPath(), len(uris), why)
	}
	settings := goworker.WorkerSettings{
		Namespace: o.place.Namespace, LogLevel: "error", Connections: 4, ConnectTimeout: o.timeout,
		TLSCertPath: o.place.CA, TLSClientCertPath: o.place.Cert, TLSClientKeyPath: o.place.Key,
	}
	if len(uris) > 1 { // one that hangs leaves time for the others
		settings.ConnectTimeout = max(min(o.timeout, o.budget)/time.Duration(len(uris)), time.Millisecond)
		settings.ReadTimeout = min(settings.ConnectTimeout, goworker.DefaultReadTimeout)
	}
	var all []*inspect.Inspector
	for _, settings.URI = range uris {
		client, err := goworker.NewClient(settings, dialers()...)
		if err != nil {
			o.close()
			return usageError{err}
		}
		o.clients = append(o.clients, client)
		all = append(all, client.Inspect())
	}
	o.in = inspect.Over(all...)
	if o.several() {
		o.places = shortPlaces(o.in.Doors())
	}
	return nil
}

// distinct are words of a command line without those that were given before: a Redis or a job that is named twice counts once.
func distinct(words []string) (once []string) {
	for _, word := range words {
		if !slices.Contains(once, word) {
			once = append(once, word)
		}
	}
	return once
}

// several reports whether the command line names several Redises.
func (o *operator) several() bool { return len(o.clients) > 1 }

// client is that of a command which takes one Redis.
func (o *operator) client() *goworker.Client { return o.clients[0] }

func (o *operator) close() {
	for _, c := range o.clients {
		c.Close()
	}
	o.clients = nil
}

// shortPlaces are the names of Redises in tables: what tells each from the others. Those of redis-a:6379 and redis-b:6379 are a and b.
func shortPlaces(doors []inspect.Door) map[string]string {
	const ends = ".:/-@"
	names := make([]string, len(doors))
	for n, d := range doors {
		names[n] = view.Place(d.Name())
	}
	first, last := names[0], names[0]
	for _, name := range names {
		for !strings.HasPrefix(name, first) {
			first = first[:len(first)-1]
		}
		for !strings.HasSuffix(name, last) {
			last = last[1:]
		}
	}
	before := strings.LastIndexAny(first, ends) + 1
	after := 0
	if at := strings.IndexAny(last, ends); at >= 0 {
		after = len(last) - at
	}
	short, taken := make(map[string]string), make(map[string]bool)
	for n, d := range doors {
		text := names[n]
		if before+after < len(text) {
			text = text[before : len(text)-after]
		}
		if taken[text] || text == "" {
			text = fmt.Sprint(n + 1)
		}
		short[d.Name()], taken[text] = text, true
	}
	return short
}
