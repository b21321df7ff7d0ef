package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
)

// typing runs a command whose standard input is a text.
func typing(t *testing.T, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e output
	p := &program{lookup: none}
	root := p.root()
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&o)
	root.SetErr(&e)
	root.SetArgs(p.arranged(root, patient(args)))
	err := root.ExecuteContext(t.Context())
	if err != nil {
		fmt.Fprintln(&e, "goworker:", view.Lines(err.Error()))
	}
	return codeOf(t.Context(), err), o.String(), e.String()
}

// changed is a changing verb, what is there before it, and what it does.
type changed struct {
	name  string
	there [][]any // commands; * is the namespace
	args  string  // words with blanks between; one may stand in '…'
	stdin string

	code  int
	out   string // what it prints contains this
	errs  string
	asks  bool  // it wants to be confirmed
	after []any // a command, and
	is    any   // its answer, a text or a list
}

var word = regexp.MustCompile(`'[^']*'|\S+`)

// words are the words of a command line.
func words(line string) (all []string) {
	for _, w := range word.FindAllString(line, -1) {
		all = append(all, strings.Trim(w, "'"))
	}
	return all
}

// lockOf is what the lock of a unique job says.
func lockOf(id, payload string) string {
	return string(resque.HoldDone) + " 1800000000000 1800000000000  " + resque.JobPrefix("mail") + payload
}

const (
	jobA = `{"class":"A","args":[1],"id":"a"}`
	jobB = `{"class":"B","args":[2]}`
)

