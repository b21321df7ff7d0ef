package contexts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestContexts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "contexts.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("contexts.yaml", "production:\n  uri_file: production.uri\n  namespace: 'shop:'\n  protect: true\n  accept: [9, 35]\n  ca: /etc/ca.pem\nlocal:\n  uri: redis://localhost/1\n")
	write("production.uri", "\n redis://:secret@cache:6379/0 \n# more\n")
	c, err := Load(file, "production")
	if err != nil || c.Name != "production" || c.Namespace != "shop:" || !c.Protect || len(c.Accept) != 2 || c.CA != "/etc/ca.pem" {
		t.Fatalf("%+v, %v", c, err)
	}
	if uri, err := c.Address(); err != nil || uri != "redis://:secret@cache:6379/0" {
		t.Errorf("%s, %v", uri, err)
	}
	if c, err = Load(file, "local"); err != nil || c.Protect {
		t.Fatalf("%+v, %v", c, err)
	}
	if uri, err := c.Address(); err != nil || uri != "redis://localhost/1" {
		t.Errorf("%s, %v", uri, err)
	}
	if _, err := Load(file, "stage"); err == nil || !strings.Contains(err.Error(), `no context "stage"; it has local, production`) {
		t.Error(err)
	}
	write("production.uri", " \n")
	if c, err = Load(file, "production"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Address(); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"a:\n  uri: x\n  uri_file: y\n": "uri or uri_file, and one of them", "a: {}\n": "uri or uri_file", "a:\n  uri: x\n  colour: red\n": "colour",
		"a:\n  uri: x\n  cert: c\n": "cert and key go together", "a: [\n": "reading the contexts in", "a:\n  uri: redis://:secret@x\n  protect: maybe\n": "protect",
	} {
		write("contexts.yaml", text)
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "maybe") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, and not %s", text, err, want)
		}
	}
	write("contexts.yaml", "")
	if all, err := Read(file); err != nil || len(all) != 0 {
		t.Errorf("an empty file: %v, %v", all, err)
	}
	if _, err := Read(filepath.Join(dir, "none.yaml")); err == nil || !strings.Contains(err.Error(), "write one, as in") {
		t.Error(err)
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"GOWORKER_CONTEXTS": "/x.yaml", "HOME": "/home/a"}, "/x.yaml"}, {map[string]string{"XDG_CONFIG_HOME": "/conf", "HOME": "/home/a"}, "/conf/goworker/contexts.yaml"},
		{map[string]string{"HOME": "/home/a"}, "/home/a/.config/goworker/contexts.yaml"},
	} {
		got, err := File(func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok })
		if err != nil || got != tt.want {
			t.Errorf("%v: %s, %v", tt.env, got, err)
		}
	}
}
