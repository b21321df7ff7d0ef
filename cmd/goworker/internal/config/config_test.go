package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func load(t *testing.T, name, text string, env, flags map[string]string) (*Config, []string, error) {
	t.Helper()
	s := Source{Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }, Flags: flags}
	if name != "" {
		s.File = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(s.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Load(s)
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	c, _, err := load(t, "goworker.yaml", `
redis: redis://file/1
listen: ":1"
max_body: 2MiB
ttr: 90
access_log: false
namespaces:
  shop: {class: Shop, max_length: 10}
  ruby: {prefix: "", queues: [a.b]}
`, map[string]string{"REDIS_URL": "redis://env/2", "GOWORKER_HTTP_LISTEN": ":2", "GOWORKER_HTTP_TRIES": "4"}, map[string]string{"listen": ":3"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Redis != "redis://env/2" || c.Listen != ":3" || c.MaxBody != 2<<20 || c.TTR != 90*time.Second || c.AccessLog || c.Tries != 4 {
		t.Errorf("the settings are %+v", c)
	}
	if n := c.Namespaces["shop"]; n.Class != "Shop" || n.MaxLength != 10 || n.Bare() {
		t.Errorf("the namespace is %+v", n)
	}
	if n := c.Namespaces["ruby"]; !n.Bare() || len(n.Queues) != 1 {
		t.Errorf("the namespace is %+v", n)
	}
	if c, _, err := load(t, "", "", nil, nil); err != nil || c.Listen != ":7777" || c.TTL != 24*time.Hour || !c.QueryTokens {
		t.Errorf("the defaults are %+v, %v", c, err)
	}
}

// Each mistake is a sentence that names the place, the setting, its value, and what is allowed.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		env, flags map[string]string
		want       string
	}{
		{name: "a.yaml", text: "listen: :1\nlisen: :2\n", want: "a.yaml:2:1: unknown setting lisen; did you mean listen?"},
		{name: "a.yaml", text: "max_body: much\n", want: `a.yaml:1:11: max_body is "much"; it takes a number of bytes, such as 1048576 or 1MiB`},
		{name: "a.yaml", text: "listen: :1\nlisten: :2\n", want: "a.yaml:2:1: listen is set in line 1 already"},
		{name: "a.yaml", text: "namespaces:\n  shop:\n    klass: X\n", want: "a.yaml:3:5: unknown key klass; did you mean class?"},
		{name: "a.yaml", text: "namespaces:\n  shop: {prefix: x}\n", want: `the namespace shop: prefix is "x"; it takes "", which leaves queues their names`},
		{name: "a.yaml", text: "namespaces: [shop]\n", want: "a.yaml:1:13: namespaces is a list; write names with values below it"},
		{name: "a.yaml", text: "- a\n", want: "a.yaml:1:1: the file is a list; write names with values below it"},
		{name: "a.yaml", text: "listen: [a]\n", want: "a.yaml:1:9: listen is a list; it takes one value"},
		{name: "a.yaml", text: "listen:\n", want: "a.yaml:1:8: listen has no value"},
		{name: "a.yaml", text: "a: b: c\n", want: "a.yaml:1:1: this is no YAML: "},
		{name: "a.yaml", text: "listen: 7777\n", want: `listen is "7777"; it takes an address such as :7777`},
		{name: "a.yaml", text: "tls_cert: x\n", want: "tls_cert and tls_key go together"},
		{name: "a.yaml", text: "pprof: true\n", want: "name an account under accounts"},
		{env: map[string]string{"GOWORKER_HTTP_TTR": "soon"}, want: `the variable GOWORKER_HTTP_TTR: ttr is "soon"; it takes a time`},
		{flags: map[string]string{"log_level": "loud"}, want: `the flag --log-level: log_level is "loud"; it takes one of debug, info, warn, error`},
		{name: "a.toml", text: "Port = \"x\"\n", want: "line 1: Port: "},
		{name: "a.toml", text: "Port = 1\n=\n", want: "line 2: "},
		{name: "a.toml", text: "[Pool.big]\nAddr = \"b:1\"\n", want: "there is no [Pool.default]"},
		{name: "a.toml", text: "[Pool.default]\nAddr = \"b:1\"\nMigrateTo = \"x\"\n", want: "[Pool.default] migrates to x, which is no pool"},
	} {
		if _, _, err := load(t, tt.name, tt.text, tt.env, tt.flags); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q %v %v: the error is\n%v\nand has not\n%s", tt.text, tt.env, tt.flags, err, tt.want)
		}
	}
}

