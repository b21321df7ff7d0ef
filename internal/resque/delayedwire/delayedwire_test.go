package delayedwire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"pgregory.net/rapid"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const q = Queue("calc")

// Whatever bridges, workers of delayed, producers and sweepers do in whatever order, and wherever they are killed: each task is in
// one place. When all have had their turn, it has run.
func TestNoTaskIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := server.Dial(t)
	to := Target{Store: resque.New(""), Queue: "jobs", Most: 5}
	rapid.Check(t, func(r *rapid.T) {
		server.Do(t, "FLUSHALL")
		pushed, done := 0, map[string]int{}
		next, popped, room := [][]byte(nil), Missing, true
		fatal := func(err error) {
			if err != nil {
				r.Fatal(err)
			}
		}
		take := func(lost bool, most int) Taken {
			var moves []Move
			for _, task := range next {
				moves = append(moves, Move{Task: task, To: task, Failure: task[0]%2 == 0})
			}
			got, err := q.Take(c, to, moves, popped, most)
			fatal(err)
			if next, popped, room = got.Next, got.Popped, got.Room > 0; lost { // the bridge was killed, or did not get the answer
				next, popped = nil, Missing
			}
			return got
		}
		drain := func(key string) {
			for _, task := range server.List(t, "LRANGE", key, 0, -1) {
				done[task]++
			}
			server.Do(t, "DEL", key)
		}
		add := func(n int, notes bool) {
			var tasks [][]byte
			for range n {
				tasks = append(tasks, fmt.Appendf(nil, "%c%d", 'a'+pushed%2, pushed))
				pushed++
			}
			if notes {
				_, err := q.Add(c, tasks...)
				fatal(err)
				return
			}
			server.Do(t, "RPUSH", redis.Args{string(q)}.AddFlat(tasks)...) // its producer was killed before the notifications
		}
		mend := func() {
			_, err := q.Mend(c)
			fatal(err)
		}
		r.Repeat(map[string]func(*rapid.T){
			"add":               func(r *rapid.T) { add(rapid.IntRange(1, 4).Draw(r, "n"), true) },
			"add without notes": func(r *rapid.T) { add(1, false) },
			"surplus note":      func(*rapid.T) { server.Do(t, "RPUSH", q.notifications(), "1") },
			"take": func(r *rapid.T) {
				take(rapid.Bool().Draw(r, "lost"), rapid.IntRange(0, 4).Draw(r, "most"))
			},
			"wait": func(r *rapid.T) { // as step of the bridge does, without the time
				if len(next) > 0 || !room {
					return
				}
				popped = Missing
				if server.Text(t, "LPOP", q.notifications()) != "" {
					popped = 1
				}
			},
			"worker of delayed": func(r *rapid.T) {
				if server.Text(t, "LPOP", q.notifications()) == "" {
					return
				}
				id := fmt.Sprint("w", rapid.IntRange(0, 3).Draw(r, "worker"))
				if server.Int(t, "HEXISTS", q.inHand(), id) == 1 {
					return // killed before it took a task
				}
				if task := server.Text(t, "LPOP", string(q)); task != "" {
					server.Do(t, "HSET", q.inHand(), id, task)
					server.Do(t, "SET", id, 1)
				}
			},
			"release": func(r *rapid.T) {
				id := fmt.Sprint("w", rapid.IntRange(0, 3).Draw(r, "worker"))
				if task := server.Text(t, "HGET", q.inHand(), id); task != "" {
					done[task]++
					server.Do(t, "HDEL", q.inHand(), id)
				}
			},
			"die":  func(r *rapid.T) { server.Do(t, "DEL", fmt.Sprint("w", rapid.IntRange(0, 3).Draw(r, "worker"))) },
			"mend": func(*rapid.T) { mend() },
			"run":  func(*rapid.T) { drain("resque:queue:jobs"); drain("resque:failed") },
			"": func(r *rapid.T) {
				at := map[string]int{}
				for task, n := range done {
					at[task] += n
				}
				for _, key := range []string{string(q), "resque:queue:jobs", "resque:failed"} {
					for _, task := range server.List(t, "LRANGE", key, 0, -1) {
						at[task]++
					}
				}
				for _, task := range server.List(t, "HVALS", q.inHand()) {
					at[task]++
				}
				for task, n := range at {
					if n != 1 {
						r.Fatalf("the task %s is in %d places", task, n)
					}
				}
				if len(at) != pushed {
					r.Fatalf("of %d tasks %d are there", pushed, len(at))
				}
				if n := server.Int(t, "LLEN", "resque:queue:jobs"); n > to.Most {
					r.Fatalf("%d jobs wait", n)
				}
			},
		})
		for i := range 4 {
			server.Do(t, "DEL", fmt.Sprint("w", i))
		}
		mend()
		if tasks, notes := server.Int(t, "LLEN", string(q)), server.Int(t, "LLEN", q.notifications()); notes < tasks {
			r.Fatalf("%d tasks have %d notifications", tasks, notes)
		}
		for next, popped = nil, Missing; ; {
			got := take(false, 3)
			drain("resque:queue:jobs")
			drain("resque:failed")
			if got.Waiting == 0 && len(got.Next) == 0 {
				break
			}
		}
		if len(done) != pushed {
			r.Fatalf("of %d tasks %d have run", pushed, len(done))
		}
	})
}

