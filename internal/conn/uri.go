package conn

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// knownSchemes are those that NewDialer understands without an Opener.
var knownSchemes = []string{"redis", "rediss", "unix", "valkey", "valkeys"}

const defaultPort = "6379"

// target is the content of a Redis URI.
type target struct {
	network        string // "tcp" or "unix"
	addr           string // host:port, or the socket's path
	host           string // without port and brackets; empty for a socket
	user, password string // a user without a password is sent with an empty one
	db             int
	tls            bool
}

// unknownSchemeError is parseURI's error for a scheme it does not know. NewDialer
// knows the others and words the message.
type unknownSchemeError struct{ scheme string }

func (e *unknownSchemeError) Error() string {
	return fmt.Sprintf("redis: the scheme %q of the Redis URI is unknown", e.scheme)
}

// Exception is the name that failure tools know.
func (e *unknownSchemeError) Exception() string { return "goworker.unknownSchemeError" }

// parseURI reads
//
//	redis://[[user]:password@][host][:port][/db][?db=n]    also valkey://
//	rediss://…                                             TLS; also valkeys://
//	unix://[[user]:password@]/path/redis.sock[?db=n]       or the plain path
//
// A user without a colon is a password, as redigo reads it. Empty means
// redis://localhost:6379/.
//
// No error wraps url.Parse's or quotes the URI unredacted: a password with a '/',
// '#' or '?' that is not percent-encoded ends up in what looks like the port, the
// path, the query or the fragment, and those errors print it.
func parseURI(uri string) (target, error) {
	uri = strings.TrimSpace(uri)
	switch {
	case uri == "":
		uri = "redis://"
	case strings.HasPrefix(uri, "/"):
		return target{network: "unix", addr: uri}, nil
	}
	scheme, rest, ok := strings.Cut(uri, ":")
	scheme = strings.ToLower(scheme)
	if !ok || (!strings.HasPrefix(rest, "//") && scheme != "unix" && scheme != "embedded") {
		return target{}, fmt.Errorf("redis: the Redis URI %s does not begin with a scheme; write redis://host:6379, rediss://host:6379 or unix:///path", RedactURI(uri))
	}
	if !isScheme(scheme) {
		return target{}, fmt.Errorf("redis: the Redis URI %s does not begin with a scheme of letters, digits, '+', '-' and '.'", RedactURI(uri))
	}
	t := target{network: "tcp"}
	switch scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		t.tls = true
	case "unix":
		t.network = "unix"
	default:
		return target{}, &unknownSchemeError{scheme}
	}
	u, err := url.Parse(uri)
	if err != nil {
		return target{}, fmt.Errorf("redis: the Redis URI %s cannot be read: %s", RedactURI(uri), explainParse(err))
	}
	if strings.ContainsRune(u.RawQuery, '@') || strings.ContainsRune(uri, '#') || t.network == "tcp" && strings.ContainsRune(u.EscapedPath(), '@') {
		return target{}, fmt.Errorf("redis: the Redis URI %s cannot be read: %s", RedactURI(uri), encodeHint)
	}
	t.credentials(u.User)
	if err := t.database(u, uri); err != nil {
		return target{}, err
	}
	if t.network == "unix" {
		return t, t.socket(u, uri)
	}
	return t, t.hostPort(u, uri)
}