func changedVerbs(t *testing.T) []changed {
	t.Helper()
	queue := []any{"RPUSH", "*queue:mail", jobA, jobB}
	queues := []any{"SADD", "*queues", "mail", "low"}
	mail := [][]any{queues, queue}
	worker := func(id string, beat time.Time) [][]any {
		return [][]any{
			{"SADD", "*workers", id}, {"HSET", "*workers:heartbeat", id, resque.HeartbeatAt(beat)},
			{"SET", "*worker:" + id, `{"queue":"mail","run_at":"2026-11-21T12:00:00Z","payload":` + jobB + `}`},
		}
	}
	dead, alive := time.Now().Add(-time.Hour), time.Now().Add(time.Hour) // on a busy machine the last verbs come minutes later
	ruby := append(worker("h:1:mail", alive), []any{"SADD", "*workers", "h.go:2-0:[m]ail"}, []any{"SADD", "*workers", "h:3:other"})
	old := [][]any{{"ZADD", "*go:processes", 9999999999999, "h:1:be04"}, {"HSET", "*go:process:h:1:be04", "host", "h", "version", "v0.9.0"}}
	limits := [][]any{{"HSET", "*go:limits", "c:Mail", "3", "r:Mail", "100000.000 1", "c:Other", "1"}}
	lost, held := strings.Repeat("1", 32), strings.Repeat("2", 32)
	locks := [][]any{{"HSET", "*go:unique:" + lost, "x", lockOf("x", `{"id":"x"}`)}, {"HSET", "*go:unique:" + held, "a", lockOf("a", jobA)}, queue}
	schedules := [][]any{{"HSET", "*persistent_schedules", "nightly", `{"class":"Report","every":"1h","queue":"low","args":["x"]}`}, {"HSET", "*go:ticks", "in code", "1800000000000 - x"}}
	file := filepath.Join(t.TempDir(), "schedule.yml")
	if err := os.WriteFile(file, []byte("nightly:\n  every: 2h\n  class: Report\n  queue: low\n  args: x\nadded:\n  cron: '0 3 * * *'\n  class: A\n  queue: low\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	failure := func(class string) string {
		return `{"failed_at":"2026/11/21 12:00:00 UTC","payload":{"class":"` + class + `","args":[]},"exception":"E","error":"e","backtrace":[],"worker":"w","queue":"mail"}`
	}
	const later = `{"class":"Later","args":[],"id":"later"}`
	delayed := [][]any{queues, {"RPUSH", "*queue:mail", jobB}, {"ZADD", "*go:schedule", 9999999999999, resque.JobPrefix("mail") + later}}
	running := [][]any{
		queues, {"RPUSH", "*queue:mail", jobB}, {"ZADD", "*go:processes", 9999999999999, "h:1:be04"}, {"HSET", "*go:inflight:h:1:be04", "entered", "mark", 7, resque.JobPrefix("mail") + jobA},
		{"HSET", "*go:process:h:1:be04", "host", "h", "pid", 1, "queues", "mail", "concurrency", 1, "id_head", "h.go:1-", "id_queues", "mail"},
		{"SET", "*worker:h.go:1-0:mail", `{"queue":"mail","run_at":"2026-11-21T12:00:00Z","payload":` + jobA + `}`},
	}
	failed := [][]any{{"RPUSH", "*failed", failure("A"), failure("B")}}
	return []changed{
		{name: "pause", there: mail, args: "queues pause mail low", out: "queue mail is paused\nqueue low is paused\n", after: []any{"SCARD", "*go:paused"}, is: "2"},
		{name: "pause what nothing knows", there: mail, args: "queues pause maal", code: exitPartly, errs: "nothing knows a queue of this name", after: []any{"SMEMBERS", "*go:paused"}, is: []string{"maal"}},
		{name: "pause two that nothing knows", there: mail, args: "queues pause maal loow", code: exitPartly, errs: "nothing knows a queue of this name", after: []any{"SCARD", "*go:paused"}, is: "2"},
		{name: "resume", there: [][]any{queues, {"SADD", "*go:paused", "mail"}}, args: "queues resume mail", out: "queue mail is not paused", after: []any{"EXISTS", "*go:paused"}, is: "0"},
		{name: "resume what nothing knows", there: mail, args: "queues resume maal", code: exitNothing, errs: "nothing knows a queue"},
		{name: "resume several", there: mail, args: "queues resume maal mail", code: exitPartly, out: "queue mail is not paused", errs: "maal"},

		{name: "pause for a time", there: mail, args: "queues pause mail --for 1h", out: "queue mail is paused for 1h", after: []any{"HKEYS", "*go:rules"}, is: []string{"pause:mail"}},
		{name: "control a queue", there: mail, args: "control pause mail", out: "queue mail is paused", after: []any{"SCARD", "*go:paused"}, is: "1"},
		{name: "end the pause of a queue", there: [][]any{queues, {"SADD", "*go:paused", "mail"}}, args: "control resume mail", out: "queue mail is not paused", after: []any{"EXISTS", "*go:paused"}, is: "0"},
		{name: "pause a class", there: mail, args: "control pause --class A --for 1h", out: "class A is paused for 1h", after: []any{"HKEYS", "*go:rules"}, is: []string{"class:A"}},
		{name: "resume a class that runs", there: mail, args: "control resume --class A", code: exitNothing, errs: "no operator has set such a rule"},
		{name: "pause a class and a queue", there: mail, args: "control pause --class A mail", code: exitUsage, errs: "takes one of"},
		{name: "hold a limit", there: limits, args: "control limit c:Mail 7", out: "the limit c:Mail is held to 7 until reset", after: []any{"HGET", "*go:limits", "c:Mail"}, is: "7"},
		{name: "hold a class", there: mail, args: "control limit --class A 5/s --by 0.account", out: "the class A is held to 5/s until reset", after: []any{"HKEYS", "*go:rules"}, is: []string{"limit:r:rule%2FA%2Fkey"}},
		{name: "hold a limit by a key", there: limits, args: "control limit c:Mail 7 --by 0", code: exitUsage, errs: "--by needs --class"},
		{name: "reset a held limit", there: limits, args: "control reset c:Mail", out: "the limit c:Mail is as each program has it", after: []any{"HEXISTS", "*go:limits", "c:Mail"}, is: "0"},
		{name: "reset a class without rules", there: mail, args: "control reset --class A", code: exitNothing, errs: "no operator has set such a rule"},
		{name: "set a timeout", there: mail, args: "control timeout A 90s", out: "the timeout of class A is 90s until reset", after: []any{"HKEYS", "*go:rules"}, is: []string{"timeout:A"}},
		{name: "set retries", there: mail, args: "control retries A 3 --for 1m", out: "the retries of class A are 3 for 1m", after: []any{"HKEYS", "*go:rules"}, is: []string{"retries:A"}},

		{name: "hold a class that Ruby works too", there: ruby, args: "control limit --class A 3", out: "the class A is held to 3", errs: "worker h:1:mail will not obey", after: []any{"HLEN", "*go:rules"}, is: "1"},
		{name: "hold a class that an older release works too", there: old, args: "control pause --class A", code: exitPartly, out: "class A is paused", errs: "process h:1:be04 (v0.9.0) will not obey", after: []any{"HLEN", "*go:rules"}, is: "1"},
		{name: "retries of a class that an older release works too", there: old, args: "control retries A 3", code: exitPartly, out: "the retries of class A are 3", errs: "(v0.9.0)"},
		{name: "rules", there: [][]any{{"SADD", "*go:paused", "mail"}, {"HSET", "*go:rules", "limit:r:rule%2FA%2Fkey", `{"value":"200000.000 1","class":"A","key":"0.account","by":"ops@web","why":"slow","at":1790000000000,"until":1900000000000}`, "timeout:B", `{"value":"90000"}`, "retries:C", "x"}},
			args: "control rules", out: "limit class A  5/s by 0.account  ops@web  slow"},

		{name: "cancel", there: mail, args: "jobs cancel a", asks: true, out: "job a is cancelled", after: []any{"ZCARD", "*go:cancelled"}, is: "1"},
		{name: "cancel what is nowhere", there: mail, args: "jobs cancel zz", asks: true, code: exitNothing, errs: "no such job is known"},
		{name: "cancel by force", there: mail, args: "jobs cancel zz --force", asks: true, out: "job zz is cancelled", after: []any{"ZCARD", "*go:cancelled"}, is: "1"},
		{name: "cancel by a search", there: mail, args: "jobs cancel class:A", asks: true, out: "1 job cancelled", after: []any{"ZCARD", "*go:cancelled"}, is: "1"},
		{name: "cancel what hangs", there: running, args: "jobs cancel state:running for:>5m", asks: true, code: exitPartly, out: "1 job cancelled", errs: "of process h:1:be04 goes on", after: []any{"ZRANGE", "*go:cancelled", 0, -1}, is: []string{resque.CancelledID("a")}},
		{name: "cancel by control", there: mail, args: "control cancel a", asks: true, out: "job a is cancelled", after: []any{"ZCARD", "*go:cancelled"}, is: "1"},
		{name: "cancel what has no id", there: mail, args: "control cancel queue:mail", asks: true, out: "2 jobs cancelled", after: []any{"LRANGE", "*queue:mail", 0, -1}, is: []string{jobA}},
		{name: "cancel by id what goes on", there: running, args: "control cancel a", asks: true, code: exitPartly, out: "job a is cancelled", errs: "1 job cancelled and still running"},
		{name: "cancel what waits for long", there: mail, args: "jobs cancel for:>5m", code: exitUsage, errs: "or state:running and for:>5m for those that hang"},
		{name: "run jobs", there: delayed, args: "jobs run later", asks: true, out: "1 job put into its queue", after: []any{"LRANGE", "*queue:mail", 0, -1}, is: []string{jobB, later}},
		{name: "run jobs by a search", there: delayed, args: "jobs run class:Later", asks: true, out: "1 job put into its queue", after: []any{"LRANGE", "*queue:mail", 0, -1}, is: []string{jobB, later}},
		{name: "run jobs at the head", there: delayed, args: "delayed run class:Later --head", asks: true, out: "1 job put into its queue", after: []any{"LRANGE", "*queue:mail", 0, -1}, is: []string{later, jobB}},
		{name: "remove delayed jobs", there: delayed, args: "delayed rm later", asks: true, out: "1 job removed; to take it back: goworker -u redis://", after: []any{"ZCARD", "*go:schedule"}, is: "0"},
		{name: "move jobs", there: mail, args: "jobs move a --to low", asks: true, out: "1 job moved", after: []any{"LRANGE", "*queue:low", 0, -1}, is: []string{jobA}},
		{name: "move jobs where", there: mail, args: "jobs move a", code: exitUsage, errs: "--to"},
		{name: "move jobs to where they are", there: mail, args: "jobs move a --to mail", code: exitNothing, errs: "no job matches; nothing was changed"},
		{name: "move jobs to a key that is no list", there: append(mail, []any{"SET", "*queue:text", "x"}), args: "jobs move a --to text", asks: true, code: exitFailed, errs: "1 job could not be changed: "},
		{name: "remove a job by two names", there: mail, args: "jobs rm a a", asks: true, out: "1 job removed", after: []any{"LRANGE", "*queue:mail", 0, -1}, is: []string{jobB}},
		{name: "cancel a job by two names", there: mail, args: "jobs cancel a a", asks: true, out: "job a is cancelled\n", after: []any{"ZCARD", "*go:cancelled"}, is: "1"},
		{name: "remove jobs", there: mail, args: "jobs rm class:B", asks: true, out: "1 job removed", after: []any{"LRANGE", "*queue:mail", 0, -1}, is: []string{jobA}},
		{name: "remove jobs but some", there: mail, args: "jobs rm queue:mail -class:A", asks: true, out: "1 job removed", after: []any{"LRANGE", "*queue:mail", 0, -1}, is: []string{jobA}},
		{name: "remove jobs with a word that looks like -n", there: mail, args: "jobs rm queue:mail -nightly -until", asks: true, out: "2 jobs removed", after: []any{"EXISTS", "*queue:mail"}, is: "0"},
		{name: "remove jobs with no condition that looks like -n", there: mail, args: "jobs rm class:A -nightly: --yes", code: exitUsage, errs: `"nightly" is no condition`},
		{name: "remove jobs with words behind --", there: mail, args: "jobs rm --yes -id:a -- queue:mail -- ", asks: true, code: exitUsage, errs: "a minus too many"},
		{name: "remove no jobs", there: mail, args: "jobs rm class:Z", code: exitNothing, errs: "nothing was changed"},
		{name: "remove which jobs", there: mail, args: "jobs rm", code: exitUsage, errs: "a search"},
		{name: "remove what a search cannot say", there: mail, args: "jobs rm colour:red", code: exitUsage, errs: "colour"},
		{name: "clear a queue", there: mail, args: "queues clear mail", asks: true, out: "2 jobs removed", after: []any{"EXISTS", "*queue:mail"}, is: "0"},
		{name: "clear an empty queue", there: mail, args: "queues clear low", code: exitNothing},
		{name: "remove a queue", there: mail, args: "queues rm low", asks: true, out: "0 jobs removed", after: []any{"SMEMBERS", "*queues"}, is: []string{"mail"}},
		{name: "remove no queue", there: mail, args: "queues rm maal", asks: true, code: exitNothing, errs: "nothing knows a queue"},
		{name: "move a queue", there: mail, args: "queues move mail low", asks: true, out: "2 jobs moved", after: []any{"LRANGE", "*queue:low", 0, -1}, is: []string{jobA, jobB}},
		{name: "move a queue to itself", there: mail, args: "queues move mail mail", code: exitUsage, errs: "one"},
		{name: "retry a search", there: failed, args: "failed retry class:A --rate 50/s --brake 20% --max-waiting 100", asks: true, out: "1 job put back", after: []any{"LRANGE", "*queue:mail", 0, -1}, is: []string{`{"class":"A","args":[]}`}},
		{name: "retry all", there: failed, args: "failed retry --all --head", asks: true, out: "2 jobs put back", after: []any{"LLEN", "*queue:mail"}, is: "2"},
		{name: "retry an id", there: failed, args: "failed retry " + idOf(failure("B")), asks: true, out: "is retried", after: []any{"LRANGE", "*queue:mail", 0, -1}, is: []string{`{"class":"B","args":[]}`}},
		{name: "retry an id at the head", there: failed, args: "failed retry --head " + idOf(failure("B")), code: exitUsage, errs: "--head takes a search or --all, and no ids"},
		{name: "retry an id at a rate", there: failed, args: "failed retry --rate 1/m --brake 20% " + idOf(failure("B")), code: exitUsage, errs: "--max-waiting take a search, and no ids"},
		{name: "move an id at a rate", there: mail, args: "jobs move a --to low --rate 1/m", code: exitUsage, errs: "take a search, and no ids"},
		{name: "remove an id at a rate", there: mail, args: "jobs rm a --rate 1/m", code: exitUsage, errs: "take a search, and no ids"},
		{name: "cancel an id with a colon", there: mail, args: "jobs cancel tenant:7", code: exitUsage, errs: "id: before an id that has one"},
		{name: "retry at no rate", there: failed, args: "failed retry --all --rate fast", code: exitUsage, errs: "50/s"},
		{name: "retry with no brake", there: failed, args: "failed retry --all --brake 200%", code: exitUsage, errs: "20%"},
		{name: "retry what is not there", there: failed, args: "failed retry " + idOf("x"), code: exitNothing},
		{name: "remove failures", there: failed, args: "failed rm class:A", asks: true, out: "1 job removed", after: []any{"LRANGE", "*failed", 0, -1}, is: []string{failure("B")}},
		{name: "remove a failure", there: failed, args: "failed rm " + idOf(failure("B")), asks: true, out: "is removed", after: []any{"LRANGE", "*failed", 0, -1}, is: []string{failure("A")}},
		{name: "resume no operation", args: "operations resume none", code: exitNothing},
		{name: "undo no operation", args: "operations undo none", code: exitNothing},
		{name: "stop no operation", args: "operations stop none", code: exitNothing},
		{name: "empty an empty bin", args: "bin empty", code: exitNothing, errs: "nothing is in the bin"},
		{name: "lift", there: [][]any{{"ZADD", "*go:cancelled", 9999999999999, resque.CancelledID("a")}}, args: "cancelled lift a", asks: true, out: "job a is not cancelled any more", after: []any{"ZCARD", "*go:cancelled"}, is: "0"},
		{name: "lift what is not cancelled", args: "cancelled lift a", asks: true, code: exitNothing},

		{name: "enqueue", args: `enqueue A 1 '"two"' '{"three":3}' -q mail`, out: "A is in queue mail\n", after: []any{"LRANGE", "*queue:mail", 0, -1}, is: []string{`{"class":"A","args":[1,"two",{"three":3}]}`}},
		{name: "enqueue with options", args: "enqueue A -q mail --id x --meta tenant=acme --priority high --retries 3 --expire 1h --result 1h", out: "A is in queue mail, with the id x\n", after: []any{"LLEN", "*queue:mail"}, is: "1"},
		{name: "enqueue later", args: "enqueue A -q mail --in 1h", out: "A is delayed for queue mail, with the id", after: []any{"ZCARD", "*go:schedule"}, is: "1"},
		{name: "enqueue later for Ruby", args: "enqueue A -q mail --at 2100-01-01T00:00:00Z --resque-scheduler", out: "A is delayed for queue mail\n", after: []any{"LRANGE", "*delayed:4102444800", 0, -1}, is: []string{`{"class":"A","args":[],"queue":"mail"}`}},
		{name: "enqueue a duplicate", there: [][]any{{"HSET", "*go:unique:" + resque.LockName(nil, "k"), "a", lockOf("a", jobA)}, queue}, args: "enqueue A -q mail --unique-key k", code: exitPartly, errs: "not enqueued", after: []any{"LLEN", "*queue:mail"}, is: "2"},
		{name: "enqueue no JSON", args: "enqueue A two -q mail", code: exitUsage, errs: "two is no JSON"},
		{name: "enqueue into no queue", args: "enqueue A 2", code: exitUsage, errs: "with -q"},
		{name: "enqueue at no time", args: "enqueue A 2 -q mail --at soon", code: exitUsage, errs: `at is "soon"`},
		{name: "enqueue without an option's sense", args: "enqueue A 2 -q mail --priority top", code: exitUsage, errs: "normal, high or urgent"},
		{name: "enqueue lines", args: "enqueue --stdin -q mail", stdin: "{\"class\":\"A\",\"args\":[1]}\n\nnonsense\n{\"class\":\"B\",\"queue\":\"low\",\"priority\":\"x\"}\n{\"class\":\"B\"}\n{\"class\":\"C\",\"colour\":1}", code: exitPartly,
			out: "2 jobs enqueued\n", errs: "line 3 is refused", after: []any{"LRANGE", "*queue:mail", 0, -1}, is: []string{`{"class":"A","args":[1]}`, `{"class":"B","args":[]}`}},
		{name: "enqueue lines that the client refuses", args: "enqueue --stdin -q mail", stdin: "{\"class\":\"A\"}\n{\"class\":\"A\",\"expire\":\"-1h\"}\n{\"class\":\"B\",\"id\":\"x\",\"resque_scheduler\":true,\"in\":\"1h\"}\n{\"class\":\"B\"}", code: exitPartly,
			out: "2 jobs enqueued\n", errs: "line 3 is refused", after: []any{"LRANGE", "*queue:mail", 0, -1}, is: []string{`{"class":"A","args":[]}`, `{"class":"B","args":[]}`}},

		{name: "import failures", args: "failed import", stdin: `{"list":"failed","record":` + failure("A") + "}\nnonsense\n" + `{"list":"mail_failed","record":` + failure("B") + "}\n", code: exitPartly,
			out: "2 failures put back\n", errs: "line 2 is refused", after: []any{"LRANGE", "*failed", 0, -1}, is: []string{failure("A")}},
		{name: "import from a line", args: "failed import --from 2", stdin: `{"list":"failed","record":` + failure("A") + "}\n" + `{"list":"failed","record":` + failure("B") + "}\n",
			out: "1 failure put back\n", after: []any{"LRANGE", "*failed", 0, -1}, is: []string{failure("B")}},
		{name: "import nothing", args: "failed import", code: exitNothing, errs: "no failure"},
		{name: "retry which", args: "failed retry", code: exitUsage, errs: "or --all"},

		{name: "pause a schedule", there: schedules, args: "schedule pause nightly", out: "schedule nightly is paused", after: []any{"HLEN", "*go:paused-schedules"}, is: "1"},
		{name: "resume a schedule", there: append(schedules, []any{"HSET", "*go:paused-schedules", "nightly", "x"}), args: "schedule resume nightly", out: "schedule nightly is not paused", after: []any{"HLEN", "*go:paused-schedules"}, is: "0"},
		{name: "resume no schedule", there: schedules, args: "schedule resume daily", code: exitNothing},
		{name: "run a schedule", there: schedules, args: "schedule run nightly", asks: true, out: "the job of schedule nightly is enqueued", after: []any{"LRANGE", "*queue:low", 0, -1}, is: []string{`{"class":"Report","args":["x"]}`}},
		{name: "run a schedule of a process", there: schedules, args: "schedule run 'in code'", asks: true, code: exitFailed, errs: "is not in Redis"},
		{name: "run no schedule", there: schedules, args: "schedule run daily", code: exitNothing},
		{name: "remove a schedule", there: schedules, args: "schedule rm nightly", asks: true, out: "schedule nightly is removed", after: []any{"HLEN", "*persistent_schedules"}, is: "0"},

		{name: "remove a dead worker", there: worker("h:1:mail", dead), args: "workers rm h:1:mail", asks: true, out: "worker h:1:mail is removed", after: []any{"LLEN", "*failed"}, is: "1"},
		{name: "remove a live worker", there: worker("h:1:mail", alive), args: "workers rm h:1:mail", code: exitFailed, errs: "the worker may live"},
		{name: "remove no worker", args: "workers rm h:1:mail", code: exitNothing, errs: "no such worker"},
		{name: "remove workers", there: append(worker("h:1:mail", dead), worker("h:2:mail", alive)...), args: "workers rm h:1:mail h:2:mail", asks: true, code: exitPartly, out: "worker h:1:mail is removed", errs: "h:2:mail", after: []any{"SMEMBERS", "*workers"}, is: []string{"h:2:mail"}},

		{name: "set a limit", there: limits, args: "limits set r:Mail 5/m", out: "the limit r:Mail is 5/m", after: []any{"HGET", "*go:limits", "r:Mail"}, is: "12000000.000 1"},
		{name: "set one of two limits", there: limits, args: "limits set Mail 5", code: exitFailed, errs: "c:Mail, r:Mail"},
		{name: "set no limit", there: limits, args: "limits set none 5", code: exitNothing},
		{name: "set a limit to a word", there: limits, args: "limits set Other many", code: exitUsage, errs: `"many" is no number`},
		{name: "reset a limit", there: limits, args: "limits reset Other", out: "as each program has it", after: []any{"HEXISTS", "*go:limits", "c:Other"}, is: "0"},

		{name: "forget a webhook", there: [][]any{{"XADD", "*go:webhook:ops", "1-1", "n", "1", "e", "{}"}, {"HSET", "*go:notice", "webhook:ops", "1 failed"}}, args: "webhook forget ops", asks: true, out: "the webhook ops is forgotten", after: []any{"EXISTS", "*go:webhook:ops"}, is: "0"},
		{name: "forget no webhook", args: "webhook forget ops", asks: true, code: exitNothing, errs: "there is no webhook ops"},

		{name: "release a lost lock", there: locks, args: "locks release " + lost, asks: true, out: "is released", after: []any{"EXISTS", "*go:unique:" + lost}, is: "0"},
		{name: "release a held lock", there: locks, args: "locks release " + held, asks: true, code: exitFailed, errs: "job a is queued", after: []any{"HLEN", "*go:unique:" + held}, is: "1"},
		{name: "release a held lock by force", there: locks, args: "locks release --force " + held, asks: true, out: "is released", after: []any{"EXISTS", "*go:unique:" + held}, is: "0"},
		{name: "release no lock", there: locks, args: "locks release " + strings.Repeat("3", 32), code: exitNothing},

		{name: "differences", there: schedules, args: "schedule diff " + file, code: exitPartly, out: "added", errs: "3 schedules"},
		{name: "wait", there: [][]any{queues}, args: "queues wait mail low --empty", out: "nothing waits"},
		{name: "wait for what", args: "queues wait mail", code: exitUsage, errs: "--empty"},
	}
}

// idOf is the id of a failure.
func idOf(record string) string { return failures.ID([]byte(record)) }

// reading are those of the table that change nothing.
var reading = []string{"schedule diff", "queues wait", "control rules"}

// Each changing verb does what its help says, prints it, and ends with its code. With --read-only it is refused, with --dry-run it prints a plan, and one that
// removes or runs wants to be confirmed; in all three cases nothing has changed. With --json it prints an object a line.
func TestChangingVerbs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	printed := make(map[string]string) // by verb, in JSON: its keys never change their meaning
	for n, tt := range changedVerbs(t) {
		t.Run(tt.name, func(t *testing.T) {
			ns := fmt.Sprintf("n%d:", n)
			with := func(command []any) (string, []any) {
				all := append([]any(nil), command...)
				for i, a := range all {
					if s, ok := a.(string); ok {
						all[i] = strings.Replace(s, "*", ns, 1)
					}
				}
				return all[0].(string), all[1:]
			}
			for _, command := range tt.there {
				name, args := with(command)
				server.Do(t, name, args...)
			}
			before := server.Dump(t, ns)
			args := append(words(tt.args), "-u", server.URI(), "-n", ns)
			reads := false
			for _, r := range reading {
				reads = reads || strings.HasPrefix(tt.args, r)
			}
			refused := func(how string, want int, extra ...string) {
				t.Helper()
				code, out, errs := typing(t, tt.stdin, append(args, extra...)...)
				if code != want {
					t.Errorf("%s: %d and not %d\n%s%s", how, code, want, out, errs)
				}
				if after := server.Dump(t, ns); !reflect.DeepEqual(before, after) {
					t.Errorf("%s: it changed something:\n%v\n%v", how, before, after)
				}
			}
			if !reads {
				refused("with --read-only", exitUsage, "--read-only")
				if tt.code == exitDone {
					refused("with --dry-run", exitDone, "--dry-run")
				}
				if tt.asks {
					refused("unconfirmed", exitUsage)
				}
			}
			if tt.asks {
				args = append(args, "--yes")
			}
			code, out, errs := typing(t, tt.stdin, args...)
			if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.errs) {
				t.Errorf("%d and not %d, or not %q and %q:\n%s%s", code, tt.code, tt.out, tt.errs, out, errs)
			}
			if len(tt.after) > 0 {
				name, args := with(tt.after)
				var got any
				if _, list := tt.is.([]string); list {
					all := append([]string(nil), server.List(t, name, args...)...)
					got = all
				} else {
					got = fmt.Sprint(textOf(server.Do(t, name, args...)))
				}
				if !reflect.DeepEqual(tt.is, got) {
					t.Errorf("after it %v is %v and not %v", tt.after, got, tt.is)
				}
			}
			if tt.code != exitDone {
				return
			}
			for key := range server.Dump(t, ns) { // once more, for --json
				server.Do(t, "DEL", key)
			}
			for _, command := range tt.there {
				name, args := with(command)
				server.Do(t, name, args...)
			}
			planned := ""
			if !reads {
				_, planned, _ = typing(t, tt.stdin, append(slices.Clone(args), "--json", "--dry-run")...)
			}
			code, out, errs = typing(t, tt.stdin, append(args, "--json")...)
			if code != exitDone || out == "" {
				t.Errorf("with --json: %d\n%s%s", code, out, errs)
			}
			verb := strings.Join(words(tt.args)[:2], "-")
			if strings.HasPrefix(tt.args, "enqueue ") {
				verb = "enqueue"
			}
			printed[verb] += "# " + tt.args + "\n" + planned + out + "\n"
			for line := range strings.Lines(out) {
				var object map[string]any
				if err := json.Unmarshal([]byte(line), &object); err != nil {
					t.Errorf("with --json: %v: %s", err, line)
				}
			}
		})
	}
	for verb, text := range printed {
		for _, c := range unlike {
			text = c.is.ReplaceAllString(text, c.to)
		}
		compare(t, "changes-"+verb+".txt", steady(text))
	}
}