// The tasks that were read are compared: what another worker has taken since is left to it.
func TestTakeStopsWhereTheHeadDiffers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := server.Dial(t)
	to := Target{Store: resque.New(""), Queue: "jobs", Most: 100, MultiQueue: true}
	if _, err := q.Add(c, []byte("a"), []byte("b"), []byte("c"), []byte("d")); err != nil {
		t.Fatal(err)
	}
	move := func(task string) Move {
		return Move{Task: []byte(task), To: []byte("job " + task), Failure: task == "b"}
	}
	got, err := q.Take(c, to, []Move{move("a"), move("b"), move("x"), move("d")}, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if got.Tasks != 2 || got.Waiting != 2 || got.Room != 99 || len(got.Next) != 2 || string(got.Next[0]) != "c" {
		t.Errorf("it took %+v", got)
	}
	for key, want := range map[string][]string{
		"calc": {"c", "d"}, "calc_noti": {"1", "1"}, "resque:queue:jobs": {"job a"}, "resque:jobs_failed": {"job b"},
	} {
		if have := server.List(t, "LRANGE", key, 0, -1); !slices.Equal(have, want) {
			t.Errorf("%s is %q, want %q", key, have, want)
		}
	}
	for set, want := range map[string]string{"resque:queues": "jobs", "resque:failed_queues": "jobs_failed"} {
		if have := server.List(t, "SMEMBERS", set); !slices.Equal(have, []string{want}) {
			t.Errorf("%s is %q, want %s", set, have, want)
		}
	}
}

// Many tasks, of which Lua cannot unpack all at once, and those that are too large for one call.
func TestManyTasks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := server.Dial(t)
	var tasks [][]byte
	for i := range 20000 {
		tasks = append(tasks, fmt.Append(nil, i))
	}
	tasks = append(tasks, make([]byte, addBytes), make([]byte, addBytes+1), []byte("last"))
	if n, err := q.Add(c, tasks...); err != nil || n != len(tasks) {
		t.Fatal(n, err)
	}
	server.Do(t, "LTRIM", string(q), 0, 19999)
	server.Do(t, "DEL", q.notifications())
	if did, err := q.Mend(c); err != nil || did != (Mended{0, 20000}) {
		t.Fatal(did, err)
	}
	var moves []Move
	for _, task := range tasks[:20000] {
		moves = append(moves, Move{Task: task, To: task})
	}
	got, err := q.Take(c, Target{Store: resque.New(""), Queue: "jobs", Most: 1 << 20}, moves, 0, 1)
	if err != nil || got.Tasks != 20000 || server.Int(t, "LLEN", "resque:queue:jobs") != 20000 || server.Int(t, "EXISTS", string(q), q.notifications()) != 0 {
		t.Errorf("it took %+v, %v", got, err)
	}
}

