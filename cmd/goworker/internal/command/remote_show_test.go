package command

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/control/profile"
)

// printer is an operator without a Redis, whose terminal has so many columns.
func printer(columns int) (o *operator, out *bytes.Buffer) {
	out = new(bytes.Buffer)
	return &operator{shared: new(shared), width: columns, out: out, errs: out}, out
}

// shownAnswers are answers to the verbs of every daemon.
var shownAnswers = []struct{ name, verb, body string }{
	{"ping", control.Ping, `{"up_seconds":273845.5,"workers":25,"busy":22}`},
	{"stats of a process that has just started", control.Stats, `{"up_seconds":0.4,"workers":1,"busy":0,"goroutines":24,"heap_bytes":900,"system_bytes":17922312,"gcs":0,"exchanges":1,"since_exchange_seconds":0.2,
		"since_renewal_seconds":0.3,"rtt_seconds":0.000379,"outages":0,"away_seconds":0,"jobs":{},"classes":{}}`},
	{"stats", control.Stats, `{"up_seconds":8640000,"workers":1000,"busy":999,"goroutines":12345,"heap_bytes":17179869184,"system_bytes":98784247808,"gcs":1234567,"exchanges":12345678901,"since_exchange_seconds":0.0021,
		"since_renewal_seconds":1.94,"rtt_seconds":0.000379,"outages":1234,"away_seconds":86399,"autoscale":{"min":5,"max":50,"reason":"all 50 workers are busy, the oldest job waits for 4m10s, and more workers did not help: it was \u001b[2J"},
		"jobs":{"done":1234567890,"failed":12345,"retried":67890,"cancelled":3,"expired":2,"discarded":1,"runs":1234648131,"p50_seconds":0.000145,"p95_seconds":0.93,"p99_seconds":59.9,"longest_seconds":86399},
		"classes":{"Shop::Mailers::WelcomeCustomer":{"done":1234567890,"failed":12345,"retried":67890,"cancelled":3,"expired":2,"discarded":1,"runs":1234648131,"p50_seconds":0.000145,"p95_seconds":0.93,"p99_seconds":59.9,"longest_seconds":86399},
		"Never":{"cancelled":1},"Quick\u001b[2J":{"done":3,"runs":3,"p50_seconds":0.000145,"p95_seconds":0.000145,"p99_seconds":0.000145,"longest_seconds":0.000062}}}`},
	{"active", control.Active, `[{"queue":"mail","class":"SendEmail","id":"K3W1","ticket":7,"worker":"web-1.go:722-0:mail,reports","attempt":1,"since":"2026-11-22T12:04:31Z","for_seconds":7.009901},
		{"queue":"a queue of a very long name, in which something is\u001b[2J","class":"Shop::Mailers::WelcomeCustomerWithAVeryLongNameOfAClass","ticket":123456789,"worker":"a-very-long-host-name.example.com.go:722-1:mail,reports,payments,legacy",
		"attempt":12,"since":"2026-11-22T12:04:31Z","for_seconds":90061,"args":[600,{"who":"a very long argument that does not fit into a line of eighty columns"}]}]`},
	{"active without a job", control.Active, `[]`},
	{"reserved", control.Reserved, `[{"queue":"mail","class":"SendEmail","ticket":7},{"queue":"mail","ticket":8}]`},
	{"registered", control.Registered, `[{"name":"Quick","options":[]},{"name":"Report","options":["how often a failed job is retried: Retry(3)","how long a run may take, which is a sentence that is too long for a line: Timeout(1h0m0s)"]}]`},
	{"conf", control.Conf, `[{"name":"QueuesString","value":"mail,reports","default":false},{"name":"ScaleAge","value":"10s","default":true},{"name":"TLSCertPath","value":"","default":true}]`},
	{"queues", control.Queues, `{"queues":"mail,reports","order":"strict","ready":true,"reasons":[]}`},
	{"pause", control.Pause, `{"queues":"mail,reports","order":"strict","ready":false,"reasons":["an operator has paused this process; goworker control resume --self ends that"]}`},
	{"report", control.Report, `{"up_seconds":39.195661,"workers":9,"busy":1,"go":"go1.26.8 github.com/acme/shop/cmd/worker","system":"linux/amd64","kernel":"6.18.44","cpus":8,"procs":2,"heap_bytes":1740256,"rss_bytes":54525952,
		"memory_max":"536870912","cpu_max":"150000 100000","since_renewal_seconds":0.7,"rtt_seconds":0.0004,"queues":"mail,reports","order":"strict","concurrency":"5..50","ready":false,
		"reasons":["the gate is closed: the mail server does not answer, and nothing is sent until it does again"],"parts":[
		{"name":"lease","state":"running","for_seconds":39.2,"took_seconds":0.008,"info":"renewed 700ms ago"},
		{"name":"records","state":"running","for_seconds":39.2,"requires":["lease"]},{"name":"control","state":"running","for_seconds":39.2,"requires":["lease"]},
		{"name":"workers","state":"running","for_seconds":39.2,"info":"9 workers, 1 busy, 0 stuck","requires":["records","lease","control"]},
		{"name":"poller","state":"running","for_seconds":39.2,"info":{"exchanges":15},"requires":["workers"]},
		{"name":"schedule","state":"running","for_seconds":39.2,"requires":["poller"]},{"name":"recurring","state":"running","for_seconds":39.2,"requires":["poller"]},
		{"name":"workflows","state":"running","for_seconds":39.2,"requires":["poller"]},{"name":"groups","state":"running","for_seconds":39.2,"requires":["poller"]},
		{"name":"webhook","state":"restarting","for_seconds":2,"restarts":3,"error":"dial tcp 10.0.0.1:443: connect: connection refused\u001b[2J","requires":["poller","gone"]},
		{"name":"events","state":"running","for_seconds":39.2,"requires":["poller"]},{"name":"history","state":"failed","for_seconds":39.2,"requires":["poller"]}]}`},
	{"report of a system that says little", control.Report, `{"up_seconds":1,"workers":5,"busy":0,"go":"go1.26.8","system":"darwin/arm64","cpus":8,"procs":8,"queues":"*","order":"strict","concurrency":"5","ready":true,"reasons":[],"parts":null}`},
	{"stacks", control.Stacks, `{"goroutines":30,"cut":true,"stacks":[{"count":29,"state":"select","stack":"main.work(…)\n\t/src/main.go:12\n\u001b[2Jcreated by main.main\n\t\t/src/a\tb.go:3"},{"count":1,"state":"running","stack":"main.main()"}]}`},
	{"log", control.Log, `{"level":"debug","was":"info","for":600}`},
	{"concurrency", control.Concurrency, `{"from":5,"to":9,"settings":5}`},
	{"concurrency for a while", control.Concurrency, `{"from":1200,"to":1,"settings":5,"for":3600,"autoscale_fixed":true,"busy":[{"worker":"web-1.go:722-4:mail","queue":"mail","since":"2026-11-22T12:04:31Z"}]}`},
	{"queues of another list", control.WorkQueues, `{"from":"mail,reports","to":"mail","settings":"mail,reports","busy":[{"worker":"web-1.go:722-4:mail,reports","queue":"mail","since":"2026-11-22T12:04:31Z"},
		{"worker":"web-1.go:722-5:mail,reports","queue":"reports","since":"2026-11-22T12:04:31Z"}]}`},
	{"autoscale", control.Autoscale, `{"from":"off","to":"5..50","settings":"5..50","workers":5,"for":600}`},
	{"verbs", control.Verbs, `[{"name":"ping","help":"Answer","level":"on"},{"name":"flush-cache","help":"Empty the cache of templates, which is kept in memory until it is too large for that","level":"full"}]`},
	{"shutdown", control.Shutdown, `{"up_seconds":9,"workers":2,"busy":1}`},
	{"profile", control.Profile, `{"kind":"cpu","bytes":4096,"file":"cpu.pprof"}`},
	{"a verb of the program", "flush", `{"none":[],"empty":{},"null":null,"list":[{"a":1,"b":[]}],"tree":{"text":"two\n\tlines\u001b[2J"}}`},
	{"an answer of another form", control.Concurrency, `{"from":"five"}`},
}

