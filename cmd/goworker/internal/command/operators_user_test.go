package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control/profile"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// refusal is how the command says that Redis refuses something to its user.
var refusal = regexp.MustCompile(`NOPERM|lacks a permission|may not run|has no permission`)

// stage is a server on which scenes are played as the user operator.
type stage struct {
	*testing.T
	*redistest.Server
	ran      *sync.Map // the command lines
	database string
}

// does runs a command as the operator, and returns its code, with a word if Redis has refused something, and what it printed.
func (s *stage) does(stdin string, args ...string) (outcome, out string) {
	s.Helper()
	s.ran.Store(strings.Join(args, " ")+" ", true)
	uri := "redis://operator:" + redistest.ACLPassword + "@" + s.Addr + "/" + s.database
	flags := slices.Index(args, "--")
	if flags < 0 {
		flags = len(args)
	}
	code, out, errs := typing(s.T, stdin, slices.Insert(slices.Clone(args), flags, "-u="+uri, "--timeout=1m", "--budget=1m")...)
	if outcome = fmt.Sprint(code); refusal.MatchString(out + errs) {
		outcome += " refused"
	}
	return outcome, out
}

// scene is something that operators do: it begins with an empty Redis, and returns what came of it.
type scene struct {
	name string
	play func(s *stage) string
}

// scenes are all that the user operator is for.
func scenes(t *testing.T) (all []scene) {
	for _, tt := range changedVerbs(t) {
		if tt.code == exitUsage || tt.code == exitDeadline {
			continue
		}
		all = append(all, scene{tt.name, func(s *stage) string {
			with := func(command []any) (string, []any) {
				words := slices.Clone(command)
				for n, word := range words {
					if text, is := word.(string); is {
						words[n] = strings.Replace(text, "*", "resque:", 1)
					}
				}
				return words[0].(string), words[1:]
			}
			for _, command := range tt.there {
				name, args := with(command)
				s.Do(s.T, name, args...)
			}
			args := words(tt.args)
			if tt.asks {
				args = append(args, "--yes")
			}
			outcome, _ := s.does(tt.stdin, args...)
			if len(tt.after) > 0 {
				name, args := with(tt.after)
				outcome += fmt.Sprintf(" %q", s.Do(s.T, name, args...))
			}
			return outcome
		}})
	}
	return append(all, scene{"operations", operate}, scene{"priorities", prioritize}, scene{"a job of a client", held}, scene{"a lock that is old", relock}, scene{"workflows", flow}, scene{"drain", drain},
		scene{"reading", look}, scene{"exporter", scrape}, scene{"remote control", command})
}

// plays plays command lines one after the other, and returns all outcomes.
func (s *stage) plays(lines ...string) (outcomes string) {
	s.Helper()
	for _, line := range lines {
		outcome, _ := s.does("", words(line)...)
		outcomes += outcome + " "
	}
	return outcomes
}

// prioritize pushes a job between two others, and one into another database.
func prioritize(s *stage) string {
	outcomes := s.plays("enqueue Urgent -q mail --id u --priority urgent", "enqueue Normal -q mail", "enqueue High -q mail --id h --priority high")
	elsewhere := *s
	elsewhere.database = "1"
	return outcomes + elsewhere.plays("enqueue A -q mail") + strings.Join(s.List(s.T, "LRANGE", "resque:queue:mail", 0, -1), " ")
}

// held cancels a job that a client holds over HTTP.
func held(s *stage) string {
	s.Do(s.T, "SADD", "resque:queues", "mail")
	s.Do(s.T, "HSET", "resque:go:leased", "4:maila", jobA)
	s.Do(s.T, "ZADD", "resque:go:leases", 9999999999999, "4:maila")
	return s.plays("control cancel a --yes") + fmt.Sprint(s.Int(s.T, "ZCARD", "resque:go:cancelled"))
}

// relock has the job of a lock looked for, that was seen long ago, among other jobs.
func relock(s *stage) string {
	outcomes := s.plays("enqueue A -q mail --unique-key k")
	for _, key := range s.List(s.T, "KEYS", "resque:go:unique:*") {
		lock := s.List(s.T, "HGETALL", key)
		held := strings.SplitN(lock[1], " ", 4)
		s.Do(s.T, "HSET", key, lock[0], held[0]+" "+held[1]+" 0 "+held[3])
	}
	s.Do(s.T, "ZADD", "resque:go:processes", 9999999999999, "another")
	s.Do(s.T, "HSET", "resque:go:inflight:another", 1, strings.Repeat("x", 999))
	return outcomes + s.plays("enqueue A -q mail --unique-key k")
}

