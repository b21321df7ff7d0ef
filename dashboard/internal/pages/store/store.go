// Package store is the pages of Redis: how it is, what takes its memory, what is wrong with it, its keys and its slow commands.
package store

import (
	"context"
	"embed"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

//go:embed *.html
var files embed.FS

const (
	// often is how old what Redis says of itself may be on the page, seldom what is measured, and examined what the checks found.
	often    = 2 * time.Second
	seldom   = time.Minute
	examined = 15 * time.Minute
	// slowest is how many commands of the slow log are read of each Redis.
	slowest = 50
)

// Pages are the pages of Redis.
func Pages() []*site.Page {
	return []*site.Page{
		{Path: "/redis", Tab: "redis", Title: "Redis", Whole: true, Load: load, Data: (*Redis)(nil), Params: []string{"fresh"}, Template: "redis.html parts.html", Files: files},
		{Path: "/redis/keys", Tab: "redis", Title: "Keys", Whole: true, Load: loadKeys, Data: (*Keys)(nil), Params: []string{"match", "after"}, Still: true, Template: "keys.html parts.html", Files: files},
		{Path: "/redis/keys/{key}", Tab: "redis", Whole: true, Load: loadKey, Data: (*Key)(nil), Still: true, Template: "key.html parts.html", Files: files},
		{Path: "/redis/slow", Tab: "redis", Title: "Slow commands", Whole: true, Load: loadSlow, Data: (*Slow)(nil), Template: "slow.html parts.html", Files: files},
		{Path: "/stats.txt", Tab: "redis", Title: "Totals, as resque-web serves them", Whole: true, Write: stats},
	}
}

// Actions are what is mended in Redis.
func Actions() []*site.Action {
	return []*site.Action{{Name: "redis.fix", Path: "/redis/checks/{id}/fix", Role: guard.Admin, Whole: true, Do: fix}}
}

// Redis is the page /redis.
type Redis struct {
	Servers  []Server  `json:"servers"`
	Missing  string    `json:"missing,omitempty"` // of several Redises, those that do not answer
	Families *Families `json:"families"`
	Checks   *Checks   `json:"checks"`            // null: they have not looked yet
	Checking bool      `json:"checking"`          // they look now
	Refused  []string  `json:"refused,omitempty"` // what Redis does not permit, and the rules to add
}

// Server is what one Redis says of itself. A number that it does not say is -1.
type Server struct {
	Name        string      `json:"name"`
	Shard       string      `json:"shard,omitempty"`
	Product     string      `json:"product"`
	Version     string      `json:"version"`
	Role        string      `json:"role"`
	Cluster     bool        `json:"cluster"`
	Up          site.Span   `json:"uptime_ms"`
	Latency     float64     `json:"latency_us"` // of one round trip from the dashboard
	Used        int64       `json:"memory_bytes"`
	Peak        int64       `json:"memory_peak_bytes"`
	RSS         int64       `json:"memory_rss_bytes"`
	Max         int64       `json:"maxmemory_bytes"` // 0: no bound
	System      int64       `json:"memory_of_machine_bytes"`
	Policy      string      `json:"maxmemory_policy"`
	Commands    int64       `json:"commands_a_second"`
	Clients     int64       `json:"clients"`
	Blocked     int64       `json:"clients_blocked"`
	MostClients int64       `json:"maxclients"`
	Rejected    int64       `json:"connections_rejected"`
	Evicted     int64       `json:"keys_evicted"`
	Hits        int64       `json:"keyspace_hits"`
	Misses      int64       `json:"keyspace_misses"`
	Keys        int64       `json:"keys"`
	Expiring    int64       `json:"keys_that_expire"`
	Master      string      `json:"master,omitempty"`
	MasterUp    bool        `json:"master_up"`
	Replicas    []Replica   `json:"replicas"`
	Persistence Persistence `json:"persistence"`
}

// Replica is a replica that a master knows.
type Replica struct {
	Address string    `json:"address"`
	State   string    `json:"state"`
	Behind  int64     `json:"behind_bytes"`
	Lag     site.Span `json:"lag_ms"`
}

// Persistence is how a Redis keeps its data.
type Persistence struct {
	Loading     bool      `json:"loading"`
	AOF         bool      `json:"aof"`
	AOFOK       bool      `json:"aof_ok"`
	Rewriting   bool      `json:"rewriting"`
	AppendFsync string    `json:"appendfsync"` // "": Redis does not say
	Save        string    `json:"save"`
	SaveKnown   bool      `json:"save_known"`
	LastSave    site.Time `json:"last_save"`
	SaveOK      bool      `json:"save_ok"`
	Saving      bool      `json:"saving"`
	Changes     int64     `json:"changes_since_save"`
}

// Share is the used part of what the Redis may use, in per cent; 0: there is no bound.
func (s Server) Share() float64 {
	if s.Max <= 0 || s.Used < 0 {
		return 0
	}
	return float64(s.Used) / float64(s.Max) * 100
}

// Asked is how many reads of keys there were; 0: Redis does not say.
func (s Server) Asked() int64 { return max(0, s.Hits+s.Misses) }

// RoundTrip is Latency as a duration.
func (s Server) RoundTrip() time.Duration {
	return time.Duration(s.Latency * float64(time.Microsecond))
}

// Behind is how far the last of the replicas is behind.
func (s Server) Behind() (most int64) {
	for _, r := range s.Replicas {
		most = max(most, r.Behind)
	}
	return most
}

// Kept says in a few words how the data is kept.
func (p Persistence) Kept() string {
	switch {
	case p.AOF && p.AppendFsync != "":
		return "AOF on, " + p.AppendFsync
	case p.AOF:
		return "AOF on"
	case p.SaveKnown && p.Save == "":
		return "neither AOF nor snapshots"
	}
	return "snapshots, no AOF"
}

func load(ctx context.Context, a *site.Ask) (any, error) {
	page := &Redis{}
	infos, err := site.Keep(ctx, a.Fleet, "what Redis says", often, func(ctx context.Context) (told, error) {
		infos, err := a.In().ServerInfo(ctx)
		if len(infos) > 0 { // of several, those that answer are shown
			return told{infos, err}, nil
		}
		return told{}, err
	})
	if err != nil && !page.refused(err) {
		return nil, err
	}
	if infos.err != nil {
		page.Missing = infos.err.Error()
	}
	for _, info := range infos.of {
		page.Servers = append(page.Servers, serverOf(info))
		page.denied(info.Denied)
	}
	if page.Families, err = families(ctx, a); err != nil && !page.refused(err) {
		return nil, err
	}
	if page.Families != nil {
		page.denied(page.Families.denied)
	}
	if page.Checks, page.Checking, err = checked(ctx, a); err != nil && !page.refused(err) {
		return nil, err
	}
	return page, nil
}

// told is what the Redises say of themselves, and the error of those that do not answer.
type told struct {
	of  []inspect.ServerInfo
	err error
}

// refused notes what an error says that Redis does not permit. It returns false for other errors.
func (p *Redis) refused(err error) bool {
	text := site.Refusal(err)
	if text != "" && !slices.Contains(p.Refused, text) {
		p.Refused = append(p.Refused, text)
	}
	return text != ""
}

func (p *Redis) denied(all []inspect.Denied) { p.Refused = withDenied(p.Refused, all) }

func withDenied(refused []string, all []inspect.Denied) []string {
	for _, d := range all {
		if text := site.RefusalText(d); !slices.Contains(refused, text) {
			refused = append(refused, text)
		}
	}
	return refused
}

func serverOf(i inspect.ServerInfo) Server {
	p := i.Persistence
	s := Server{
		Name: i.Name, Shard: i.Shard, Product: i.Product, Version: i.Version, Role: i.Role, Cluster: i.Cluster, Up: site.Span(i.Uptime),
		Latency: float64(i.Latency) / float64(time.Microsecond), Used: i.Memory.Used, Peak: i.Memory.Peak, RSS: i.Memory.RSS, Max: i.Memory.Max, System: i.Memory.System,
		Policy: i.Memory.Policy, Commands: i.OpsPerSecond, Clients: i.Clients, Blocked: i.Blocked, MostClients: i.MostClients, Rejected: i.Rejected,
		Evicted: i.Evicted, Hits: i.Hits, Misses: i.Misses, Keys: i.Keys, Expiring: i.Expiring, Master: i.Master, MasterUp: i.MasterUp,
		Persistence: Persistence{
			Loading: p.Loading, AOF: p.AOF, AOFOK: p.AOFOK, Rewriting: p.Rewriting, AppendFsync: p.AppendFsync, Save: p.Save, SaveKnown: p.SaveKnown,
			LastSave: site.Time{Time: p.LastSave}, SaveOK: p.SaveOK, Saving: p.Saving, Changes: p.Changes,
		},
	}
	for _, r := range i.Replicas {
		s.Replicas = append(s.Replicas, Replica{Address: r.Address, State: r.State, Behind: r.Behind, Lag: site.Span(r.Lag)})
	}
	return s
}

// Families are which keys take the memory.
type Families struct {
	At     site.Time `json:"measured"`
	Rows   []Family  `json:"families"`
	Others Family    `json:"other_programs"`
	Looked int64     `json:"looked"` // keys
	Of     int64     `json:"keys"`   // that there are; 0: Redis does not say
	Whole  bool      `json:"whole"`  // all were seen
	denied []inspect.Denied
}

// Family is the keys for one purpose. A size that Redis does not say is -1.
type Family struct {
	Name  string  `json:"name"`
	Keys  int64   `json:"keys"`
	Bytes int64   `json:"bytes"`          // of the keys that were seen
	About int64   `json:"estimate_bytes"` // of all, as if the others were like these
	Share float64 `json:"share"`          // of all of the families, in per cent
}

// families measures at most once a minute. ?fresh= is the time, in ms since 1970, of a measurement that is to be made again.
func families(ctx context.Context, a *site.Ask) (*Families, error) {
	const key = "families of keys"
	measured := func() (*Families, error) {
		return site.Keep(ctx, a.Fleet, key, seldom, func(ctx context.Context) (*Families, error) { return measure(ctx, a) })
	}
	f, err := measured()
	if err != nil {
		return nil, err
	}
	if seen, bad := strconv.ParseInt(a.Param("fresh"), 10, 64); bad == nil && f.At.UnixMilli() == seen {
		a.Fleet.Forget(key)
		return measured()
	}
	return f, nil
}

func measure(ctx context.Context, a *site.Ask) (*Families, error) {
	report, err := a.In().MemoryByFamily(ctx, 0)
	if err != nil {
		return nil, err
	}
	f := &Families{At: site.Time{Time: a.Now()}, Looked: report.Looked, Of: report.Of, Whole: report.Whole, denied: report.Denied}
	var sum int64
	for _, one := range append(slices.Clone(report.Families), report.Others) {
		sum += max(0, one.Estimate)
	}
	of := func(one inspect.KeyFamily) Family {
		family := Family{Name: one.Name, Keys: one.Keys, Bytes: one.Bytes, About: one.Estimate}
		if sum > 0 && one.Estimate > 0 {
			family.Share = float64(one.Estimate) / float64(sum) * 100
		}
		return family
	}
	for _, one := range report.Families {
		f.Rows = append(f.Rows, of(one))
	}
	f.Others = of(report.Others)
	return f, nil
}

// Slow is the page /redis/slow.
type Slow struct {
	Rows    []SlowCommand `json:"commands"`
	Refused string        `json:"refused,omitempty"`
}

// SlowCommand is a command that took long. What it was about is not shown: its arguments may be jobs, and those of other programs.
type SlowCommand struct {
	At        site.Time `json:"at"`
	Took      float64   `json:"took_us"`
	Command   string    `json:"command"`
	Key       string    `json:"key,omitempty"`
	Arguments int       `json:"arguments"`
	Bytes     int64     `json:"arguments_bytes"`
	Shard     string    `json:"shard,omitempty"`
}

// For is Took as a duration.
func (c SlowCommand) For() time.Duration { return time.Duration(c.Took * float64(time.Microsecond)) }

func loadSlow(ctx context.Context, a *site.Ask) (any, error) {
	page := &Slow{}
	all, err := site.Keep(ctx, a.Fleet, "slow commands", often, func(ctx context.Context) ([]inspect.SlowCommand, error) { return a.In().SlowLog(ctx, slowest) })
	if err != nil {
		if page.Refused = site.Refusal(err); page.Refused == "" {
			return nil, err
		}
		return page, nil
	}
	for _, c := range all {
		page.Rows = append(page.Rows, SlowCommand{
			At: site.Time{Time: c.At}, Took: float64(c.Took) / float64(time.Microsecond), Command: c.Command, Key: a.Masks.Text(c.Key), Arguments: c.Arguments, Bytes: c.Bytes, Shard: c.Shard,
		})
	}
	return page, nil
}

// stats writes what resque-web writes for monitoring.
func stats(ctx context.Context, a *site.Ask, w http.ResponseWriter) error {
	text, err := a.In().StatsText(ctx)
	if err != nil {
		return fmt.Errorf("reading the totals: %w", err)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err = io.WriteString(w, text)
	return err
}
