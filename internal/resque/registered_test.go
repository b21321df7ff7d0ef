package resque

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// What a program has registered is cut where it is too long, says so, expires, and goes with its process.
func TestRegistered(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.enter("p")
	w.enter("q")
	var many Registered
	for n := range 3000 {
		many.Classes = append(many.Classes, RegisteredClass{Name: fmt.Sprint("C", n), Options: []string{strings.Repeat("x", 100)}})
		many.Schedules = append(many.Schedules, RegisteredSchedule{Name: fmt.Sprint("s", n)})
	}
	c := &Cargo{Number: 1}
	w.s.WriteRegistered(c, "p", many, func(err error) { w.must(err) })
	w.s.WriteRegistered(c, "q", Registered{At: 7, Classes: []RegisteredClass{{Name: "A", Retries: -1}}}, nil)
	_, err := w.s.Renew(w.c, "p", lease, time.Minute, c)
	w.must(err)
	all, processes, err := w.s.LiveRegistered(w.c)
	w.must(err)
	if p, q := all["p"], all["q"]; len(processes) != 2 || len(p.Classes)+len(p.Schedules)+p.Left != 6000 || p.Left == 0 || len(p.Classes) == 0 ||
		len(p.Schedules) == 0 || q.At != 7 || len(q.Classes) != 1 || q.Classes[0].Retries != -1 || q.Left != 0 {
		t.Errorf("%v: %d classes, %d schedules, %d left; %+v", processes, len(p.Classes), len(p.Schedules), p.Left, q)
	}
	if n, ms := w.server.Int(t, "STRLEN", w.s.registered("p")), w.server.Int(t, "PTTL", w.s.registered("p")); n > MostRegistered || ms < 24*3600_000 {
		t.Errorf("%d bytes for %d ms", n, ms)
	}
	w.do("RPUSH", w.s.registered("x"), "y")
	w.do("SET", w.s.registered("z"), "no JSON")
	if all, err := w.s.ReadRegistered(w.c, "q", "x", "z", "nobody"); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	_, err = w.s.Leave(w.c, "p")
	w.must(err)
	if n, _ := redis.Int(w.do("EXISTS", w.s.registered("p")), nil); n != 0 {
		t.Error("it is left when its process has gone")
	}
}
