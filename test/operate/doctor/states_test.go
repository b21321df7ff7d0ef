package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// TestOnlyRuby: of a Redis that goworker has never seen, doctor says the same.
func TestOnlyRuby(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.resque()
	if found := bad(w.look()); len(found) > 0 {
		t.Errorf("where only Ruby works:\n%s", text(found))
	}
}

// resque writes what a Ruby worker and resque-scheduler have in Redis: an idle worker, a busy one, a failure and a delayed job.
func (w *world) resque() {
	w.t.Helper()
	w.do("SADD", "~queues", "ruby")
	for _, id := range []string{"app-1:77:ruby", "app-1:78:*,!slow"} {
		w.do("SADD", "~workers", id)
		w.do("SET", "~worker:"+id+":started", "2026-11-23 10:00:00 +0000")
		w.do("HSET", "~workers:heartbeat", id, w.now(10*time.Second))
	}
	w.do("SET", "~worker:app-1:77:ruby", `{"queue":"ruby","run_at":"2026-11-23T10:00:01Z","payload":{"class":"Resize","args":[7]}}`)
	w.do("RPUSH", "~queue:ruby", `{"class":"Resize","args":[8]}`)
	w.do("RPUSH", "~failed", `{"failed_at":"2026/11/23 10:00:02 UTC","payload":{"class":"Resize","args":[6]},"exception":"RuntimeError","error":"no","backtrace":["a.rb:1:in 'b'"],"worker":"app-1:77:ruby","queue":"ruby"}`)
	second := time.Now().Add(time.Hour).Unix()
	item := `{"class":"Resize","args":[9],"queue":"ruby"}`
	w.do("RPUSH", fmt.Sprint("~delayed:", second), item)
	w.do("SADD", "~timestamps:"+item, fmt.Sprint("delayed:", second))
	w.do("ZADD", "~delayed_queue_schedule", second, second)
}

// TestCluster: in a Cluster, under a namespace with braces, doctor looks at everything.
func TestCluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, append([]string{"--cluster-enabled", "yes"}, durable...)...)
	server.Do(t, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	redistest.Eventually(t, daemontest.Soon, "the Cluster is up", func() bool {
		return strings.Contains(server.Text(t, "CLUSTER", "INFO"), "cluster_state:ok")
	})
	w := newWorld(t, server, nil)
	w.ns = "{resque}:"
	w.as(w.uri)
	w.resque()
	if found := bad(w.look()); len(found) > 0 {
		t.Errorf("in a Cluster:\n%s", text(found))
	}
}

// TestEmbedded: the embedded Redis does not know all that doctor asks. Those checks say so, and the others look.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{URI: "embedded:", QueuesString: "mail", Logger: daemontest.Quiet})
	defer d.Close()
	d.RegisterDialer("embedded", embedded.Open)
	looked := 0
	for f, err := range checks.Run(t.Context(), d.Client().Inspect(), checks.Options{Budget: time.Minute, Now: steady}) {
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", text([]checks.Finding{f}))
		switch f.State {
		case checks.OK:
			looked++
		case checks.CouldNotLook:
		case checks.Found:
			if f.Check.Number > 23 {
				t.Errorf("%s", text([]checks.Finding{f}))
			}
		}
	}
	if looked < 35 {
		t.Errorf("%d checks looked", looked)
	}
}

// TestCouldNotLook: a check that Redis refuses says which rule its user lacks, and the others go on.
func TestCouldNotLook(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, durable...)
	w := newWorld(t, server, nil)
	server.Do(t, "ACL", "SETUSER", "viewer", "on", ">secret", "~*", "&*", "+@all", "-config|get", "-slowlog|get", "-acl|dryrun", "-client|list")
	w.as(strings.Replace(w.uri, "redis://", "redis://viewer:secret@", 1))
	want := map[int]string{7: "+config|get", 15: "+slowlog|get", 16: "+client|list", 18: "+config|get", 19: "+client|list", 20: "+client|list", 21: "+config|get"}
	for _, f := range w.look() {
		rule, refused := want[f.Check.Number]
		if refused != (f.State == checks.CouldNotLook) || f.Rule != rule || refused && !strings.Contains(f.Remedy.Words, rule) || !refused && f.State != checks.OK {
			t.Errorf("%s wanted the rule %q, not %q", text([]checks.Finding{f}), rule, f.Rule)
		}
	}
}