// The answers to each verb are as the golden file has them, in a terminal of 80 columns and where no line ends. No line is too wide, and
// none moves a cursor.
func TestShownAnswers(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, a := range shownAnswers {
		for _, columns := range []int{80, 0} {
			o, out := printer(columns)
			r := control.Reply{Process: "web-1:722:be04", Host: "web-1", Name: "mailer", Version: "v0.9.0", After: 1100 * time.Microsecond, Body: []byte(a.body)}
			if err := o.printAnswer(a.verb, r, nil, nil); err != nil {
				t.Errorf("%s: %v", a.name, err)
			}
			fmt.Fprintf(&b, "# %s, %d columns\n%s\n", a.name, columns, out)
			harmless(t, out.String())
			for line := range strings.Lines(out.String()) {
				if line = strings.TrimSuffix(line, "\n"); columns > 0 && view.Width(line) > columns || strings.TrimRight(line, " ") != line {
					t.Errorf("%s: too wide, or with blanks behind it: %q", a.name, line)
				}
			}
		}
	}
	for _, e := range []error{
		&control.RefusedError{Text: "the verb flush panicked: no cache\x1b[2J, which is a sentence that is too long for a line"},
		&control.RefusedError{Text: "the verb flush panicked: no cache\x1b[2J\ngoroutine 1:\n\t/src/a.go:3"},
		&control.SilentError{Age: 700 * time.Millisecond}, &control.SilentError{Age: time.Minute}, &control.SilentError{Gone: true}, &control.SilentError{Off: true}, &control.SilentError{TooOld: true},
	} {
		o, out := printer(80)
		silent, _ := e.(*control.SilentError)
		refused, _ := e.(*control.RefusedError)
		if err := o.printAnswer("flush", control.Reply{Process: "web-1:722:be04", Host: "web-1", Name: "mailer", Version: "v0.9.0"}, silent, refused); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(&b, "# %T\n%s\n", e, out)
		harmless(t, out.String())
	}
	compare(t, "remote-answers.txt", b.String())
}

