package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// carrier is a Rider that has each renewal carry what a test wants. Its load runs on the goroutine of the lease.
type carrier struct {
	*bundle
	load func(*resque.Cargo)
}

func (c carrier) Load(cargo *resque.Cargo) { c.load(cargo) }

// renewals has the lease of a process renewed by hand.
func renewals(t *testing.T, load func(*resque.Cargo)) *bundle {
	b := setup(t)
	b.Riders = []Rider{carrier{b, load}, b}
	b.parent = t.Context()
	if err := b.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.line.Limit = time.Minute // a busy machine is slow
	t.Cleanup(b.line.Close)
	return b
}

// What a renewal carries is written and read with it. A command that Redis refuses costs neither the lease nor the others.
func TestRenewalCarries(t *testing.T) {
	t.Parallel()
	var heard []string
	store := resque.New("")
	load := func(c *resque.Cargo) {
		said := func(what string) func(error) {
			return func(err error) { heard = append(heard, fmt.Sprintf("%s %v", what, err != nil)) }
		}
		c.Read(func(reply any, err error) {
			text, _ := redis.String(reply, err)
			heard = append(heard, "read "+text)
		}, "HGET", store.HashKey("numbers"), "a")
		c.Read(func(reply any, err error) { heard = append(heard, fmt.Sprint("nothing ", reply, err)) }, "HGET", store.HashKey("numbers"), "no")
		c.Write(said("add"), "HINCRBY", store.HashKey("numbers"), "a", 5)
		c.Write(said("type"), "RPUSH", store.ListKey("numbers"), "x")
		c.Write(said("command"), "NOSUCH", store.HashKey("numbers"))
		c.Write(nil, "EXPIRE", store.HashKey("numbers"), 100)
		c.Write(said("push"), "RPUSH", store.ListKey("list"), "x", "", "y")
		c.Read(func(reply any, err error) {
			all, err := redis.Strings(reply, err)
			heard = append(heard, fmt.Sprintf("%q %v", all, err))
		}, "LRANGE", store.ListKey("list"), 0, 9)
		for last := range 2 {
			c.Read(func(reply any, err error) {
				all, _ := redis.Strings(reply, nil)
				heard = append(heard, fmt.Sprintf("%d large %v", len(all), err != nil))
			}, "LRANGE", store.ListKey("large"), 0, last)
		}
	}
	b := renewals(t, load)
	for range 2 {
		b.redis.Do(t, "RPUSH", "resque:go:large", strings.Repeat("x", 70_000))
	}
	if err := b.beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"add false", "type true", "command true", "push false", "read 5", "nothing <nil> <nil>", `["x" "" "y"] <nil>`, "1 large false", "0 large true"}
	if !slices.Equal(heard, want) {
		t.Errorf("heard %q", heard)
	}
	if !b.called("held me:1") || b.redis.Int(t, "TTL", "resque:go:numbers") <= 0 {
		t.Errorf("the lease was not renewed, or what came behind a refused command not done: %q", b.redis.Keys(t))
	}
	for range 2 {
		b.redis.Do(t, "RPUSH", "resque:queue:large", strings.Repeat("x", 70_000))
	}
	head := &resque.Cargo{Number: 8}
	said := ""
	store.ReadHead(head, "large", func(jobs [][]byte) { said = fmt.Sprint(jobs) }, func(err error) { said = "refused" })
	if _, err := store.Renew(b.redis.Dial(t), "me:1", LeasePeriod, renewalGap, head); err != nil || said != "refused" {
		t.Errorf("the head of a queue of large jobs: %q, error %v", said, err)
	}
	var refused *resque.RefusedError
	c := &resque.Cargo{Number: 9}
	c.Write(func(err error) {
		if !errors.As(err, &refused) || refused.Key != "resque:go:numbers" || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("refused with %v", err)
		}
	}, "RPUSH", store.ListKey("numbers"), "x")
	if _, err := store.Renew(b.redis.Dial(t), "me:1", LeasePeriod, renewalGap, c); err != nil || refused == nil {
		t.Errorf("renewed with %v", err)
	}
}