// TestOtherPrograms: a user whose connections run scripts, but who may use no key of the namespace, is no worker's.
func TestOtherPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.limitedUser("resetkeys", "~other:*", "-zadd")
	if found := bad(w.look()); len(found) > 0 {
		t.Errorf("beside another program:\n%s", text(found))
	}
}

// TestNoTime: a check that begins after the end of the time has seen nothing, and does not say ok.
func TestNoTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.options.Budget = time.Nanosecond
	for _, f := range w.look() {
		if f.State != checks.NotAllSeen || f.Seen != 0 {
			t.Errorf("%s", text([]checks.Finding{f}))
		}
	}
}

// TestMayNothing: to a user who may do next to nothing every check says so, and names a rule.
func TestMayNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, durable...)
	w := newWorld(t, server, nil)
	for rules, least := range map[string]int{"~* +ping +select +info": 40, "+@all resetkeys ~other:*": 25, "~* +@all -eval -evalsha -smembers -get": 15} {
		server.Do(t, "ACL", append([]any{"SETUSER", "nobody", "reset", "on", ">secret", "&*"}, anys(strings.Fields(rules))...)...)
		w.as(strings.Replace(w.uri, "redis://", "redis://nobody:secret@", 1))
		blind := 0
		for _, f := range bad(w.look()) {
			if blind++; f.State != checks.CouldNotLook || !strings.HasPrefix(f.Rule, "+") && f.Rule != "~"+w.ns+"*" {
				t.Errorf("with %s: %s %q", rules, text([]checks.Finding{f}), f.Rule)
			}
		}
		if blind < least {
			t.Errorf("with %s only %d checks could not look", rules, blind)
		}
	}
}

// TestDoctorsUser: the user that docs/redis.md shows for doctor looks at everything.
func TestDoctorsUser(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, durable...)
	w := newWorld(t, server, nil)
	rules := redistest.ACL(t, "doctor")
	server.Do(t, "ACL", append([]any{"SETUSER"}, anys(append(rules, "~"+w.ns+"*"))...)...)
	w.as(strings.Replace(w.uri, "redis://", "redis://doctor:"+redistest.ACLPassword+"@", 1))
	w.resque()
	if found := bad(w.look()); len(found) > 0 {
		t.Errorf("as the user of the page:\n%s", text(found))
	}
}

func anys(texts []string) (all []any) {
	for _, t := range texts {
		all = append(all, t)
	}
	return all
}

// TestAccepted: what is accepted is found still, and says so.
func TestAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.do("SADD", "~workers", "h:1")
	w.options.Accept = []int{24}
	if found := bad(w.look()); len(found) != 1 || found[0].State != checks.Accepted || found[0].Check.Number != 24 {
		t.Errorf("found\n%s", text(found))
	}
}

// TestReadOnly: doctor that may not write sends no command that writes, and mends nothing.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, durable...)
	w := newWorld(t, server, nil)
	w.resque()
	w.do("SADD", "~workers", "h:1")
	server.Do(t, "ACL", "SETUSER", "reader", "on", ">secret", "~*", "&*", "+@all", "-@write")
	w.as(strings.Replace(w.uri, "redis://", "redis://reader:secret@", 1))
	w.options.ReadOnly = true
	found := bad(w.look())
	if len(found) != 2 || found[0].Check.Number != 17 || found[0].State != checks.CouldNotLook || found[1].Check.Number != 24 {
		t.Fatalf("found\n%s", text(found))
	}
	if changed, err := checks.Fix(t.Context(), w.inspect(), found[1]); changed || !errors.Is(err, checks.ErrReadOnly) {
		t.Errorf("mended: %v, %v", changed, err)
	}
	w.as(w.uri)
	w.options.ReadOnly = false
	if changed, err := checks.Fix(t.Context(), w.inspect(), w.look(17)[0]); changed || !errors.Is(err, checks.ErrNoFix) {
		t.Errorf("what is ok was mended: %v, %v", changed, err)
	}
}