// A call ends with 0 where all processes did it, with 4 where some did not, and with 1 where none did. It names each process once.
func TestExitCodesOfCalls(t *testing.T) {
	t.Parallel()
	did := func(r control.Reply) error { return nil }
	refused := func(r control.Reply) error { return &control.RefusedError{Process: r.Process, Text: "no"} }
	silent := func(r control.Reply) error { return &control.SilentError{Process: r.Process, Age: time.Minute} }
	gone := func(r control.Reply) error { return &control.SilentError{Process: r.Process, Gone: true} }
	off := func(r control.Reply) error { return &control.SilentError{Process: r.Process, Off: true} }
	old := func(r control.Reply) error { return &control.SilentError{Process: r.Process, TooOld: true} }
	whole := func(err error) func(control.Reply) error { return func(control.Reply) error { return err } }
	broken := errors.New("broken")
	for _, c := range []struct {
		name      string
		processes []func(control.Reply) error
		code      int
		says      string
	}{
		{"one did it", []func(control.Reply) error{did}, exitDone, ""},
		{"all did it", []func(control.Reply) error{did, did}, exitDone, ""},
		{"one is off", []func(control.Reply) error{did, did, off}, exitPartly, "2 of 3 processes did it: 1 without remote control"},
		{"one of each", []func(control.Reply) error{did, refused, silent, off, old, gone}, exitPartly, "1 of 6 processes did it: 1 refused, 2 silent and 2 without remote control"},
		{"the only one refuses", []func(control.Reply) error{refused}, exitFailed, "no process did it: 1 refused"},
		{"all refuse", []func(control.Reply) error{refused, refused}, exitFailed, "no process did it: 2 refused"},
		{"all are silent", []func(control.Reply) error{silent, silent}, exitFailed, "no process did it: 2 silent"},
		{"all are off", []func(control.Reply) error{off, old}, exitFailed, "no process did it: 2 without remote control"},
		{"nobody is there", []func(control.Reply) error{whole(control.ErrNobody)}, exitUnavailable, "no goworker process holds a lease here"},
		{"none is meant", []func(control.Reply) error{whole(control.ErrNoMatch)}, exitNothing, "no process has such an id"},
		{"it breaks off", []func(control.Reply) error{did, whole(broken)}, exitFailed, "broken"},
	} {
		o, out := printer(80)
		call := iter.Seq2[control.Reply, error](func(yield func(control.Reply, error) bool) {
			for n, of := range c.processes {
				r := control.Reply{Process: fmt.Sprintf("web-%d:722:be04", n), Version: "v0.9.0"}
				if !yield(r, of(r)) {
					return
				}
			}
		})
		err := o.answers("flush", "did it", call)
		if code := codeOf(t.Context(), err); code != c.code || c.says != "" && !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: it ends with %d and %v", c.name, code, err)
		}
		for n := range c.processes {
			all := out.String() + fmt.Sprint(err)
			if id := fmt.Sprintf("web-%d:", n); strings.Count(all, id) != 1 && !errors.Is(err, broken) && c.code != exitUnavailable && c.code != exitNothing {
				t.Errorf("%s: %s is named %d times:\n%s", c.name, id, strings.Count(all, id), all)
			}
		}
	}
}

// A profile takes no longer than processes let it take.
func TestLongestProfile(t *testing.T) {
	t.Parallel()
	if longestProfile != profile.Longest || usualProfile != profile.Usual {
		t.Errorf("%s, %s", longestProfile, usualProfile)
	}
}
