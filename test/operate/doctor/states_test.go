package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// TestCleanFleet runs a fleet in which nothing is wrong, with a job of each kind, and doctor says ok to all.
func TestCleanFleet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	d := w.fleet()
	gate := make(chan struct{})
	d.Register("Hold", func() { <-gate })
	d.Register("Mail", func(string) {}, goworker.MaxRunning(2, goworker.PerKey(goworker.ByArg(0))))
	d.Register("Report", func(string) {}, goworker.Unique())
	d.Register("Bad", func() error { return errors.New("it is broken") })
	d.LimitQueue("mail")
	if err := d.Schedule("sweep", goworker.Recurring{Every: time.Hour, Class: "Hold", Queue: "low"}); err != nil {
		t.Fatal(err)
	}
	w.run(d)
	defer close(gate)
	w.resque()

	ctx := t.Context()
	for _, item := range []struct {
		job  *goworker.Job
		opts []goworker.EnqueueOption
	}{
		{goworker.NewJob("mail", "Mail", "acme"), nil},
		{goworker.NewJob("mail", "Mail", "acme"), nil},
		{goworker.NewJob("low", "Report", "October"), nil},
		{goworker.NewJob("low", "Report", "November"), []goworker.EnqueueOption{goworker.ProcessIn(time.Hour)}},
		{goworker.NewJob("low", "Bad"), nil},
		{goworker.NewJob("low", "Hold"), nil},
	} {
		if _, err := d.Client().Enqueue(ctx, item.job, item.opts...); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Eventually(t, daemontest.Soon, "the jobs are done", func() bool {
		return w.server.Text(t, "GET", w.ns+"stat:processed") == "4" && w.server.Int(t, "LLEN", w.ns+"failed") == 2
	})
	all := w.look()
	if found := bad(all); len(found) > 0 {
		t.Errorf("in a clean fleet:\n%s", text(found))
	}
	if len(all) != 54 {
		t.Errorf("it is said of %d checks", len(all))
	}
}

// TestOnlyRuby: of a Redis that goworker has never seen, doctor says the same.
func TestOnlyRuby(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.resque()
	if found := bad(w.look()); len(found) > 0 {
		t.Errorf("where only Ruby works:\n%s", text(found))
	}
}

// fleet makes a daemon of the world's namespace.
func (w *world) fleet() *goworker.Daemon {
	w.t.Helper()
	return goworker.New(goworker.WorkerSettings{
		URI: w.server.URI(), Namespace: w.ns, QueuesString: "mail,low", Concurrency: 4, PollInterval: time.Second, Logger: daemontest.Quiet,
	})
}

// run runs a daemon to the test's end.
func (w *world) run(d *goworker.Daemon) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the daemon ended with %v", err)
		}
		d.Close()
	})
	redistest.Eventually(w.t, daemontest.Soon, "the daemon has a lease", func() bool { return w.server.Int(w.t, "ZCARD", w.ns+"go:processes") == 1 })
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

// TestNotAllSeen: among a million keys of other programs a short look does not say ok of what no list names.
func TestNotAllSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, append([]string{"--enable-debug-command", "yes"}, durable...)...), nil)
	w.resque()
	w.do("DEBUG", "POPULATE", 1_000_000, "other", 10)
	w.options.Budget = 20 * time.Millisecond
	all := w.look()
	var unseen []int
	for _, f := range all {
		switch f.State {
		case checks.NotAllSeen:
			unseen = append(unseen, f.Check.Number)
			if f.Seen >= 1 || !strings.Contains(f.Sentence, "% was seen") || !strings.Contains(f.Remedy.Words, "--budget ") {
				t.Errorf("%s", text([]checks.Finding{f}))
			}
		case checks.OK:
		default:
			t.Errorf("%s", text([]checks.Finding{f}))
		}
	}
	if len(all) != 54 || !slices.Contains(unseen, 23) || !slices.Contains(unseen, 41) {
		t.Errorf("of %d checks not all was seen by %v", len(all), unseen)
	}
	w.options.Budget = time.Minute
	if found := bad(w.look()); len(found) > 0 {
		t.Errorf("with time enough:\n%s", text(found))
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
