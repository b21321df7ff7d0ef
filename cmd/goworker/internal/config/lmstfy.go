package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/goworker/goworker/internal/conn"
)

// lmstfyFile is lmstfy's file. A field that is a pointer has a default of lmstfy's own, or says nothing if it is left out.
type lmstfyFile struct {
	Host, AdminHost, LogLevel, LogDir, LogFormat               string
	Port, AdminPort                                            *int
	EnableAccessLog                                            *bool
	TTLSecond, DelaySecond, TriesNum, TTRSecond, TimeoutSecond *int
	Accounts                                                   map[string]string
	AdminRedis                                                 *lmstfyRedis
	Pool                                                       map[string]lmstfyRedis
}

type lmstfyRedis struct {
	Addr, Password, MigrateTo, MasterName, SentinelPassword string
	DB, PoolSize                                            int
}

// defaultPool is the pool of tokens without a colon.
const defaultPool = "default"

// lmstfy takes what lmstfy's file says. The notes say what of it means nothing here.
func (c *Config) lmstfy(path string, data []byte) (notes []string, err error) {
	var f lmstfyFile
	if err := toml.Unmarshal(data, &f); err != nil {
		return nil, tomlError(path, err)
	}
	notes = unknown(path, data)
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }

	address := func(host string, port *int, to *string) {
		if port != nil {
			*to = net.JoinHostPort(host, strconv.Itoa(*port))
		}
	}
	address(f.Host, f.Port, &c.Listen)
	if f.AdminHost == "" {
		f.AdminHost = "127.0.0.1"
	}
	address(f.AdminHost, f.AdminPort, &c.AdminListen)
	for name, value := range map[string]string{"log_level": f.LogLevel, "log_format": f.LogFormat} {
		if value == "" {
			continue
		}
		if err := row(name).set(c, lowerLevel(value)); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if f.LogDir != "" {
		note("LogDir: the log goes to standard output; redirect it to keep it in %s", f.LogDir)
	}
	if f.EnableAccessLog != nil {
		c.AccessLog = *f.EnableAccessLog
	}
	for _, s := range []struct {
		value *int
		to    *time.Duration
	}{{f.TTLSecond, &c.TTL}, {f.DelaySecond, &c.Delay}, {f.TTRSecond, &c.TTR}, {f.TimeoutSecond, &c.Timeout}} {
		if s.value != nil {
			*s.to = time.Duration(*s.value) * time.Second
		}
	}
	if f.TriesNum != nil {
		c.Tries = max(*f.TriesNum, 1)
	}
	c.Accounts = f.Accounts
	c.PublicSizes = true // lmstfy has no setting for it
	c.RequireAOF = true
	if f.AdminRedis != nil {
		note("AdminRedis: tokens are kept in the Redis of their pool; move those of lmstfy with goworker token import --from %s", conn.RedactURI(f.AdminRedis.uri()))
	}
	return notes, c.pools(path, f.Pool, note)
}

func (c *Config) pools(path string, pools map[string]lmstfyRedis, note func(string, ...any)) error {
	if len(pools) == 0 {
		return nil
	}
	first, ok := pools[defaultPool]
	if !ok {
		return fmt.Errorf("%s: there is no [Pool.%s], which tokens without a pool are of; name one pool so", path, defaultPool)
	}
	c.Redis = first.uri()
	for name, p := range pools {
		switch {
		case p.Addr == "":
			return fmt.Errorf("%s: [Pool.%s] has no Addr; it takes an address such as \"localhost:6379\"", path, name)
		case name == defaultPool && p.MigrateTo == "":
			continue
		}
		if c.Pools == nil {
			c.Pools = make(map[string]Pool)
		}
		c.Pools[name] = Pool{Redis: p.uri(), MigrateTo: p.MigrateTo}
	}
	for name, p := range c.Pools {
		if _, there := pools[p.MigrateTo]; p.MigrateTo != "" && !there {
			return fmt.Errorf("%s: [Pool.%s] migrates to %s, which is no pool", path, name, p.MigrateTo)
		}
	}
	note("PoolSize: a server has a handful of connections to each Redis, whatever the number of clients")
	return nil
}

// uri returns where a pool's Redis is.
func (r lmstfyRedis) uri() string {
	u := url.URL{Scheme: "redis", Host: r.Addr, Path: "/" + strconv.Itoa(r.DB)}
	if r.Password != "" {
		u.User = url.UserPassword("", r.Password)
	}
	if r.MasterName != "" {
		u.Scheme, u.Path = "redis+sentinel", "/"+r.MasterName+"/"+strconv.Itoa(r.DB)
		if r.SentinelPassword != "" {
			u.RawQuery = url.Values{"sentinel_password": {r.SentinelPassword}}.Encode()
		}
	}
	return u.String()
}

// lowerLevel returns lmstfy's name of a level as it is here.
func lowerLevel(name string) string {
	switch name = strings.ToLower(name); name {
	case "warning":
		return "warn"
	case "trace":
		return "debug"
	case "fatal", "panic":
		return "error"
	}
	return name
}

// tomlError says where the file is wrong.
func tomlError(path string, err error) error {
	var wrong *toml.DecodeError
	if errors.As(err, &wrong) {
		line, _ := wrong.Position()
		name := ""
		if key := wrong.Key(); len(key) > 0 {
			name = strings.Join(key, ".") + ": "
		}
		return at(path, line, "%s%s", name, strings.TrimPrefix(wrong.Error(), "toml: "))
	}
	return fmt.Errorf("%s is no TOML: %w", path, err)
}

// unknown names what lmstfy's file has and lmstfy does not know.
func unknown(path string, data []byte) (notes []string) {
	d := toml.NewDecoder(strings.NewReader(string(data))).DisallowUnknownFields()
	var strict *toml.StrictMissingError
	if !errors.As(d.Decode(new(lmstfyFile)), &strict) {
		return nil
	}
	for _, e := range strict.Errors {
		line, _ := e.Position()
		notes = append(notes, fmt.Sprintf("%s, line %d: lmstfy has no setting %s, and it means nothing here", path, line, strings.Join(e.Key(), ".")))
	}
	return notes
}

func row(name string) Row {
	for _, r := range Rows {
		if r.Name == name {
			return r
		}
	}
	panic("there is no row " + name)
}

// hidden is shown in place of a password.
const hidden = "xxxxx"
