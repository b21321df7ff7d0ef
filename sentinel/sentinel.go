// Package sentinel lets goworker find its Redis through Redis Sentinels and
// follow it when they make another server the master. Only a program that imports
// it links it:
//
//	goworker.RegisterDialer("redis+sentinel", sentinel.Open)
//	goworker.RegisterDialer("rediss+sentinel", sentinel.Open) // TLS
//	goworker.SetSettings(goworker.WorkerSettings{
//		URI: "redis+sentinel://:password@host1,host2,host3/mymaster", …})
package sentinel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/follow"
	"github.com/goworker/goworker/internal/prefix"
)

// askWithin is how long one Sentinel may take to accept a connection, and to answer.
// Then the next is asked, so a Dial reaches several of them.
const askWithin = time.Second

const defaultPort = "26379"

const form = "write redis+sentinel://user:password@host:26379,host2:26379/master-name/0"

var _ goworker.Opener = Open

// Open is a goworker.Opener for URIs of the form
//
//	redis+sentinel://[[user]:password@]host[:26379][,host2[:port]…]/master-name[/db]
//	    [?db=n&sentinel_user=…&sentinel_password=…]
//
// and, with TLS to the Sentinels and to Redis, rediss+sentinel://. User, password
// and db are for Redis; those of the Sentinels are parameters, or none. The
// hosts are a beginning: they name the other Sentinels.
//
// Open also accepts the spellings of other programs: redis-sentinel:// and rediss-sentinel://
// (register Open for them), the master's name as #master-name, ?master=,
// ?sentinelMasterId= or ?service_name= with only the db in the path, and
// sentinel_username.
//
// Open does not dial. Dial asks the Sentinels for the master, and proves that it is
// the master before it returns a connection. While they disagree or fail over it tries
// again, for DialOptions.ConnectTimeout at most. While there are connections it asks one
// Sentinel each second. When that names another master, and the other master
// agrees, the connections to the old one are closed.
func Open(_ context.Context, uri string, opts goworker.DialOptions) (goworker.Dialer, error) {
	s, err := parse(uri)
	if err != nil {
		return nil, prefix.Errorf("the Sentinels' URI cannot be used: %w; %s", err, form)
	}
	s.redis, s.sentinel = opts, opts
	s.sentinel.Login = nil // theirs is in the URI
	s.sentinel.ConnectTimeout = min(opts.ConnectTimeout, askWithin)
	s.sentinel.ReadTimeout = min(opts.ReadTimeout, askWithin)
	for _, host := range s.uri.Hosts { // Server says what is wrong with a host
		if _, err := s.redis.Server(s.uri.Server(host, s.db)); err != nil {
			return nil, err
		}
	}
	return follow.New(follow.Config{
		Advisers: follow.NewAdvisers("the Sentinels of "+s.master, s.uri.Hosts, s.dialSentinel, s.ask, s.others),
		Dial:     s.dialMaster,
		Limit:    opts.ConnectTimeout,
	}), nil
}

// way is the content of a URI, and how to dial.
type way struct {
	uri    follow.URI
	master string
	db     int
	user   string // the Sentinels' user, password and '@', escaped, or nothing

	redis, sentinel goworker.DialOptions
}

func parse(uri string) (*way, error) {
	u, err := follow.ParseURI(uri, defaultPort)
	if err != nil {
		return nil, err
	}
	s := &way{uri: u, master: u.Fragment}
	var user, password, db string
	for name, values := range u.Query {
		var to *string
		switch name {
		case "db":
			to = &db
		case "master", "sentinelMasterId", "service_name":
			to = &s.master
		case "sentinel_user", "sentinel_username":
			to = &user
		case "sentinel_password":
			to = &password
		default:
			return nil, fmt.Errorf("it has an unknown parameter %q", name)
		}
		if len(values) > 1 || *to != "" && *to != values[0] {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		*to = values[0]
	}
	path := u.Path
	if s.master == "" && len(path) > 0 {
		s.master, path = path[0], path[1:]
	}
	if s.master == "" {
		return nil, errors.New("it does not name the master")
	}
	if len(path) > 1 || len(path) == 1 && db != "" && path[0] != db {
		return nil, errors.New("after the master's name only the number of the database may stand, once")
	}
	if len(path) == 1 {
		db = path[0]
	}
	if db != "" {
		if s.db, err = strconv.Atoi(db); err != nil || s.db < 0 {
			return nil, errors.New("its database is not a number from 0")
		}
	}
	if user != "" || password != "" {
		s.user = url.UserPassword(user, password).String() + "@"
	}
	return s, nil
}

func (s *way) dialSentinel(ctx context.Context, addr string) (redis.Conn, error) {
	return follow.Dial(ctx, s.sentinel, s.uri.As(s.user, addr))
}

// dialMaster proves that the server is the master by INFO, which the minimal ACL
// allows anyway: a Sentinel may be behind.
func (s *way) dialMaster(ctx context.Context, addr string) (redis.Conn, error) {
	c, err := follow.Dial(ctx, s.redis, s.uri.Server(addr, s.db))
	if err != nil {
		return nil, err
	}
	info, err := redis.String(redis.DoContext(c, ctx, "INFO", "replication"))
	if err == nil && !strings.Contains(info, "role:master") {
		err = fmt.Errorf("redis: %s, which the Sentinels give as the master %s, is a replica; a fail-over may be under way", addr, s.master)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (s *way) ask(c redis.Conn, at string) (string, error) {
	addr, err := redis.Strings(c.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.master))
	switch {
	case err == redis.ErrNil || err == nil && len(addr) != 2:
		return "", fmt.Errorf("the Sentinel at %s watches no master named %q", at, s.master)
	case err != nil:
		return "", fmt.Errorf("asking the Sentinel at %s: %w", at, err)
	}
	return net.JoinHostPort(addr[0], addr[1]), nil
}

func (s *way) others(c redis.Conn, _ string) ([]string, error) {
	rows, err := redis.Values(c.Do("SENTINEL", "SENTINELS", s.master))
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, row := range rows {
		if about, err := redis.StringMap(row, nil); err == nil {
			addrs = append(addrs, net.JoinHostPort(about["ip"], about["port"]))
		}
	}
	return addrs, nil
}
