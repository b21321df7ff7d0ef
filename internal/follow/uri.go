package follow

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
)

// URI is a Redis URI that names several hosts:
//
//	scheme://[[user]:password@]host[:port][,host…][/path][?name=value…][#fragment]
type URI struct {
	Scheme   string   // in lower case
	Hosts    []string // each with its port
	Path     []string // the parts between slashes, without empty ones
	Query    url.Values
	Fragment string

	user string // user, password and '@' as they were written, or nothing
}

// ParseURI splits a URI. A host without a port gets the given one. No error
// quotes the URI, which may hold a password. DialOptions.Server checks user,
// password and hosts.
func ParseURI(uri, port string) (URI, error) {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(uri), "://")
	if !ok {
		return URI{}, errors.New("its scheme is not followed by //")
	}
	u := URI{Scheme: strings.ToLower(scheme)}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		u.user, rest = rest[:at+1], rest[at+1:]
	}
	rest, fragment, _ := strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	var err error
	if u.Query, err = url.ParseQuery(query); err != nil {
		return URI{}, errors.New("what follows the ? cannot be read")
	}
	if u.Fragment, err = url.PathUnescape(fragment); err != nil {
		return URI{}, errors.New("what follows the # cannot be read")
	}
	for part := range strings.SplitSeq(path, "/") {
		if part, err = url.PathUnescape(part); err != nil {
			return URI{}, errors.New("its path cannot be read")
		}
		if part != "" {
			u.Path = append(u.Path, part)
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host = strings.TrimSpace(host); host == "" {
			return URI{}, errors.New("a host is missing")
		}
		if strings.LastIndexByte(host, ':') <= strings.LastIndexByte(host, ']') {
			host += ":" + port
		}
		u.Hosts = append(u.Hosts, host)
	}
	return u, nil
}

// TLS reports whether the scheme asks for it.
func (u URI) TLS() bool { return strings.HasPrefix(u.Scheme, "rediss") }

// Server is the URI of one server with the user and password of this one.
func (u URI) Server(addr string, db int) string {
	return u.As(u.user, addr) + "/" + strconv.Itoa(db)
}

// As is the URI of one server with another user and password, which end in an
// '@' or are empty.
func (u URI) As(user, addr string) string {
	if u.TLS() {
		return "rediss://" + user + addr
	}
	return "redis://" + user + addr
}

// Dial connects to the one server of a URI.
func Dial(ctx context.Context, opts goworker.DialOptions, uri string) (redis.Conn, error) {
	d, err := opts.Server(uri)
	if err != nil {
		return nil, err
	}
	return d.Dial(ctx)
}