// Where the answer to a renewal is lost, its writes are sent again and done once. Its reads are answered.
func TestRenewalSentAgain(t *testing.T) {
	t.Parallel()
	loads, read := 0, 0
	store := resque.New("")
	b := renewals(t, func(c *resque.Cargo) {
		loads++
		c.Write(nil, "HINCRBY", store.HashKey("numbers"), "a", 1)
		c.Read(func(reply any, err error) { read, _ = redis.Int(reply, err) }, "HGET", store.HashKey("numbers"), "a")
	})
	for range 3 { // Redis does what it is sent, and the process does not hear it
		Load(&b.cargo, b.riders())
		copied := b.cargo.Cargo
		if _, err := store.Renew(b.redis.Dial(t), "me:1", LeasePeriod, renewalGap, &copied); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.redis.Int(t, "HGET", "resque:go:numbers", "a"); n != 1 || loads != 1 || read != 1 {
		t.Errorf("written %d times, loaded %d times, read %d", n, loads, read)
	}
	if err := b.beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.redis.Int(t, "HGET", "resque:go:numbers", "a"); n != 2 || read != 2 {
		t.Errorf("the next renewal left %d and read %d", n, read)
	}
}

// A process that stops renews once more if its riders have something left, and says that it is the last time.
func TestRenewalAtStop(t *testing.T) {
	t.Parallel()
	store := resque.New("")
	b := renewals(t, func(c *resque.Cargo) {
		if c.Last {
			c.Write(nil, "HINCRBY", store.HashKey("numbers"), "last", 1)
		}
	})
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.redis.Int(t, "HGET", "resque:go:numbers", "last"); n != 1 {
		t.Errorf("written %d times", n)
	}
}

// What a process was about to write into its record is not written any more when others have found the process dead.
func TestRenewalOfALostSession(t *testing.T) {
	t.Parallel()
	store := resque.New("")
	b := renewals(t, func(c *resque.Cargo) {
		c.Write(nil, "HINCRBY", store.HashKey("numbers"), "a", 1)
	})
	old := b.Self()
	Load(&b.cargo, b.riders())
	b.cargo.Write(nil, "HSET", store.ProcessKey(old), "vitals", "{}")
	b.cargo.Write(nil, "HSET", store.DepthsKey(), "work", "what it found out long ago")
	b.redis.Do(t, "DEL", "resque:go:process:"+old)
	b.redis.Do(t, "SET", "resque:go:reaped:"+old, "")
	for range 2 { // the first finds it out, the second is of the next session
		if err := b.beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if b.Self() == old || b.redis.Int(t, "EXISTS", "resque:go:process:"+old) != 0 {
		t.Errorf("%s was dead, this process is %s now, and the record of the dead one is there again", old, b.Self())
	}
	if n := b.redis.Int(t, "HGET", "resque:go:numbers", "a"); n != 1 {
		t.Errorf("what else it carried was written %d times", n)
	}
	if b.redis.Int(t, "EXISTS", "resque:go:depths") != 0 {
		t.Error("what it found out before is written over what the new keeper has")
	}
}

// A renewal does not fail again and again through what it carries: it goes without, tries it once more, and drops it.
func TestRenewalWithoutItsCargo(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		written int
		spoil   func(*bundle, *resque.Cargo)
	}{
		"script": {2, func(_ *bundle, c *resque.Cargo) { // Lua cannot unpack so many arguments
			c.Read(nil, "HMGET", resque.New("").HashKey("numbers"), make([]any, 9000)...)
		}},
		"permission": {1, func(b *bundle, c *resque.Cargo) { // Redis looks at all keys before it runs a script
			b.redis.Do(b.t, "ACL", "SETUSER", "default", "resetkeys", "~resque:*")
			c.Write(nil, "SET", resque.New("other:").HashKey("numbers"), "x")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "permission" {
				redistest.OwnUser(t)
			}
			loads := 0
			var b *bundle
			b = renewals(t, func(c *resque.Cargo) {
				loads++
				c.Write(nil, "HINCRBY", resque.New("").HashKey("numbers"), "a", 1)
				if loads == 1 {
					row.spoil(b, c)
				}
			})
			for i, fails := range []bool{true, false, true, false, false} {
				before := b.Renewed()
				if err := b.beat(t.Context()); (err != nil) != fails || b.Renewed().After(before) == fails {
					t.Errorf("renewal %d: error %v", i, err)
				}
			}
			if n := b.redis.Int(t, "HGET", "resque:go:numbers", "a"); n != row.written || loads != 2 {
				t.Errorf("written %d times, loaded %d times", n, loads)
			}
			if n := b.log.count("is lost"); n != 1 {
				t.Errorf("%d lines", n)
			}
		})
	}
}

// Answers that cannot be read are lost. The renewal is answered all the same.
func TestAnswersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var c resque.Cargo
	c.Read(func(any, error) { t.Error("heard") }, "HGET", resque.New("").HashKey("numbers"), "a")
	text := []byte("1")
	due, _, err := resque.RenewalDue([]any{text, text, text, text, text, text, text, text, text}, &c)
	if err != nil || due.Now.Unix() != 1 || !c.Empty() {
		t.Errorf("%+v, %v, empty: %v", due, err, c.Empty())
	}
	if lost := c.Renewed(true, err); lost == nil {
		t.Error("nothing says that they are lost")
	}
}

// What Redis may have written already is not written again once the record is gone that would say so.
func TestUnansweredRenewalOfALostRecord(t *testing.T) {
	t.Parallel()
	for name, dead := range map[string]bool{"found dead": true, "gone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loads := 0
			store := resque.New("")
			b := renewals(t, func(c *resque.Cargo) {
				loads++
				c.Write(nil, "HINCRBY", store.HashKey("numbers"), fmt.Sprint(loads), 1)
			})
			Load(&b.cargo, b.riders())
			if err := b.cargo.Send(b.base.Log, func(cargo *resque.Cargo) error { // the process does not hear the answer
				copied := *cargo
				_, err := store.Renew(b.redis.Dial(t), b.Self(), LeasePeriod, renewalGap, &copied)
				return errors.Join(err, errLost)
			}); !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			b.redis.Do(t, "DEL", "resque:go:process:"+b.Self())
			if dead {
				b.redis.Do(t, "SET", "resque:go:reaped:"+b.Self(), "")
			}
			if err := b.beat(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !dead { // the owner enters it again
				if err := b.enter(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.beat(t.Context()); err != nil {
				t.Fatal(err)
			}
			first, second := b.redis.Int(t, "HGET", "resque:go:numbers", "1"), b.redis.Int(t, "HGET", "resque:go:numbers", "2")
			if first != 1 || second != 1 {
				t.Errorf("the first one was written %d times, the second one %d times", first, second)
			}
		})
	}
}

// The last renewals leave half of the time for what comes behind them.
func TestUnloadTakesHalfOfTheTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	var c Cargo
	c.Write(nil, "HINCRBY", resque.New("").HashKey("numbers"), "a", 1)
	err := Unload(ctx, &c, []Rider(nil), func(ctx context.Context) error {
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > time.Hour/2 {
			t.Errorf("it may take until %s", end)
		}
		return errLost
	})
	if !errors.Is(err, errLost) {
		t.Errorf("error %v", err)
	}
}
