package control_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	wire "github.com/goworker/goworker/internal/resque/control"
)

// obeying is a daemon of the level full that notes each command which it obeys.
func (f *fleet) obeying(name, keyFile string) (d *daemon, done chan string) {
	f.Helper()
	done = make(chan string, 10_000)
	return f.start(name, func(s *goworker.WorkerSettings, d *goworker.Daemon) {
		s.Control, s.ControlKeyFile = goworker.ControlFull, keyFile
		d.AddVerb(goworker.Verb{Name: "harm", Do: func(_ context.Context, args json.RawMessage) (any, error) {
			done <- string(args)
			return nil, nil
		}})
	}), done
}

// No byte of a signed command can be changed, nor can its signature be that of another command, or a byte go from one field to another.
func TestChangedCommands(t *testing.T) {
	t.Parallel()
	f := setup(t)
	key := []byte(strings.Repeat("k", 32))
	_, done := f.obeying("a", keyFile(t, string(key)))
	s, now := wire.New(resque.New("")), f.redis.List(t, "TIME")
	seconds, err := strconv.ParseInt(now[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	made := (seconds + 1) * 1000 // not before the process started
	command := func(args string) (message []byte, signature string) {
		t.Helper()
		message, err := wire.Command{ID: wire.NewID(), Verb: "harm", Args: json.RawMessage(args), To: []string{"a"}, At: made, Until: made + wire.FullLives.Milliseconds(), By: "ops"}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return message, s.Sign(key, message)
	}

	// Each command is another, so that none is passed over because one with its id was obeyed before.
	announced := 0
	change := func(change func(message, signature string) (fields []any)) {
		t.Helper()
		message, signature := command(`"changed"`)
		f.announce(change(string(message), signature))
		announced++
	}
	flip := func(text string, at int, bits byte) string {
		return text[:at] + string([]byte{text[at] ^ bits}) + text[at+1:]
	}
	longest, signature := command(`"changed"`)
	for _, bits := range []byte{0x01, 0x20, 0x80} { // 0x20 makes a small letter of a capital one
		for at := range longest {
			change(func(m, s string) []any { return []any{"m", flip(m, at, bits), "s", s} })
		}
		for at := range signature {
			change(func(m, s string) []any { return []any{"m", m, "s", flip(s, at, bits)} })
		}
	}
	for _, c := range []func(m, s string) (string, string){
		func(m, s string) (string, string) { return m[1:], s },
		func(m, s string) (string, string) { return m[:len(m)-1], s },
		func(m, s string) (string, string) { return "\n" + m, s },
		func(m, s string) (string, string) { return m + " ", s },
		func(m, s string) (string, string) { return "resque:\n" + m, s },
		func(m, s string) (string, string) { return m, s[1:] },
		func(m, s string) (string, string) { return m, s[:len(s)-1] },
		func(m, s string) (string, string) { return m, s[:2] },
		func(m, _ string) (string, string) { return m, "" },
		func(m, s string) (string, string) { return m, "0" + s },
		func(m, s string) (string, string) { return m, s + "0" },
		func(m, s string) (string, string) { return m, s + "00" },
		func(m, s string) (string, string) { return m, " " + s },
		func(m, s string) (string, string) { return m, s + "\n" },
		func(m, s string) (string, string) { return m, s + s },
		func(m, s string) (string, string) { return m, strings.ToUpper(s) },
		func(m, s string) (string, string) { return m, strings.Repeat("0", len(s)) },
		func(m, s string) (string, string) { return m + s[:1], s[1:] },
		func(m, s string) (string, string) { return m[:len(m)-1], "}" + s },
		func(m, s string) (string, string) { return s, m },
		func(m, _ string) (string, string) { return m, signature },
	} {
		change(func(m, s string) []any { m, s = c(m, s); return []any{"m", m, "s", s} })
	}
	for _, c := range []func(m, s string) []any{
		func(m, _ string) []any { return []any{"m", m} },
		func(_, s string) []any { return []any{"s", s} },
		func(m, s string) []any { return []any{"m", m, "S", s} },
		func(m, s string) []any { return []any{"m", m, "signature", s} },
		func(m, s string) []any { return []any{"m", m, "s", s, "s", signature} },
		func(m, s string) []any { return []any{"m", m, "m", longest, "s", s} },
	} {
		change(c)
	}
	if announced < 500 {
		t.Errorf("%d changed commands are few", announced)
	}
	// What the process reads last is obeyed: neither are its announcements without effect, nor does what is changed keep a command out.
	message, signature := command(`"signed"`)
	f.announce([]any{"m", message, "s", signature})
	redistest.Eventually(t, daemontest.Soon, "a signed command is obeyed", func() bool { return len(done) > 0 })
	if r := f.gather(f.client, control.Ping); len(r.Replies) != 1 {
		t.Errorf("%+v", r)
	}
	for len(done) > 0 {
		if args := <-done; args != `"signed"` {
			t.Errorf("a command is obeyed that was changed; its arguments are %q", args)
		}
	}
}

// While the key of a fleet is changed, each process obeys what is signed with the key that it has, and says why it refuses the rest.
func TestChangeOfKeys(t *testing.T) {
	t.Parallel()
	f := setup(t)
	file, renewed := keyFile(t, strings.Repeat("k", 32)), keyFile(t, strings.Repeat("n", 32))
	a, doneA := f.obeying("a", file)
	_, doneB := f.obeying("b", renewed)
	ask := func(key string) control.Result {
		t.Helper()
		r, err := control.Gather(control.New(f.client, control.KeyFile(key)).Do(t.Context(), "harm", control.Timeout(daemontest.Soon)))
		if err != nil || len(r.Silent) > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
	for key, obeys := range map[string]string{file: "a", renewed: "b"} {
		if r := ask(key); len(r.Replies) != 1 || r.Replies[0].Name != obeys || len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Text, "not signed with the key of this process") {
			t.Errorf("by the key of %s: %+v", obeys, r)
		}
	}
	if len(doneA) != 1 || len(doneB) != 1 {
		t.Errorf("done %d and %d times", len(doneA), len(doneB))
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	f.obeying("a", renewed)
	if r := ask(renewed); len(r.Replies) != 2 {
		t.Errorf("both have the new key: %+v", r)
	}
	if r := ask(file); len(r.Refused) != 2 {
		t.Errorf("no process has the old key: %+v", r)
	}
}