// Any answer, from whatever server: no call panics, and an error is a sentence.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"", "\x07\x05\x01\x01\x01\x01\x07\x01" + redistest.Leaf("task"), "\x07\x03\x01\x01\x01", "\x07\x02" + redistest.Leaf("w") + redistest.Leaf("task") + "\x01\x07\x03\x00\x00\x00",
	} {
		f.Add([]byte(seed))
	}
	to := Target{Store: resque.New(""), Queue: "jobs"}
	calls := map[string]func(c redis.Conn) error{
		"take":   func(c redis.Conn) error { _, err := q.Take(c, to, []Move{{Task: []byte("x")}}, 0, 1); return err },
		"mend":   func(c redis.Conn) error { _, err := q.Mend(c); return err },
		"add":    func(c redis.Conn) error { _, err := q.Add(c, []byte("x")); return err },
		"await":  func(c redis.Conn) error { _, err := q.Await(c, time.Second, time.Second); return err },
		"serves": func(c redis.Conn) error { return q.Serves(c) },
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, call := range calls {
			if err := call(redistest.Answering(redistest.Trees(text)...)); err != nil && !strings.Contains(err.Error(), "queue calc of delayed") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A task uses up one notification: a popped one first, and none that another worker has popped.
func TestNotificationsAreUsedUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tasks, notes, popped, room int
		next, taken, left, popping int // tasks that may be taken; after taking all these: taken, notifications, popped ones
	}{
		"each has one":                    {4, 4, 0, 9, 4, 4, 0, 0},
		"two were popped here":            {4, 2, 2, 9, 4, 4, 0, 0},
		"two were popped here, and more":  {4, 4, 2, 9, 4, 4, 2, 0},
		"more were popped than there are": {2, 0, 3, 9, 2, 2, 0, 1},
		"one was popped by another":       {4, 3, 0, 9, 3, 3, 0, 0},
		"all were popped by others":       {4, 0, 0, 9, 0, 0, 0, 0},
		"all are missing":                 {4, 0, Missing, 9, 4, 4, 0, 0},
		"some are missing":                {4, 1, Missing, 9, 4, 4, 0, 0},
		"none is missing":                 {4, 4, Missing, 9, 4, 4, 0, 0},
		"there are too many":              {4, 6, Missing, 9, 4, 4, 2, 0},
		"there is room for two":           {4, 4, 0, 2, 2, 2, 2, 0},
		"there is no room":                {4, 4, 1, 0, 0, 0, 4, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			c := server.Dial(t)
			for i := range test.tasks {
				server.Do(t, "RPUSH", string(q), i)
			}
			for range test.notes {
				server.Do(t, "RPUSH", q.notifications(), "1")
			}
			to := Target{Store: resque.New(""), Queue: "jobs", Most: test.room}
			read, err := q.Take(c, to, nil, test.popped, 9)
			if err != nil || len(read.Next) != test.next || read.Room != test.room || read.Waiting != test.tasks {
				t.Fatalf("it reads %+v, %v", read, err)
			}
			var moves []Move
			for i := range test.tasks {
				moves = append(moves, Move{Task: fmt.Append(nil, i), To: []byte("job")})
			}
			got, err := q.Take(c, to, moves, read.Popped, 0)
			if err != nil || got.Tasks != test.taken || got.Popped != test.popping || server.Int(t, "LLEN", q.notifications()) != test.left {
				t.Errorf("it took %+v, %v, and %d notifications are left", got, err, server.Int(t, "LLEN", q.notifications()))
			}
		})
	}
}

// between does something before the first script that a connection sends.
type between struct {
	redis.Conn
	do func()
}

func (b *between) Do(command string, args ...any) (any, error) {
	if command == "EVALSHA" && b.do != nil {
		b.do()
		b.do = nil
	}
	return b.Conn.Do(command, args...)
}

// A worker that was dead has another task in hand, or none, when the script comes: another sweeper was faster.
func TestMendComparesTheTask(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "HSET", q.inHand(), "w1", "a", "w2", "b", "w3", "c")
	c := &between{server.Dial(t), func() {
		server.Do(t, "HDEL", q.inHand(), "w1")
		server.Do(t, "HSET", q.inHand(), "w2", "other")
	}}
	if did, err := q.Mend(c); err != nil || did != (Mended{1, 1}) {
		t.Errorf("it did %+v, %v", did, err)
	}
	if got := server.List(t, "LRANGE", string(q), 0, -1); !slices.Equal(got, []string{"c"}) {
		t.Errorf("it brought back %q", got)
	}
	if got := server.Text(t, "HGET", q.inHand(), "w2"); got != "other" {
		t.Errorf("w2 has %q in hand", got)
	}
}

// A worker may have any id, and the proof that the user may write deletes no task.
func TestMendLeavesTheTasksOfWorkersThatLive(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := server.Dial(t)
	for _, worker := range []string{"", "-", "--"} {
		server.Do(t, "SET", worker, 1)
		server.Do(t, "HSET", q.inHand(), worker, "task of "+worker)
	}
	if did, err := q.Mend(c); err != nil || did != (Mended{}) {
		t.Errorf("it did %+v, %v", did, err)
	}
	if n := server.Int(t, "HLEN", q.inHand()); n != 3 {
		t.Errorf("%d workers have a task in hand, want 3", n)
	}
}