// TestMany: of thousands of findings the first are returned with how many more there are, and one fix mends one.
func TestMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	for n := range 2000 {
		w.do("SADD", "~workers", fmt.Sprint("job", n, ":1"))
	}
	found := w.look(24)
	if len(found) != 20 || found[19].More != 1980 || found[18].More != 0 {
		t.Errorf("%d findings and %d more", len(found), found[len(found)-1].More)
	}
	w.options.Most = 3000
	if found := w.look(24); len(found) != 2000 || found[1999].More != 0 {
		t.Errorf("%d findings", len(found))
	}
}

// TestFixesAreRecorded: the record of changes says who mended what.
func TestFixesAreRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.do("SADD", "~workers", "h:1")
	in := w.inspect().By("ops@host-1", "Ruby workers end")
	if changed, err := checks.Fix(t.Context(), in, w.look(24)[0]); !changed || err != nil {
		t.Fatalf("%v, %v", changed, err)
	}
	entries, err := in.Audit(t.Context(), 10)
	if err != nil || len(entries) != 1 || entries[0].Who != "ops@host-1" || entries[0].What != "doctor --fix 24" || !strings.Contains(entries[0].On, `"h:1"`) {
		t.Errorf("recorded %+v, %v", entries, err)
	}
	w.do("SADD", "~workers", "h:1")
	w.do("DEL", "~go:audit")
	w.do("SET", "~go:audit", "of another type")
	if changed, err := checks.Fix(t.Context(), in, w.look(24)[0]); changed || err == nil {
		t.Errorf("where nothing can be recorded: %v, %v", changed, err)
	}
	if left := w.look(24); left[0].State != checks.Found {
		t.Errorf("it was mended:\n%s", text(left))
	}
}

// TestShards: each shard is looked at, one that does not answer hides no other, and a fix is made where the finding is.
func TestShards(t *testing.T) {
	t.Parallel()
	a, b, away := redistest.Start(t, durable...), redistest.Start(t, durable...), redistest.Start(t)
	uri := func(s *redistest.Server) string { return "redis://" + s.Rewriting(t, sound) }
	shards := goworker.NewShards(goworker.WorkerSettings{Logger: daemontest.Quiet, ConnectTimeout: time.Second},
		goworker.Shard{URI: uri(a), Queues: []string{"a"}}, goworker.Shard{URI: uri(away), Queues: []string{"x"}}, goworker.Shard{URI: uri(b), Queues: []string{"b"}})
	defer shards.Close()
	away.Kill()
	b.Do(t, "SADD", "resque:workers", "h:1")
	in := shards.Client().Inspect()
	var failed []error
	names := make(map[string]int)
	for f, err := range checks.Run(t.Context(), in, checks.Options{Budget: time.Minute, Now: steady}) {
		if err != nil {
			failed = append(failed, err)
			continue
		}
		names[f.Shard]++
		if f.State == checks.Found {
			if changed, err := checks.Fix(t.Context(), in, f); f.Check.Number != 24 || !changed || err != nil {
				t.Errorf("%s: %v, %v", text([]checks.Finding{f}), changed, err)
			}
		}
	}
	if len(failed) != 1 || len(names) != 2 || b.Int(t, "SCARD", "resque:workers") != 0 {
		t.Errorf("of %v, errors %v; %d workers", names, failed, b.Int(t, "SCARD", "resque:workers"))
	}
}
