package resque

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
)

// manyOf are many plain jobs of queue q, the first of which has this number. Each has an id, id and its number, whose cancel its push lifts.
func manyOf(t *testing.T, types *Types, first int) *Bulk {
	t.Helper()
	b := &Bulk{Types: types}
	for i := first; i < first+2*fewestPlain; i++ {
		if _, err := b.Encode("J", []any{i}); err != nil {
			t.Fatal(err)
		}
		b.SetText("id", fmt.Sprint("id", i))
		b.Lift(New("").CancelledKey(), fmt.Sprint("id", i))
		if err := b.Put(Place{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// proven has the types of queue q be proven just now, however long the push takes to begin.
func proven(types *Types) {
	types.prove("resque:queue:q")
	types.proven = types.proven.Add(time.Hour)
}

// For a second after a script has proven the types, many plain jobs go without it.
func TestPushManyWithoutScript(t *testing.T) {
	a := newAdmin(t)
	types := new(Types)
	commands := func() (names []string) {
		for i := range 3 {
			a.Do(t, "DEL", "resque:queue:q", "resque:queues")
			a.Do(t, "ZADD", "resque:go:cancelled", 1, fmt.Sprint("j:id", 100*i))
			monitor := a.Monitor(t)
			if i > 0 {
				if types.key != "resque:queue:q" {
					t.Errorf("after push %d the type of %q is known", i, types.key)
				}
				proven(types)
			}
			b := manyOf(t, types, 100*i)
			if err := a.PushBulk(a.c, b); err != nil || !b.Done() || b.InDoubt() {
				t.Fatal(err)
			}
			var said []string
			for _, c := range monitor.Commands() {
				said = append(said, strings.ToUpper(c[0]))
			}
			names = append(names, strings.Join(said, " "))
			jobs := a.List(t, "LRANGE", "resque:queue:q", 0, -1)
			if len(jobs) != 2*fewestPlain || !strings.Contains(jobs[0], fmt.Sprintf("[%d]", 100*i)) || !slices.Equal(a.List(t, "SMEMBERS", "resque:queues"), []string{"q"}) ||
				a.Int(t, "ZCARD", "resque:go:cancelled") != 0 {
				t.Errorf("push %d: %q", i, jobs)
			}
		}
		return names
	}
	names := commands()
	if !strings.Contains(names[0], "EVAL") || names[1] != "MULTI EXEC MULTI SADD RPUSH EVAL EXEC" || names[2] != "MULTI SADD RPUSH ZREM EXEC" {
		t.Errorf("commands %q", names)
	}
	small := &Bulk{Types: types}
	if err := small.Add("q", "J", nil); err != nil {
		t.Fatal(err)
	}
	monitor := a.Monitor(t)
	if err := a.PushBulk(a.c, small); err != nil || len(monitor.Commands()) != 1 {
		t.Errorf("one job: %v, %q", err, monitor.Commands())
	}
}

// What has changed since the types were proven is refused as by the script, and nothing is pushed. Only where the names of queues have become
// something else the jobs are there, and the error says so.
func TestPushManyAfterAChange(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change [][]any
		want   []string // in the error; nil: there is none
		there  bool
	}{
		"nothing":             {nil, nil, true},
		"the queue":           {[][]any{{"DEL", "resque:queue:q"}, {"SET", "resque:queue:q", "x"}}, []string{"WRONGTYPE", "32 jobs to queue q"}, false},
		"the names":           {[][]any{{"DEL", "resque:queues"}, {"SET", "resque:queues", "x"}}, []string{"WRONGTYPE", "32 jobs are in the list resque:queue:q", "do not enqueue them again", "resque:queues"}, true},
		"both":                {[][]any{{"FLUSHALL"}, {"SET", "resque:queues", "x"}, {"SET", "resque:queue:q", "x"}}, []string{"WRONGTYPE"}, false},
		"what lies beside":    {[][]any{{"SET", "resque:go:cancelled", "x"}}, nil, true},
		"memory":              {[][]any{{"CONFIG", "SET", "maxmemory", "1"}}, []string{"OOM"}, false},
		"the right to RPUSH":  {[][]any{{"ACL", "SETUSER", "u", "-rpush"}}, []string{"+rpush"}, false},
		"the right to MULTI":  {[][]any{{"ACL", "SETUSER", "u", "-multi", "-exec"}}, nil, true},
		"the right to EXEC":   {[][]any{{"ACL", "SETUSER", "u", "-exec"}}, nil, true},
		"the right to ZREM":   {[][]any{{"ACL", "SETUSER", "u", "-zrem"}}, nil, true},
		"scripts are unknown": {[][]any{{"SCRIPT", "FLUSH"}}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdmin(t)
			a.Do(t, "ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all")
			if _, err := a.c.Do("AUTH", "u", ""); err != nil {
				t.Fatal(err)
			}
			types := new(Types)
			for i := range 2 { // so that transactions are asked about
				proven(types)
				if err := a.PushBulk(a.c, manyOf(t, types, 100*i)); err != nil {
					t.Fatal(err)
				}
			}
			for _, command := range tt.change {
				a.Do(t, command[0].(string), command[1:]...)
			}
			proven(types)
			b := manyOf(t, types, 1000)
			err := a.PushBulk(a.c, b)
			if tt.want == nil && err != nil || tt.want != nil && err == nil || b.InDoubt() || b.Done() != tt.there {
				t.Errorf("%v; done %t, in doubt %t", err, b.Done(), b.InDoubt())
			}
			for _, text := range tt.want {
				if err != nil && !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
			a.Do(t, "CONFIG", "SET", "maxmemory", "0")
			there := 0
			if a.Text(t, "TYPE", "resque:queue:q") == "list" {
				for _, job := range a.List(t, "LRANGE", "resque:queue:q", 0, -1) {
					if len(job) == len(`{"class":"J","args":[1000],"id":"id1000"}`) {
						there++
					}
				}
			}
			if want := map[bool]int{true: 2 * fewestPlain}[tt.there]; there != want {
				t.Errorf("%d jobs are there, want %d", there, want)
			}
		})
	}
}

// Many jobs that go without the script lift the cancels of their own ids and places and no others, however they hear of the ids.
func TestPushManyLiftsCancels(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		queue   string
		ids     func(i int) string
		change  [][]any
		refused bool // the script, or a command in it
		eval    bool // the script is asked
	}{
		"as they are":                 {eval: true},
		"many":                        {ids: func(i int) string { return fmt.Sprintf("%0200d", i) }, eval: true},
		"escaped":                     {ids: func(i int) string { return fmt.Sprintf(`a"%d\`, i) }},
		"beyond ASCII":                {ids: func(i int) string { return fmt.Sprintf("é%d\xff", i) }},
		"in a MessagePack queue":      {queue: "msgpack:q"},
		"without the right to LRANGE": {change: [][]any{{"ACL", "SETUSER", "u", "-lrange"}}, refused: true, eval: true},
		"without the right to ZCARD":  {change: [][]any{{"ACL", "SETUSER", "u", "-zcard"}}, refused: true, eval: true},
		"without the right to EVAL":   {change: [][]any{{"ACL", "SETUSER", "u", "-eval"}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdmin(t)
			a.Do(t, "ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all")
			if _, err := a.c.Do("AUTH", "u", ""); err != nil {
				t.Fatal(err)
			}
			queue := tt.queue
			if queue == "" {
				queue = "q"
			}
			if tt.ids == nil {
				tt.ids = func(i int) string { return fmt.Sprint("id", i) }
			}
			key := a.KeyOfCancelled()
			types := new(Types)
			types.permit(true)
			push := func(first, jobs int) {
				t.Helper()
				b := &Bulk{Types: types}
				for i := first; i < first+jobs; i++ {
					if _, err := b.Encode("J", []any{i, `"id":"id1"}`}); err != nil {
						t.Fatal(err)
					}
					if i%5 != 4 { // others have no id
						b.SetText("id", tt.ids(i))
						b.Lift(a.CancelledKey(), tt.ids(i))
					}
					if err := b.Put(Place{Queue: queue}); err != nil {
						t.Fatal(err)
					}
				}
				types.prove(a.KeyOfQueue(queue))
				types.proven = types.proven.Add(time.Hour)
				if err := a.PushBulk(a.c, b); err != nil {
					t.Fatal(err)
				}
			}
			const before, jobs = 20, 1200                              // several pieces of the list
			if err := a.Push(a.c, "other", []byte("{}")); err != nil { // so that Redis knows the script of pushes
				t.Fatal(err)
			}
			push(0, before)
			for _, command := range tt.change {
				a.Do(t, command[0].(string), command[1:]...)
			}
			var stay []string
			for i := range before + jobs + 10 {
				byID, byPlace := CancelledBoth(queue, tt.ids(i))
				a.Do(t, "ZADD", key, 1, byID, 1, byPlace, 1, CancelledPlace("other", tt.ids(i)))
				stay = append(stay, CancelledPlace("other", tt.ids(i)))
				if i < before || i >= before+jobs || i%5 == 4 {
					stay = append(stay, byID, byPlace)
				}
			}
			monitor := a.Monitor(t)
			push(before, jobs)
			var said []string
			for _, c := range monitor.Commands() {
				said = append(said, strings.ToUpper(c[0]))
			}
			if slices.Contains(said, "EVAL") != tt.eval || tt.eval && (said[len(said)-1] == "ZREM") != tt.refused {
				t.Errorf("commands %q", said)
			}
			left := a.List(t, "ZRANGE", key, 0, -1)
			slices.Sort(left)
			slices.Sort(stay)
			if !slices.Equal(left, stay) {
				t.Errorf("%d entries are left, want %d", len(left), len(stay))
			}
			if n := a.Int(t, "LLEN", a.KeyOfQueue(queue)); n != before+jobs {
				t.Errorf("%d jobs", n)
			}

			// The next push names the ids, which costs Redis less where jobs are cancelled. Then the script is asked again.
			byID, _ := CancelledBoth(queue, tt.ids(5000))
			a.Do(t, "ZADD", key, 1, byID)
			monitor = a.Monitor(t)
			push(5000, before)
			for _, c := range monitor.Commands() {
				if strings.EqualFold(c[0], "EVAL") {
					t.Error("the script is asked again at once")
				}
			}
			if a.Text(t, "ZSCORE", key, byID) != "" {
				t.Error("a cancel was not lifted")
			}
			types.cancelled = types.cancelled.Add(-typesFor)
			a.Do(t, "DEL", key)
			monitor = a.Monitor(t)
			push(6000, before)
			said = said[:0]
			for _, c := range monitor.Commands() {
				said = append(said, strings.ToUpper(c[0]))
			}
			if slices.Contains(said, "EVAL") != tt.eval {
				t.Errorf("later commands %q", said)
			}
		})
	}
}

// A connection that breaks leaves it open whether the jobs are there.
func TestPushManyOverABrokenConnection(t *testing.T) {
	a := newAdmin(t)
	types := new(Types)
	for i := range 2 {
		proven(types)
		if err := a.PushBulk(a.c, manyOf(t, types, 100*i)); err != nil {
			t.Fatal(err)
		}
	}
	proven(types)
	b := manyOf(t, types, 1000)
	if err := a.PushBulk(breaking{a.c}, b); !errors.Is(err, io.EOF) || !b.InDoubt() || b.Done() {
		t.Errorf("%v; done %t, in doubt %t", err, b.Done(), b.InDoubt())
	}
}

// breaking is a connection that breaks before an answer.
type breaking struct{ redis.Conn }

func (b breaking) Do(command string, args ...any) (any, error) {
	if _, err := b.Conn.Do(command, args...); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// replied is a connection with the answers of Redis to a transaction. said is what came after them.
type replied struct {
	redis.Conn
	replies []any
	said    []string
}

func (r *replied) Send(string, ...any) error { return nil }
func (r *replied) Close() error              { r.said = append(r.said, "closed"); return nil }
func (r *replied) Do(command string, _ ...any) (any, error) {
	if command == "" {
		return r.replies, nil
	}
	r.said = append(r.said, command)
	return "OK", nil
}

// A transaction that EXEC has given up is over: its connection serves on, so that the script says what was wrong.
func TestTransactionGivenUp(t *testing.T) {
	t.Parallel()
	rpush := func(p *conn.Pipe) {
		p.Command("RPUSH", 2)
		p.Text("q")
		p.Text("j")
	}
	c := &replied{replies: []any{"OK", "QUEUED", redis.Error("EXECABORT Transaction discarded because of: OOM no memory")}}
	if _, begun, refused, err := transaction(c, rpush); !begun || refused == nil || err != nil || len(c.said) > 0 {
		t.Errorf("begun %t, refused %v, error %v; then %q", begun, refused, err, c.said)
	}
	c = &replied{replies: []any{"OK", "QUEUED", redis.Error("NOPERM no exec")}}
	if _, begun, refused, err := transaction(c, rpush); !begun || refused == nil || err != nil || !slices.Equal(c.said, []string{"DISCARD"}) {
		t.Errorf("begun %t, refused %v, error %v; then %q", begun, refused, err, c.said)
	}
}

// Plain jobs of callers who do not know each other go without the script too, and each of these learns of its own job that the queue has no
// name.
func TestPushTogetherWithoutScript(t *testing.T) {
	a := newAdmin(t)
	for _, named := range []bool{true, false} {
		a.Do(t, "FLUSHALL")
		types := new(Types)
		all := new(Together)
		all.Reset(types)
		for i := range fewestPlain {
			b := new(Bulk)
			if err := b.Add("q", "J", []any{i}); err != nil || !all.Add(b) {
				t.Fatal(err)
			}
		}
		types.permit(true)
		proven(types)
		if !named {
			a.Do(t, "SET", "resque:queues", "x")
		}
		monitor := a.Monitor(t)
		errs, soft := a.PushTogether(a.c, all)
		if said := monitor.Commands(); len(said) != 4 || !strings.EqualFold(said[0][0], "MULTI") || len(soft) > 0 {
			t.Errorf("commands %q, soft %v", said, soft)
		}
		for i, err := range errs {
			if one := all.of[i]; !one.Done() || one.InDoubt() || named != (err == nil) {
				t.Errorf("job %d: done %t, in doubt %t, %v", i, one.Done(), one.InDoubt(), err)
			}
			if err != nil && (!strings.Contains(err.Error(), "1 job is in the list resque:queue:q, so do not enqueue it again") || !strings.Contains(err.Error(), "WRONGTYPE")) {
				t.Errorf("job %d: %v", i, err)
			}
		}
		if n := a.Int(t, "LLEN", "resque:queue:q"); n != fewestPlain {
			t.Errorf("%d jobs", n)
		}
	}
}

// A Bulk that is used again takes little memory but that of the values that redigo is given: a list and a slice for each job here.
func TestBulkIsUsedAgain(t *testing.T) {
	w := newWire(t)
	b, types := new(Bulk), new(Types)
	const jobs = 100
	push := func() {
		b.Reset()
		b.Types = types
		for range jobs {
			if _, err := b.Encode("C", nil); err != nil {
				t.Fatal(err)
			}
			b.SetText("id", "a")
			b.Lift(w.s.CancelledKey(), "a")
			w.must(b.Put(Place{Queue: "low"}))
		}
		w.must(w.s.PushBulk(w.c, b))
	}
	push()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 10 {
		push()
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / (10 * jobs); n > 100 {
		t.Errorf("%d bytes a job", n)
	}
	w.same("jobs", 11*jobs, len(w.queue("low")))
}
