package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const soon = 20 * time.Second

// bundle is a server, a process that takes jobs and ends them, and a sweep.
type bundle struct {
	testing.TB
	server *redistest.Server
	c      redis.Conn
	s      workflows.Store
	sweep  *Sweep
	base   part.Base
	log    *lines
	last   int64
	jobs   []resque.Reserved
}

type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

type dialer func() (redis.Conn, error)

func (d dialer) Dial(context.Context) (redis.Conn, error) { return d() }

// short waits as little as a test of the search needs.
var short = Config{StallAfter: 3 * time.Millisecond, Again: time.Millisecond}

func setup(t testing.TB, c Config) *bundle {
	t.Helper()
	server := redistest.Start(t)
	b := &bundle{TB: t, server: server, c: server.Dial(t), s: workflows.New(resque.New("")), log: new(lines)}
	log := slog.New(slog.NewTextHandler(b.log, nil))
	b.base = part.Base{
		Log: log, Outages: logging.NewOutages(log, clock.System), Clock: clock.System, Store: resque.New(""),
		Dialer: dialer(func() (redis.Conn, error) { return redis.DialURL(server.URI()) }),
	}
	b.sweep = New(b.base, c)
	b.must(b.s.Enter(b.c, resque.Process{ID: "p", Started: time.Unix(1, 0)}, time.Hour, time.Unix(1, 0)))
	return b
}

func (b *bundle) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) turn(x resque.Exchange) []resque.Reserved {
	b.Helper()
	x.Process, x.Epoch, x.Last = "p", 1, b.last
	b.must(b.s.Send(b.c, &x))
	out, err := b.s.Receive(b.c, &x)
	b.must(err)
	if len(out.Refused) > 0 {
		b.Fatalf("refused: %v", out.Refused)
	}
	for _, j := range out.Jobs {
		b.last = max(b.last, j.Ticket)
	}
	return out.Jobs
}

// pump moves what is in the schedule to its queues.
func (b *bundle) pump() {
	for _, item := range b.server.List(b, "ZRANGE", "resque:go:schedule", 0, -1) {
		queue, payload, _ := resque.CutPrefix([]byte(item))
		b.server.Do(b, "ZREM", "resque:go:schedule", item)
		b.server.Do(b, "RPUSH", "resque:queue:"+queue, payload)
	}
}

func (b *bundle) take() {
	b.Helper()
	b.pump()
	x := resque.Exchange{Want: 1000}
	for _, q := range []string{"low", "high", "mid"} {
		x.Asks = append(x.Asks, resque.Ask{Queue: q, Quota: 1000})
	}
	b.jobs = append(b.jobs, b.turn(x)...)
}

type stepFields struct {
	Class string
	Args  json.RawMessage
	Place string `json:"wf"`
	ID    string
}

func (b *bundle) parse(j resque.Reserved) (f stepFields) {
	b.must(json.Unmarshal(j.Payload, &f))
	return f
}

// job takes a job of a class.
func (b *bundle) job(class string) resque.Reserved {
	b.Helper()
	b.take()
	for i, j := range b.jobs {
		if b.parse(j).Class == class {
			b.jobs = append(b.jobs[:i:i], b.jobs[i+1:]...)
			return j
		}
	}
	b.Fatalf("there is no job %s", class)
	return resque.Reserved{}
}

// classes returns the classes of the jobs that can be taken, in their order.
func (b *bundle) classes() string {
	b.take()
	var all []string
	for _, j := range b.jobs {
		all = append(all, b.parse(j).Class)
	}
	return strings.Join(all, " ")
}

// end takes a job of a class and ends it. It returns its arguments.
func (b *bundle) end(class string, letter byte, value string) string {
	b.Helper()
	j := b.job(class)
	b.commit(j, letter, value)
	return string(b.parse(j).Args)
}

func (b *bundle) commit(j resque.Reserved, letter byte, value string) {
	b.Helper()
	f := b.parse(j)
	id, n, _ := workflows.SplitID(f.ID)
	a := &workflows.Arrival{Workflow: id, Step: n, Letter: letter, Place: f.Place, Job: j}
	if value != "" {
		a.Value = []byte(value)
	}
	if letter != workflows.Done {
		a.Again = fmt.Sprintf("s n - 0 0 0 0 %s%s", resque.JobPrefix(j.Queue), j.Payload)
	}
	b.turn(resque.Exchange{Ended: []resque.Ended{{Ticket: j.Ticket, Counts: resque.CountsDone, Effects: []resque.Effect{b.s.Arrive(a)}}}})
}

// due makes all workflows due now.
func (b *bundle) due() {
	for _, id := range b.server.List(b, "ZRANGE", b.s.IndexKey(), 0, -1) {
		b.server.Do(b, "ZADD", b.s.IndexKey(), 1, id)
	}
}