// flow looks at workflows of which a step has failed, takes it back, and cancels one.
func flow(s *stage) string {
	d := goworker.New(goworker.WorkerSettings{URI: "redis://" + s.Addr, QueuesString: "steps", Concurrency: 1, Logger: slog.New(slog.DiscardHandler), DisableSignals: true})
	defer d.Close()
	d.Register("Bad", func() error { return os.ErrInvalid })
	var ids []string
	for _, queue := range []string{"steps", "later"} {
		started, err := d.Client().Start(s.Context(), goworker.Chain(goworker.Step(goworker.NewJob(queue, "Bad")), goworker.Step(goworker.NewJob(queue, "Good"))))
		if err != nil {
			s.Fatal(err)
		}
		ids = append(ids, started.ID)
	}
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	redistest.Eventually(s.T, time.Minute, "the step has failed", func() bool { return s.Int(s.T, "LLEN", "resque:failed") == 1 })
	cancel()
	if err := <-ended; err != nil {
		s.Fatal(err)
	}
	return s.plays("jobs show "+ids[0], "jobs find class:Bad", "failed retry --all --yes", "jobs cancel "+ids[1]+" --yes", "jobs show "+ids[1], "jobs show "+ids[0]) + fmt.Sprint(s.Int(s.T, "LLEN", "resque:queue:steps"))
}

// drain takes a fleet back to Ruby in which a process has died, by a step of a workflow that kills its processes.
func drain(s *stage) string {
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: "redis://" + s.Addr})
	if err != nil {
		s.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Start(s.Context(), goworker.Chain(goworker.Step(goworker.NewJob("mail", "Poison")), goworker.Step(goworker.NewJob("mail", "Never")))); err != nil {
		s.Fatal(err)
	}
	step := s.Text(s.T, "LPOP", "resque:queue:mail")
	s.Do(s.T, "ZADD", "resque:go:processes", "-5", "h:1:be04")
	s.Do(s.T, "HSET", "resque:go:inflight:h:1:be04", "entered", "mark", 1, `4:mail{"class":"Lost","args":[]}`, 7, resque.JobPrefix("mail")+step)
	s.Do(s.T, "HSET", "resque:go:process:h:1:be04", "host", "h", "pid", 1, "queues", "mail", "concurrency", 1, "id_head", "h.go:1-", "id_queues", "mail", "handed", "7 *7")
	s.Do(s.T, "SET", "resque:worker:h.go:1-0:mail", `{"queue":"mail","run_at":"2026-11-21T12:00:00Z","payload":`+step+`}`)
	s.Do(s.T, "HSET", "resque:go:recovered", resque.Digest([]byte(step)), fmt.Sprintf("9 %d h:0:aaaa 9 0", time.Now().UnixMilli()))
	s.Do(s.T, "ZADD", "resque:go:schedule", 9999999999999, `4:mail{"class":"Later","args":[],"attempt":2}`)
	s.Do(s.T, "HSET", "resque:go:unique:x", "x", "y")
	return s.plays("drain-to-ruby --yes") + fmt.Sprint(s.List(s.T, "LRANGE", "resque:queue:mail", 0, -1), s.Int(s.T, "LLEN", "resque:failed"), s.Int(s.T, "GET", "resque:stat:failed"))
}

// operate removes jobs, and takes that back.
func operate(s *stage) (outcomes string) {
	s.Do(s.T, "SADD", "resque:queues", "mail")
	s.Do(s.T, "RPUSH", "resque:queue:mail", jobA, jobB, jobB)
	newest := func() string {
		_, out := s.does("", "operations", "ls", "--json")
		var op struct{ Operation string }
		line, _, _ := strings.Cut(out, "\n")
		_ = json.Unmarshal([]byte(line), &op)
		return op.Operation
	}
	for _, args := range []string{
		"jobs rm class:B --yes", "operations show ID", "operations stop ID", "operations resume ID --yes", "bin ls", "operations undo ID --yes", "queues clear mail --yes", "bin empty --yes", "audit",
	} {
		words := strings.Fields(args)
		if i := slices.Index(words, "ID"); i >= 0 {
			words[i] = newest()
		}
		outcome, _ := s.does("", words...)
		outcomes += outcome + " "
	}
	return fmt.Sprint(outcomes, s.Int(s.T, "LLEN", "resque:queue:mail"))
}

