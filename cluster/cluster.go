// Package cluster lets goworker live in a Redis Cluster. With a namespace that
// holds a hash tag all its keys are in one slot. The package finds the master of that slot and
// follows when the slot moves or its master fails. Only a program that
// imports it links it:
//
//	goworker.RegisterDialer("redis+cluster", cluster.Open)
//	goworker.RegisterDialer("rediss+cluster", cluster.Open) // TLS
//	goworker.SetSettings(goworker.WorkerSettings{
//		URI: "redis+cluster://:password@host1,host2", Namespace: "{resque}:", …})
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/follow"
	"github.com/goworker/goworker/internal/prefix"
)

// askWithin is how long one node may take to accept a connection, and to answer
// which node is the master of our slot.
const askWithin = time.Second

const defaultPort = "6379"

const form = "write redis+cluster://user:password@host:6379,host2:6379"

var _ goworker.Opener = Open

// Open is a goworker.Opener for URIs of the form
//
//	redis+cluster://[[user]:password@]host[:6379][,host2[:port]…]
//
// and, with TLS to all nodes, rediss+cluster://. The hosts are a beginning: they name the
// other nodes. Some programs write redis-cluster://; register
// Open for that.
//
// It refuses a namespace without a hash tag, which is a part in braces such as
// {resque}: the scripts use several keys each, and a Cluster runs a script only
// if all of them are in one slot.
//
// Open does not dial. Dial asks a node for the master of the slot and proves that it is.
// During a fail-over it tries again, for DialOptions.ConnectTimeout
// at most. While there are connections it asks one node each second. When that names
// another master, and the other master agrees, the connections to the old one are
// closed.
func Open(_ context.Context, uri string, opts goworker.DialOptions) (goworker.Dialer, error) {
	u, err := follow.ParseURI(uri, defaultPort)
	if err == nil {
		err = onlyHosts(u)
	}
	if err != nil {
		return nil, prefix.Errorf("the Cluster's URI cannot be used: %w; %s", err, form)
	}
	if !tagged(opts.Namespace) {
		return nil, prefix.Errorf("in a Redis Cluster the namespace needs a part in braces, and %q has none: every script touches several keys, "+
			"and only what stands in the braces decides on which node a key is, so that all are on one; "+
			"write -namespace='{resque}:' (Namespace), and give the other programs that share the queues the same", opts.Namespace)
	}
	w := &way{uri: u, key: opts.Namespace, redis: opts, adviser: opts}
	w.adviser.ConnectTimeout = min(opts.ConnectTimeout, askWithin)
	w.adviser.ReadTimeout = min(opts.ReadTimeout, askWithin)
	for _, host := range u.Hosts { // Server says what is wrong with a host
		if _, err := opts.Server(u.Server(host, 0)); err != nil {
			return nil, err
		}
	}
	return follow.New(follow.Config{
		Advisers: follow.NewAdvisers("the nodes of the Cluster", u.Hosts, w.dialNode, w.ask, w.others),
		Dial:     w.dialMaster,
		Limit:    opts.ConnectTimeout,
	}), nil
}

// onlyHosts refuses all other parts of a URI, except the database 0.
func onlyHosts(u follow.URI) error {
	dbs := u.Path
	for name, values := range u.Query {
		if name != "db" {
			return fmt.Errorf("it has an unknown parameter %q", name)
		}
		dbs = append(dbs, values...)
	}
	if slices.ContainsFunc(dbs, func(db string) bool { return db != "0" }) {
		return errors.New("a Cluster has only the database 0")
	}
	if u.Fragment != "" {
		return errors.New("nothing may follow a #")
	}
	return nil
}

// tagged reports whether the namespace has a hash tag as Redis reads it: there is text between
// the first opening brace and the first closing one after it.
// Then the rest of a key makes no difference.
func tagged(namespace string) bool {
	_, rest, _ := strings.Cut(namespace, "{")
	tag, _, closed := strings.Cut(rest, "}")
	return closed && tag != ""
}

// way is how to dial the nodes, and what to ask them for.
type way struct {
	uri follow.URI
	key string // one of the slot's keys. No program writes it

	redis, adviser goworker.DialOptions
}

func (w *way) dialNode(ctx context.Context, addr string) (redis.Conn, error) {
	return follow.Dial(ctx, w.adviser, w.uri.Server(addr, 0))
}

func (w *way) dialMaster(ctx context.Context, addr string) (redis.Conn, error) {
	c, err := follow.Dial(ctx, w.redis, w.uri.Server(addr, 0))
	if err != nil {
		return nil, err
	}
	_, err = redis.DoContext(c, ctx, "EXISTS", w.key)
	other, err := master(addr, err)
	if err == nil && other != addr {
		err = fmt.Errorf("redis: %s does not serve the namespace %s, it names %s; a fail-over may be under way", addr, w.key, other)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// ask reads a key of our slot at a node: either it is there, or the node says
// where. So we need not know the slots, and the answer is the one we
// need: whether this node has our keys.
func (w *way) ask(c redis.Conn, at string) (string, error) {
	_, err := c.Do("EXISTS", w.key)
	addr, err := master(at, err)
	if err != nil {
		return "", fmt.Errorf("asking the node %s: %w", at, err)
	}
	return addr, nil
}

// master reads the answer of the node at an address.
func master(at string, err error) (string, error) {
	var refused redis.Error
	if !errors.As(err, &refused) {
		return at, err
	}
	switch words := strings.Fields(string(refused)); {
	case len(words) == 3 && words[0] == "MOVED":
		return announced(words[2], at)
	case len(words) == 3 && words[0] == "ASK": // the node moves its keys to another, and serves those that are left
		return at, nil
	}
	return "", err
}

// announced is the address in a node's answer: a host and a port. The host has no
// brackets, and is missing if it is the node that was asked.
func announced(addr, at string) (string, error) {
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 {
		return "", fmt.Errorf("it gives the address %q, which has no port", addr)
	}
	return reach(addr[:colon], addr[colon+1:], at), nil
}

func reach(host, port, at string) string {
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(at)
	}
	return net.JoinHostPort(host, port)
}

// others are the nodes of the Cluster, masters and replicas.
func (w *way) others(c redis.Conn, at string) ([]string, error) {
	ranges, err := redis.Values(c.Do("CLUSTER", "SLOTS"))
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, r := range ranges {
		fields, _ := r.([]any) // first slot, last slot, then nodes
		for i := 2; i < len(fields); i++ {
			node, _ := fields[i].([]any)
			if len(node) < 2 {
				continue
			}
			host, _ := redis.String(node[0], nil)
			if port, err := redis.Int(node[1], nil); err == nil {
				addrs = append(addrs, reach(host, strconv.Itoa(port), at))
			}
		}
	}
	return addrs, nil
}
