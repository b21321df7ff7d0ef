package duty

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

type fleet struct {
	self    string
	members []string
}

func (f *fleet) Self() string      { return f.self }
func (f *fleet) Members() []string { return append([]string(nil), f.members...) }

// The keeper is the first process whose release knows the duties, also where the records of many older ones come before it.
// A record is read once, and none while a process before this one is known to have the duties.
func TestKeeper(t *testing.T) {
	t.Parallel()
	server, store := redistest.Start(t), resque.New("")
	c := server.Dial(t)
	f := &fleet{self: "m"}
	if err := store.Enter(c, resque.Process{ID: "m", Started: time.Unix(1, 0)}, time.Hour, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	number := int64(0)
	k := New(store, 1, f)
	renew := func() (reads bool) {
		t.Helper()
		number++
		cargo := &resque.Cargo{Number: number}
		k.Load(cargo)
		reads = !cargo.Empty()
		if _, err := store.Renew(c, "m", time.Hour, time.Hour, cargo); err != nil {
			t.Fatal(err)
		}
		k.Read()
		return reads
	}
	record := func(id string, duties any) {
		f.members = append(f.members, id)
		server.Do(t, "HSET", "resque:go:process:"+id, "epoch", 1, "duties", duties)
	}
	keeps := func(when string, want bool, most int) {
		t.Helper()
		renewals := 0
		for k.Keeps() != want && renewals < most {
			renew()
			renewals++
		}
		if k.Keeps() != want {
			t.Errorf("%s: keeps %v after %d renewals", when, k.Keeps(), renewals)
		}
	}
	renew()
	if k.Keeps() {
		t.Error("it keeps before the fleet knows it")
	}
	f.members = []string{"z", "m"}
	record("z2", 1)
	keeps("the others come later", true, 1)

	for n := range 120 {
		id := fmt.Sprintf("a%03d", n)
		f.members = append(f.members, id)
		server.Do(t, "HSET", "resque:go:process:"+id, "epoch", 1) // records of another release have no duties
	}
	server.Do(t, "DEL", "resque:go:process:a007")
	server.Do(t, "SET", "resque:go:process:a007", "of another type")
	renew()
	if k.Keeps() {
		t.Error("it keeps while it does not know who comes before it")
	}
	keeps("120 older releases come before it", true, 4)
	if renew() {
		t.Error("a renewal reads records that are known")
	}
	record("b", 2)
	keeps("a newer release comes before it", false, 1)
	renew()
	if renew() || k.Keeps() || k.Behind() != "b" {
		t.Errorf("a renewal reads records that are known, or it keeps: %v; it is behind %q", k.Keeps(), k.Behind())
	}
	f.members = []string{"m", "z"}
	keeps("it has gone", true, 1)
	record("b", 0) // another process may come under the id
	renew()
	keeps("one without duties comes before it", true, 1)

	f.members = []string{"m", "z"}
	keeps("they have gone", true, 1)
	f.members = append(f.members, "c")
	for range 2 {
		if renew(); k.Keeps() {
			t.Error("it keeps while the record of a process before it is missing")
		}
	}
	record("c", 1)
	keeps("the record is there again", false, 1)
	if renew(); renew() || k.Keeps() {
		t.Errorf("a renewal reads a record that is known, or it keeps: %v", k.Keeps())
	}
	f.members = []string{"m", "d"}
	server.Do(t, "HSET", "resque:go:process:d", "epoch", 1)
	keeps("an older release comes before it", true, 2)
	f.members = []string{"m", "d"}
	record("e", 1)
	record("f", 1)
	keeps("two come before it", false, 1)
	renew()
	first := k.Behind()
	f.members = slices.DeleteFunc(f.members, func(id string) bool { return id == first })
	if renew(); first == "" || k.Behind() == "" || k.Behind() == first {
		t.Errorf("it was behind %q, which has gone, and then behind %q at once", first, k.Behind())
	}
	if k.Forget(); k.Behind() != "" {
		t.Error("under another id it is still behind a process")
	}
}