// look is all reading verbs, where a fleet works.
func look(s *stage) (outcomes string) {
	fill(s.T, s.Server)
	for _, r := range readers {
		if r.args[0] != "doctor" { // it has a user of its own
			outcome, _ := s.does("", r.args...)
			outcomes += outcome + " "
		}
	}
	return outcomes
}

// scrape is what Prometheus and an autoscaler ask of an exporter.
func scrape(s *stage) (outcomes string) {
	fill(s.T, s.Server)
	s.ran.Store("exporter ", true)
	ctx, cancel := context.WithCancel(s.Context())
	var o, e output
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{"exporter", "--listen=127.0.0.1:0", "-u=redis://operator:" + redistest.ACLPassword + "@" + s.Addr}, none, &o, &e)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	var base string
	redistest.Eventually(s.T, time.Minute, "the exporter listens", func() bool {
		base = regexp.MustCompile(`http://[^/]+`).FindString(o.String() + e.String())
		return base != ""
	})
	s.Do(s.T, "ACL", "LOG", "RESET")
	for _, path := range []string{"/metrics", "/scale?queue=mail"} {
		res, err := http.Get(base + path)
		if err != nil {
			s.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			s.Fatal(err)
		}
		outcomes += fmt.Sprint(res.StatusCode, " ", strings.Count(string(body), "# TYPE"), " ")
	}
	http.DefaultClient.CloseIdleConnections()
	for _, entry := range s.Do(s.T, "ACL", "LOG", "100").([]any) {
		if said := fmt.Sprintf("%s", entry); !strings.Contains(said, "object ping") { // by which a connection is tried: a refusal is an answer
			outcomes += "refused " + said
		}
	}
	return outcomes
}

// command is what processes are asked and made to do, at each level.
func command(s *stage) (outcomes string) {
	dir := s.TempDir()
	key, prof := filepath.Join(dir, "key"), filepath.Join(dir, "prof")
	if err := os.WriteFile(key, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		s.Fatal(err)
	}
	d := goworker.New(goworker.WorkerSettings{
		URI: "redis://" + s.Addr, QueuesString: "work", Concurrency: 2, AllowNoHandlers: true, Name: "mailer", Control: goworker.ControlFull, ControlKeyFile: key,
		Logger: slog.New(slog.DiscardHandler), DisableSignals: true,
	})
	defer d.Close()
	d.AddVerb(profile.Verb())
	d.AddVerb(goworker.Verb{Name: "flush", Do: func(context.Context, json.RawMessage) (any, error) { return "flushed", nil }})
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	redistest.Eventually(s.T, time.Minute, "the process is ready", func() bool { return d.Health().Ready })
	for _, args := range []string{
		"inspect ping", "inspect stats", "inspect active --args", "inspect reserved", "inspect registered", "inspect conf", "inspect queues", "inspect report", "inspect verbs", "inspect stacks mailer", "inspect call flush",
		"control pause --self", "control resume --self", "control log debug --for=1m", "control concurrency 1", "control concurrency 3", "control autoscale 1..2", "control autoscale off",
		"control queues add mail", "control queues rm mail", "control queues set work", "control profile heap --to=mailer -o " + prof, "control call flush --yes", "control shutdown --yes",
	} {
		words := strings.Fields(args)
		if words[0] == "control" || strings.Contains(args, "--args") || strings.Contains(args, "call") {
			words = append(words, "--key-file="+key)
		}
		outcome, _ := s.does("", words...)
		outcomes += outcome + " "
	}
	return outcomes
}

// others are commands that have a user of their own, or need no Redis, or a Redis of their own.
var others = []string{"bench", "config", "dashboard", "dev", "doctor", "events", "import", "man", "serve", "sizing", "token", "version", "webhook run"}

// spared are the rules of the user operator that the page says one can do without.
var spared = []string{"&resque:go:notice", "+publish", "+persist", "+acl|whoami"}