func isScheme(s string) bool {
	for i, c := range s {
		switch {
		case 'a' <= c && c <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return s != ""
}

const encodeHint = "special characters in a user or password must be percent-encoded (% as %25, / as %2F, ? as %3F, # as %23, @ as %40, : as %3A)"

// explainParse says what url.Parse disliked without its quotations.
func explainParse(err error) string {
	var escape url.EscapeError
	var host url.InvalidHostError
	switch {
	case errors.As(err, &escape):
		return "a % is not followed by two hexadecimal digits; " + encodeHint
	case errors.As(err, &host):
		return "its host has a character that no host name has; " + encodeHint
	case strings.Contains(err.Error(), "control character"):
		return "it contains a control character"
	case strings.Contains(err.Error(), "invalid port"):
		return "its port is not a number; " + encodeHint
	}
	return encodeHint
}

func (t *target) credentials(info *url.Userinfo) {
	if info == nil {
		return
	}
	t.user = info.Username()
	var ok bool
	if t.password, ok = info.Password(); !ok {
		t.user, t.password = "", t.user
	}
}

// database reads /db and ?db=, and refuses every other parameter: a setting that is
// dropped silently would mislead its writer.
func (t *target) database(u *url.URL, uri string) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("redis: the database in %s %s; write a number from 0, as in redis://host:6379/2", RedactURI(uri), fmt.Sprintf(format, args...))
	}
	var texts []string
	if path := strings.TrimPrefix(u.Path, "/"); t.network == "tcp" && path != "" {
		texts = append(texts, path)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("redis: what follows the ? in %s cannot be read; only ?db=<number> may stand there", RedactURI(uri))
	}
	for name, values := range query {
		if name != "db" {
			if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_-") != "" {
				name = "***" // it may be the rest of a password that contains a question mark
			}
			return fmt.Errorf("redis: the parameter %q in %s is unknown; only ?db=<number> may follow the ?, timeouts and TLS have settings of their own", name, RedactURI(uri))
		}
		texts = append(texts, values...)
	}
	for i, text := range texts {
		db, err := strconv.Atoi(text)
		switch {
		case err != nil:
			return fail("is not a number")
		case db < 0:
			return fail("is negative")
		case i > 0 && db != t.db:
			return fail("is given twice, as %d and %d", t.db, db)
		}
		t.db = db
	}
	return nil
}

func (t *target) socket(u *url.URL, uri string) error {
	if u.Host != "" || u.Opaque != "" || u.Path == "" || u.Path == "/" {
		return fmt.Errorf("redis: %s does not name a socket by its whole path; write unix:///path/redis.sock, with three slashes", RedactURI(uri))
	}
	t.addr = u.Path
	return nil
}

func (t *target) hostPort(u *url.URL, uri string) error {
	t.host = u.Hostname()
	if t.host == "" {
		t.host = "localhost"
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("redis: the port in %s is not a number from 1 to 65535", RedactURI(uri))
	}
	t.addr = net.JoinHostPort(t.host, port)
	return nil
}

// RedactURI returns uri for a log or an error: *** replaces the password and, in a malformed
// URI, every part that might be one. It works on the text, not on a parsed URI, and hides too
// much rather than too little: all before the last '@' is user and password, parameters other
// than db lose their values, a fragment and an unreadable port are hidden.
func RedactURI(uri string) string {
	const stars = "***"
	uri = strings.TrimSpace(uri)
	scheme, rest, ok := strings.Cut(uri, "://")
	if ok && isScheme(strings.ToLower(scheme)) {
		scheme += "://"
	} else {
		scheme, rest = "", uri
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, _, pair := strings.Cut(rest[:at], ":")
		if pair && plainText(user) {
			return scheme + user + ":" + stars + "@" + redactPlace(rest[at+1:])
		}
		return scheme + stars + "@" + redactPlace(rest[at+1:])
	}
	return scheme + redactPlace(rest)
}

// redactPlace redacts the part behind user and password: host, port, path, query.
func redactPlace(s string) string {
	const stars = "***"
	s, _, fragment := strings.Cut(s, "#")
	place, query, hasQuery := strings.Cut(s, "?")
	authority := place
	if slash := strings.IndexByte(place, '/'); slash >= 0 {
		authority = place[:slash]
	}
	for host := range strings.SplitSeq(authority, ",") { // Sentinel and Cluster have several
		colon := strings.LastIndexByte(host, ':')
		if colon > strings.LastIndexByte(host, ']') && host[colon+1:] != "" && !digits(host[colon+1:]) {
			// "user:secret" without a host, or the beginning of a password.
			head := authority[:strings.IndexByte(authority, ':')+1]
			if !plainText(head) {
				return stars
			}
			return head + stars
		}
	}
	if !plainText(place) {
		place = stars
	}
	switch db, isDB := strings.CutPrefix(query, "db="); {
	case hasQuery && isDB && digits(db):
		place += "?" + query
	case hasQuery:
		place += "?" + stars
	}
	if fragment {
		place += "#" + stars
	}
	return place
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// plainText reports whether s may be part of a log line as it is: only
// printable characters, no quote, and no '%' that could hide one.
func plainText(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool {
		return !unicode.IsPrint(c) || c == ' ' || c == '"' || c == '%' || c == utf8.RuneError
	})
}