// spoil gives a key another type.
func (b *bundle) spoil(key, command, value string) {
	b.server.Do(b, "DEL", key)
	b.server.Do(b, command, key, value)
}

// step has the sweep do what is due. It returns how long it then waits.
func (b *bundle) step() time.Duration {
	b.Helper()
	wait, err := b.sweep.Step(b.c)
	b.must(err)
	return wait
}

// search has the sweep look at all workflows until two passes of the search are over.
func (b *bundle) search() {
	b.Helper()
	redistest.Eventually(b, soon, "the workflow stands still and the search ends", func() bool {
		b.due()
		b.step()
		return strings.Contains(b.log.String(), "stands still") || b.sweep.last.After(b.sweep.search.next) && len(b.sweep.search.want) == 0 && !b.sweep.search.next.IsZero()
	})
}

func (b *bundle) field(id, name string) string {
	text, err := redis.String(b.c.Do("HGET", b.s.WorkflowKey(id).String(), name))
	if err != nil && err != redis.ErrNil {
		b.Fatal(err)
	}
	return text
}

func (b *bundle) document(id, name string) string {
	text, err := redis.String(b.c.Do("HGET", b.s.KeyOfResult(id), name))
	if err != nil && err != redis.ErrNil {
		b.Fatal(err)
	}
	return text
}

func (b *bundle) letters(id string) string { return b.server.Text(b, "GET", b.s.LettersKey(id)) }

func (b *bundle) want(what, want, got string) {
	b.Helper()
	if got != want {
		b.Errorf("%s: %s, want %s", what, got, want)
	}
}

// keys returns the keys of workflows.
func (b *bundle) keys() (all []string) {
	for _, key := range b.server.Keys(b) {
		for _, part := range []string{":wf", ":workflows", ":halted", ":stalled", ":result"} {
			if strings.Contains(key, part) {
				all = append(all, key)
			}
		}
	}
	return all
}

func (b *bundle) start(p *workflows.Plan) {
	b.Helper()
	got, err := b.s.Start(b.c, p)
	if err != nil || !got.New {
		b.Fatalf("%v, %v", got, err)
	}
}

// planned is a step of a plan that is written by hand. Its class is C and its number.
type planned struct {
	n     int
	queue string
	place string
}

func (s planned) payload(id string) []byte {
	return fmt.Appendf(nil, `{"class":"C%d","args":[],"wf":"%s","id":"%s"}`, s.n, s.place, workflows.StepID(id, s.n))
}

func (s planned) template(id, how string) string {
	record := append([]byte(resque.JobPrefix(s.queue)), s.payload(id)...)
	cut := bytes.Index(record, []byte(`],"wf"`))
	return fmt.Sprintf("%s %d %d %s", how, cut, bytes.Index(record, []byte(`,"id"`)), record)
}

func (s planned) job(id string) workflows.Job {
	return workflows.Job{Step: s.n, Queue: s.queue, Payload: s.payload(id)}
}

// chain is step 0, then 1, then 2.
func chain(id string) *workflows.Plan {
	first := planned{0, "low", "1 - - - - n high"}
	second := planned{1, "high", "2 - - - - n low"}
	third := planned{2, "low", "0 3 2 - - 1 -"}
	return &workflows.Plan{ID: id, Letters: []byte("swwb"), Fields: []any{
		"j0", "1 0 0 j 0 0 - - - -", "j1", "1 0 0 j 1 1 0 3 - -", "j2", "1 0 0 j 2 1 0 3 - -",
		"s1", second.template(id, "s v 0 0 0"), "s2", third.template(id, "s v 1 0 0"), "result", "v 2",
	}, Jobs: []workflows.Job{first.job(id)}}
}

// fan is step 0, and then count steps side by side. How is the beginning of their templates.
func fan(id string, count int, how string) *workflows.Plan {
	first := planned{0, "low", "1 - - - - n high"}
	p := &workflows.Plan{ID: id, Letters: append([]byte("s"), bytes.Repeat([]byte("w"), count)...), Fields: []any{
		"j0", "1 0 0 j 0 0 - - - -", "j1", fmt.Sprintf("1 0 0 j 1 %d 0 %d - -", count, count+1),
		"j2", fmt.Sprintf("%d 0 0 j 0 0 0 %d - -", count, count+1),
	}, Jobs: []workflows.Job{first.job(id)}}
	p.Letters = append(p.Letters, 'b')
	for n := 1; n <= count; n++ {
		p.Fields = append(p.Fields, fmt.Sprintf("s%d", n), planned{n, "high", "2 - - - - 0 -"}.template(id, how))
	}
	return p
}