// The user operator of docs/redis.md may run every verb of control and of inspect, all that changes and all that reads. Without any one of
// the rules something fails, but for those that the page says one can do without.
func TestOperatorsUsers(t *testing.T) {
	t.Parallel()
	rules, plays := redistest.ACL(t, "operator"), scenes(t)
	ran := new(sync.Map)
	as := func(t *testing.T, s *redistest.Server, without ...string) *stage {
		t.Helper()
		args := []any{"SETUSER", "operator", "reset"}
		for _, rule := range rules[1:] {
			if !slices.Contains(without, rule) {
				args = append(args, rule)
			}
		}
		s.Do(t, "ACL", args...)
		return &stage{t, s, ran, ""}
	}
	play := func(s *stage, c scene) string {
		s.Helper()
		s.Do(s.T, "FLUSHALL")
		return c.play(s)
	}

	server := redistest.Start(t)
	sent := make(map[string][]int) // the scenes in which a command was sent, by the operator or not
	wanted := make([]string, len(plays))
	all := as(t, server)
	for n, c := range plays {
		server.Do(t, "CONFIG", "RESETSTAT")
		wanted[n] = play(all, c)
		for _, m := range regexp.MustCompile(`(?m)^cmdstat_([^:]+):`).FindAllStringSubmatch(server.Text(t, "INFO", "commandstats"), -1) {
			sent[m[1]] = append(sent[m[1]], n)
		}
		if again := play(all, c); again != wanted[n] {
			t.Errorf("%s: what comes of it differs by itself: %s, and %s", c.name, wanted[n], again)
		}
		if strings.Contains(wanted[n], "refused") {
			t.Errorf("%s: Redis refuses something to the operator: %s; ACL LOG has %s", c.name, wanted[n], server.Do(t, "ACL", "LOG", "1"))
		}
	}
	every(t, ran)

	for _, rule := range rules[1:] {
		if !strings.ContainsAny(rule[:1], "+~&") || slices.Contains(spared, rule) {
			continue
		}
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			s := as(t, redistest.Start(t), rule)
			order := slices.Clone(sent[rule[1:]]) // these first: one of them is likely to fail
			for n := range plays {
				if !slices.Contains(order, n) {
					order = append(order, n)
				}
			}
			if !slices.ContainsFunc(order, func(n int) bool { return play(s, plays[n]) != wanted[n] }) {
				t.Errorf("nothing fails without %s: the operator does not need it", rule)
			}
		})
	}
	t.Run("spared", func(t *testing.T) {
		t.Parallel()
		s := as(t, redistest.Start(t), spared...)
		for n, c := range plays {
			if c.name == "remote control" {
				continue // each command would wait for the next renewal
			}
			if is := play(s, c); is != wanted[n] {
				t.Errorf("%s needs what the page says one can do without: %s, and not %s", c.name, is, wanted[n])
			}
		}
		s.Do(t, "FLUSHALL")
		d := goworker.New(goworker.WorkerSettings{URI: "redis://" + s.Addr, QueuesString: "work", AllowNoHandlers: true, Logger: slog.New(slog.DiscardHandler), DisableSignals: true})
		defer d.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		defer func() {
			cancel()
			<-ended
		}()
		redistest.Eventually(t, time.Minute, "the process is ready", func() bool { return d.Health().Ready })
		if is := s.plays("inspect ping"); is != "0 " {
			t.Errorf("inspect ping ends with %s", is)
		}
	})
}

// A search that Redis refuses ends with the refusal, and does not ask again until its budget is over.
func TestRefusedSearchEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	fill(t, s)
	s.Do(t, "ACL", "SETUSER", "operator", "on", ">"+redistest.ACLPassword, "~*", "&*", "+@all", "-zscan")
	code, _, errs := run(t, "jobs", "find", "class:S*", "-u=redis://operator:"+redistest.ACLPassword+"@"+s.Addr, "--timeout=1m", "--budget=10s")
	if code != exitFailed || strings.Count(errs, "NOPERM") != 1 {
		t.Errorf("it ends with %d after %d refusals:\n%.500s", code, strings.Count(errs, "NOPERM"), errs)
	}
}

// every fails for a verb that no scene has run.
func every(t *testing.T, ran *sync.Map) {
	t.Helper()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		path := strings.TrimPrefix(c.CommandPath(), "goworker ")
		if c.HasSubCommands() || slices.ContainsFunc(others, func(o string) bool { return strings.HasPrefix(path+" ", o+" ") }) {
			return
		}
		found := false
		ran.Range(func(line, _ any) bool {
			found = strings.HasPrefix(line.(string), path+" ")
			return !found
		})
		if !found {
			t.Errorf("no scene has run goworker %s", path)
		}
	}
	p := &program{lookup: none}
	walk(p.root())
}
