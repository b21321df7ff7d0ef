package resque

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/redistest"
)

// admin is the fixture of the tests of the administrative side.
type admin struct {
	*redistest.Server
	Store
	c redis.Conn
}

func newAdmin(t *testing.T) admin {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	return admin{Server: server, Store: New(""), c: server.Dial(t)}
}

func (a admin) push(t *testing.T, queue string, payloads ...string) {
	t.Helper()
	raws := make([][]byte, len(payloads))
	for i, p := range payloads {
		raws[i] = []byte(p)
	}
	if err := a.Push(a.c, queue, raws...); err != nil {
		t.Fatal(err)
	}
}

func (a admin) wantKeys(t *testing.T, want map[string]any) {
	t.Helper()
	if diff := cmp.Diff(want, a.Dump(t, DefaultNamespace)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

// goldenPushes are the jobs that Ruby enqueued in a recording.
func goldenPushes(r redistest.Recording) (pushes [][2]string) {
	for _, c := range r.Commands {
		if c[0] == "RPUSH" && strings.HasPrefix(c[1], "resque:queue:") {
			pushes = append(pushes, [2]string{strings.TrimPrefix(c[1], "resque:queue:"), c[2]})
		}
	}
	return pushes
}

func TestPushAsRuby(t *testing.T) {
	a := newAdmin(t)
	golden := redistest.Golden(t, "enqueue")
	monitor := a.Monitor(t)
	for _, p := range goldenPushes(golden) {
		a.push(t, p[0], p[1])
	}
	var writes [][]string
	for _, c := range monitor.Inner() {
		if c[0] != "SCARD" && c[0] != "LLEN" {
			writes = append(writes, c)
		}
	}
	if diff := cmp.Diff(golden.Commands, writes); diff != "" {
		t.Errorf("commands (-ruby +ours):\n%s", diff)
	}
	a.wantKeys(t, redistest.Values(golden.KeysAfter))
}

func TestPushMany(t *testing.T) {
	a := newAdmin(t)
	var payloads []string
	for i := range 5001 {
		payloads = append(payloads, fmt.Sprintf(`{"class":"J","args":[%d]}`, i))
	}
	a.push(t, "q", payloads...)
	if diff := cmp.Diff(payloads, a.List(t, "LRANGE", "resque:queue:q", 0, -1)); diff != "" {
		t.Error(diff)
	}
	a.push(t, "none")
	wantError(t, a.Push(a.c, "", []byte("{}")), "queue has no name")
	if got := a.List(t, "SMEMBERS", "resque:queues"); !slices.Equal(got, []string{"q"}) {
		t.Errorf("queues %q", got)
	}
}

func TestPushRefused(t *testing.T) {
	job := []byte(`{"class":"J","args":[]}`)
	tests := []struct {
		name   string
		before [][]any
		user   string
		want   []string
	}{
		{"out of memory", [][]any{{"CONFIG", "SET", "maxmemory", "1"}}, "", []string{"queue q", "maxmemory", "OOM"}},
		{"replica", [][]any{{"REPLICAOF", "127.0.0.1", "1"}}, "", []string{"queue q", "master", "READONLY"}},
		{"queues of another type", [][]any{{"SET", "resque:queues", "x"}}, "", []string{"queue q", "another type", "WRONGTYPE"}},
		{"queue of another type", [][]any{{"SET", "resque:queue:q", "x"}}, "", []string{"queue q", "another type", "WRONGTYPE"}},
		{"may not push", [][]any{{"ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all", "-rpush"}}, "u", []string{"queue q"}},
		{"may not touch the queue", [][]any{{"ACL", "SETUSER", "u", "on", "nopass", "~resque:queues", "+@all"}}, "u", []string{"queue q", "ACL", "NOPERM"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := newAdmin(t)
			for _, command := range test.before {
				a.Do(t, command[0].(string), command[1:]...)
			}
			if test.user != "" {
				if _, err := a.c.Do("AUTH", test.user, ""); err != nil {
					t.Fatal(err)
				}
			}
			wantError(t, a.Push(a.c, "q", job), test.want...)
			if a.Text(t, "TYPE", "resque:queue:q") == "list" {
				t.Error("the job is there all the same")
			}
		})
	}
}

func TestDequeueAsRuby(t *testing.T) {
	a := newAdmin(t)
	golden := redistest.Golden(t, "dequeue")
	for _, p := range goldenPushes(golden) {
		a.push(t, p[0], p[1])
	}
	a.wantKeys(t, redistest.Values(golden.Snapshots["before"]))
	monitor := a.Monitor(t)
	want := golden.Commands[len(golden.Commands)-1]
	n, err := a.Dequeue(a.c, "low", []byte(want[3]))
	if err != nil || n != 2 {
		t.Errorf("removed %d, %v; want 2", n, err)
	}
	if diff := cmp.Diff([][]string{want}, monitor.Commands()); diff != "" {
		t.Errorf("commands (-ruby +ours):\n%s", diff)
	}
	a.wantKeys(t, redistest.Values(golden.KeysAfter))
}

func TestDequeueForms(t *testing.T) {
	a := newAdmin(t)
	a.push(t, "q", `{"class":"J","args":[1,"a"],"id":"x"}`, `{"class":"J","args":[1, "a"]}`)
	if n, err := a.Dequeue(a.c, "q", []byte(`{"class":"J","args":[1,"a"]}`)); n != 0 || err != nil {
		t.Errorf("exactly: %d, %v; want 0", n, err)
	}
	a.Do(t, "SET", "resque:queue:odd", "x")
	_, err := a.Dequeue(a.c, "odd", []byte("x"))
	wantError(t, err, "queue odd", "WRONGTYPE")
	_, err = a.QueueSize(a.c, "odd")
	wantError(t, err, "queue odd", "WRONGTYPE")
	_, err = a.Peek(a.c, "odd", 0, 1)
	wantError(t, err, "queue odd", "WRONGTYPE")
}

func TestRemoveQueueAsRuby(t *testing.T) {
	a := newAdmin(t)
	golden := redistest.Golden(t, "remove_queue")
	for _, p := range goldenPushes(golden) {
		a.push(t, p[0], p[1])
	}
	monitor := a.Monitor(t)
	if err := a.RemoveQueue(a.c, "low"); err != nil {
		t.Fatal(err)
	}
	want := slices.Concat([][]string{{"MULTI"}}, golden.Commands[len(golden.Commands)-2:], [][]string{{"EXEC"}})
	if diff := cmp.Diff(want, monitor.Commands()); diff != "" {
		t.Errorf("commands (-ruby +ours):\n%s", diff)
	}
	a.wantKeys(t, redistest.Values(golden.KeysAfter))

	a.Do(t, "SET", "resque:queues", "x")
	wantError(t, a.RemoveQueue(a.c, "low"), "queue low", "WRONGTYPE")
	a.Do(t, "REPLICAOF", "127.0.0.1", "1")
	wantError(t, a.RemoveQueue(a.c, "low"), "queue low", "READONLY")
}

func TestQueues(t *testing.T) {
	a := newAdmin(t)
	for _, q := range []string{"b", "a", "10", "2", "Zed", "a:b"} {
		a.push(t, q, "{}")
	}
	a.Do(t, "LPOP", "resque:queue:a")
	got, err := a.Queues(a.c)
	if want := []string{"10", "2", "Zed", "a", "a:b", "b"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	a.Do(t, "SET", "resque:queues", "x")
	_, err = a.Queues(a.c)
	wantError(t, err, "set of queues", "WRONGTYPE")
}

func TestPeek(t *testing.T) {
	a := newAdmin(t)
	a.push(t, "q", "0", "1", "2", "3", "4")
	for _, test := range []struct {
		start, count int
		want         string
	}{
		{0, 2, "01"}, {3, 9, "34"}, {9, 1, ""}, {1, -1, "1234"}, {1, 0, ""},
		{-2, 2, "34"}, {-2, 9, "34"}, {-3, 1, "2"}, {-2, -1, "34"},
		{3, math.MaxInt, "34"}, {-2, math.MaxInt, "34"}, {math.MaxInt, math.MaxInt, ""},
	} {
		raws, err := a.Peek(a.c, "q", test.start, test.count)
		var got string
		for _, raw := range raws {
			got += string(raw)
		}
		if err != nil || got != test.want {
			t.Errorf("Peek(%d, %d) = %q, %v; want %q", test.start, test.count, got, err, test.want)
		}
	}
}

func TestBrokenConnection(t *testing.T) {
	a := newAdmin(t)
	a.push(t, "q", "{}")
	a.Kill()
	if err := a.Push(a.c, "q", []byte("{}")); err == nil {
		t.Error("Push: no error")
	}
	if err := a.RemoveQueue(a.c, "q"); err == nil {
		t.Error("RemoveQueue: no error")
	}
	if _, err := a.Workers(a.c); err == nil {
		t.Error("Workers: no error")
	}
	if _, err := a.Info(a.c, true); err == nil {
		t.Error("Info: no error")
	}
}
