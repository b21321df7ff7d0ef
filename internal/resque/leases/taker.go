package leases

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

var takerScript = resque.LoadScript(scriptFiles, "taker")

// TakersKey is the set of the servers that take jobs for clients: server to until when its record counts, in ms.
func (s Store) TakersKey() resque.Key { return s.ZSetKey("takers") }

// TakerKey is the hash of what a server says of itself.
func (s Store) TakerKey(server string) resque.Key { return s.HashKey("taker:" + server) }

// Taker is a server that takes jobs for clients.
type Taker struct {
	ID      string // each life of a server has another one
	Host    string
	PID     int
	Version string
	Address string // where it listens
	Started time.Time
	Waiting int      // requests that wait for jobs
	Queues  []string // that clients have asked for in the last minutes
}

// RenewTaker writes the record of a server, which counts for so long. It returns when delayed jobs and the like are due, and
// whether this server is the one that moves them: no daemon lives, and no server comes before it by its id. The cargo, which
// may be nil, hears its answers before RenewTaker returns.
func (s Store) RenewTaker(c redis.Conn, t Taker, lease time.Duration, cargo *resque.Cargo) (leads bool, due resque.Due, err error) {
	var a resque.Call
	a.Key(s.TakersKey().String())
	a.Key(s.TakerKey(t.ID).String())
	a.Key(s.KeyOfProcesses())
	keys := s.RenewalKeys(&a)
	fields := []any{"host", t.Host, "pid", t.PID, "version", t.Version, "address", t.Address,
		"started", t.Started.UnixMilli(), "waiting", t.Waiting, "queues", strings.Join(t.Queues, "\n"), "duties", resque.Duties}
	a.Arg(t.ID, lease.Milliseconds(), keys, len(fields))
	a.Arg(fields...)
	a.Carry(cargo)
	r, err := redis.Values(a.Do(c, takerScript))
	if err == nil {
		if due, _, err = resque.RenewalDue(r[min(1, len(r)):], cargo); err == nil {
			first, err := redis.String(r[0], nil)
			return first == "1", due, s.explain(c, err, "", "renewing the record of server %s", t.ID)
		}
	}
	return false, due, s.explain(c, err, "", "renewing the record of server %s", t.ID)
}

// LeaveTaker removes the record of a server.
func (s Store) LeaveTaker(c redis.Conn, server string) error {
	b := resque.Batch{Conn: c}
	b.Send("ZREM", s.TakersKey().String(), server)
	b.Send("DEL", s.TakerKey(server).String())
	replies, err := b.Receive()
	for i := 0; err == nil && i < len(replies); i++ {
		_, err = resque.Answer(replies[i])
	}
	return s.explain(c, err, "", "removing the record of server %s", server)
}

// Takers returns the servers whose records count now, sorted by their ids.
func (s Store) Takers(c redis.Conn) (all []Taker, err error) {
	now, err := s.Now(c)
	if err != nil {
		return nil, err
	}
	ids, err := redis.Strings(c.Do("ZRANGEBYSCORE", s.TakersKey().String(), now.UnixMilli(), "+inf"))
	if err != nil {
		return nil, s.explain(c, err, "", "reading which servers take jobs")
	}
	slices.Sort(ids)
	for _, id := range ids {
		f, err := redis.StringMap(c.Do("HGETALL", s.TakerKey(id).String()))
		if err != nil {
			return nil, s.explain(c, err, "", "reading the record of server %s", id)
		}
		t := Taker{ID: id, Host: f["host"], Version: f["version"], Address: f["address"]}
		t.PID, _ = strconv.Atoi(f["pid"])
		t.Waiting, _ = strconv.Atoi(f["waiting"])
		if ms, err := strconv.ParseInt(f["started"], 10, 64); err == nil {
			t.Started = time.UnixMilli(ms)
		}
		if f["queues"] != "" {
			t.Queues = strings.Split(f["queues"], "\n")
		}
		all = append(all, t)
	}
	return all, nil
}