const lmstfyConf = `Host = "0.0.0.0"
Port = 7777
AdminHost = "127.0.0.1"
AdminPort = 7778
LogLevel = "warning"
LogDir = "/var/log/lmstfy"
LogFormat = "json"
EnableAccessLog = false
TTLSecond = 0
DelaySecond = 5
TriesNum = 3
TTRSecond = 30
TimeoutSecond = 2
Colour = "blue"

[Accounts]
admin = "open sesame"

[AdminRedis]
Addr = "localhost:6380"

[Pool.default]
Addr = "localhost:6379"
Password = "secret"
DB = 2
PoolSize = 5000

[Pool.big]
Addr = "a:26379,b:26379"
MasterName = "mymaster"
SentinelPassword = "guard"
MigrateTo = "default"
`

func TestLmstfyFile(t *testing.T) {
	t.Parallel()
	c, notes, err := load(t, "lmstfy.toml", lmstfyConf, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `redis: redis://:secret@localhost:6379/2
listen: 0.0.0.0:7777
require_aof: true
public_sizes: true
access_log: false
log_level: warn
log_format: json
delay: 5s
ttl: 0s
ttr: 30s
timeout: 2s
tries: 3
pools:
    big:
        redis: redis+sentinel://a:26379,b:26379/mymaster/0?sentinel_password=guard
        migrate_to: default
accounts:
    admin: open sesame
`
	if got := c.Render(true); got != want {
		t.Errorf("the settings are\n%s", got)
	}
	for _, secret := range []string{"secret", "guard", "sesame"} {
		if strings.Contains(c.Render(false), secret) {
			t.Errorf("without secrets the settings show %s:\n%s", secret, c.Render(false))
		}
	}
	for _, part := range []string{"LogDir", "token import --from redis://localhost:6380/0", "line 14: lmstfy has no setting Colour", "PoolSize"} {
		if !strings.Contains(strings.Join(notes, "\n"), part) {
			t.Errorf("the notes are %q and do not say %s", notes, part)
		}
	}
	// What is printed is what it means.
	again, _, err := load(t, "ours.yaml", c.Render(true), nil, nil)
	if err != nil || again.Render(true) != want {
		t.Errorf("read again: %v\n%s", err, again.Render(true))
	}
}

func TestDevServesThisMachineOnly(t *testing.T) {
	t.Parallel()
	for _, flags := range []map[string]string{{"listen": "0.0.0.0:7777"}, {"listen": "127.0.0.1:1", "admin_listen": "10.0.0.1:1"}, {"tls_cert": "a", "tls_key": "b"}} {
		s := Source{Lookup: func(string) (string, bool) { return "", false }, Flags: flags, Dev: true}
		if _, _, err := Load(s); err == nil || !strings.Contains(err.Error(), "--dev") {
			t.Errorf("%v: %v", flags, err)
		}
	}
	if _, _, err := Load(Source{Lookup: func(string) (string, bool) { return "", false }, Dev: true}); err != nil {
		t.Error(err)
	}
}

// The page for operators names each setting.
func TestSettingsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/http-operating.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range Rows {
		if !strings.Contains(string(page), "`"+r.Name+"`") {
			t.Errorf("docs/http-operating.md does not name %s", r.Name)
		}
	}
	for _, name := range groups {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/http-operating.md does not name %s", name)
		}
	}
}