// unlike is what differs from run to run, and from machine to machine, in what changing verbs print.
var unlike = []struct {
	is *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`"id":"[0-9A-Za-z]{16,}"`), `"id":"0123456789"`},
	{regexp.MustCompile(`"who":"[^"]*"`), `"who":"ops@host-1"`},
	{regexp.MustCompile(`"looked":\d+`), `"looked":1`},
	{regexp.MustCompile(`until:20[^" ]*`), "until:2026-11-22T11:59:31Z"},
}

// textOf is an answer of Redis as text.
func textOf(reply any) any {
	if b, ok := reply.([]byte); ok {
		return string(b)
	}
	return reply
}

// In a protected context each change wants its count, and --yes alone does not do.
func TestProtected(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "contexts.yaml")
	if err := os.WriteFile(file, []byte("live:\n  uri: "+server.URI()+"\n  protect: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	failed := filepath.Join(t.TempDir(), "failures.jsonl")
	if err := os.WriteFile(failed, []byte(strings.Repeat(`{"list":"failed","record":{"failed_at":"2026/11/23 09:51:01 UTC","payload":{"class":"A","args":[]},"exception":"E","error":"x","backtrace":[],"worker":"h:1:mail","queue":"mail"}}`+"\n", 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	server.Do(t, "SADD", "resque:queues", "mail", "low")
	lookup := func(name string) (string, bool) {
		return map[string]string{"GOWORKER_CONTEXTS": file, "GOWORKER_CONTEXT": "live"}[name], name == "GOWORKER_CONTEXTS" || name == "GOWORKER_CONTEXT"
	}
	for _, tt := range []struct {
		args string
		code int
	}{
		{"queues pause mail low", exitUsage}, {"queues pause mail low --yes", exitUsage}, {"queues pause mail low --yes=3", exitUsage}, {"queues pause mail low --yes=2", exitDone},
		{"enqueue A -q mail", exitUsage}, {"enqueue A -q mail --yes=1", exitDone},
		{"failed import FILE --yes=0", exitUsage}, {"failed import FILE --yes=2", exitDone},
	} {
		var o, e output
		if code := Run(t.Context(), patient(words(strings.ReplaceAll(tt.args, "FILE", failed))), lookup, &o, &e); code != tt.code {
			t.Errorf("%s: %d and not %d\n%s%s", tt.args, code, tt.code, o.String(), e.String())
		}
	}
}

func inspecting(t *testing.T, server *redistest.Server) *inspect.Inspector {
	t.Helper()
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client.Inspect()
}

// A change carries the name of who made it, and why, into the audit.
func TestChangesAreAudited(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "SADD", "resque:queues", "mail")
	if code, out, errs := run(t, "queues", "pause", "mail", "--why", "broken template", "-u", server.URI()); code != exitDone {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	if code, _, errs := run(t, "limits", "set", "c:Mail", "3", "-u", server.URI()); code != exitNothing {
		t.Errorf("%d %s", code, errs)
	}
	p := program{lookup: none}
	if lines := strings.Join(server.List(t, "LRANGE", "resque:go:audit", 0, -1), "\n"); !strings.Contains(lines, "broken template") || !strings.Contains(lines, p.who()) || !strings.Contains(lines, "PauseQueue") || !strings.Contains(lines, `"goworker"`) || strings.Count(lines, "\n") > 0 {
		t.Errorf("the audit says\n%s", lines)
	}
	for _, args := range [][]string{{"enqueue", "A", "1", "-q", "mail", "--why", "by hand"}, {"limits", "set", "Mail", "3"}} {
		server.Do(t, "HSET", "resque:go:limits", "c:Mail", "1")
		if code, out, errs := run(t, append(args, "-u", server.URI())...); code != exitDone {
			t.Fatalf("%d %s %s", code, out, errs)
		}
	}
	code, out, errs := on(t, server, 200, "audit")
	for _, want := range []string{"Enqueue +A in queue mail +1 +by hand", "SetLimit +limit c:Mail, was 1 +1"} {
		if code != exitDone || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("the audit does not say %s: %d\n%s%s", want, code, out, errs)
		}
	}
	server.Do(t, "DEL", "resque:go:audit")
	server.Do(t, "SET", "resque:go:audit", "no list")
	if code, _, errs := run(t, "queues", "resume", "mail", "-u", server.URI()); code != exitFailed || !strings.Contains(errs, "could not be recorded") {
		t.Errorf("without a record: %d %s", code, errs)
	}
	w := watcher{ctx: t.Context(), o: &operator{p: &p, in: inspecting(t, server).By("ops", ""), shared: &shared{timeout: time.Minute}}}
	if m := w.pause("mail", false).(paused); m.err == nil || !strings.Contains(m.err.Error(), "could not be recorded") {
		t.Errorf("the watch says %v", m.err)
	}
	if paused := server.List(t, "SMEMBERS", "resque:go:paused"); len(paused) != 1 {
		t.Errorf("a change that could not be recorded was made: %q", paused)
	}
}
