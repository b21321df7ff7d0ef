package leases

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// calls are the calls that use scripts or several commands, each with the keys whose type it needs.
func calls(s Store) map[string]struct {
	keys []string
	call func(c redis.Conn) error
} {
	leases, leased, returned, schedule := s.KeyOfLeases(), s.KeyOfLeased(), s.ReturnedKey().String(), s.KeyOfSchedule()
	queue, names, dead := s.KeyOfQueue("q"), s.KeyOfQueues(), s.deadList("q")
	type row = struct {
		keys []string
		call func(c redis.Conn) error
	}
	return map[string]row{
		"turn": {[]string{leases, leased, returned, s.ServedKey("s1").String()}, func(c redis.Conn) error {
			_, err := s.Turn(c, &Turn{Server: "s1", Number: 99, Seed: seed, Jobs: 9, Bytes: 1000, Asks: []Ask{ask(1, "q", "p")}, Acks: []Ack{{"q", "1", ""}}})
			return err
		}},
		"turn of asks": {[]string{leases, leased, returned, s.ServedKey("s1").String()}, func(c redis.Conn) error {
			_, err := s.Turn(c, &Turn{Server: "s1", Number: 99, Seed: seed, Jobs: 9, Bytes: 1000, Asks: []Ask{ask(1, "q")}})
			return err
		}},
		"served":  {[]string{s.ServedKey("s1").String()}, func(c redis.Conn) error { _, _, err := s.Served(c, "s1", 99); return err }},
		"expired": {[]string{leases, leased, returned}, func(c redis.Conn) error { _, _, _, err := s.Expired(c, 9); return err }},
		"jump":    {nil, func(c redis.Conn) error { return s.Jump(c, time.Minute) }},
		"touch":   {[]string{leases}, func(c redis.Conn) error { _, err := s.Touch(c, "q", "1", "", time.Minute); return err }},
		"leases":  {[]string{leases}, func(c redis.Conn) error { _, err := s.Leases(c, []string{"1:q1", "1:q2"}); return err }},
		"leased":  {[]string{leases, leased}, func(c redis.Conn) error { _, _, err := s.Leased(c, "1:q1"); return err }},
		"mark":    {[]string{returned}, func(c redis.Conn) error { _, err := s.Mark(c, "1:q1", nil); return err }},
		"scan":    {[]string{leases, leased}, func(c redis.Conn) error { _, _, err := s.Scan(c, "0"); return err }},
		"by end":  {[]string{leases, leased}, func(c redis.Conn) error { _, err := s.ByEnd(c, "", 9); return err }},
		"release": {[]string{leases}, func(c redis.Conn) error { _, err := s.Release(c, "q", "1", ""); return err }},
		"takers":  {[]string{s.TakersKey().String()}, func(c redis.Conn) error { _, err := s.Takers(c); return err }},
		"renew taker": {[]string{s.TakersKey().String(), s.TakerKey("s1").String()}, func(c redis.Conn) error {
			_, _, err := s.RenewTaker(c, Taker{ID: "s1"}, time.Minute, nil)
			return err
		}},
		"trim": {[]string{returned}, func(c redis.Conn) error { _, _, err := s.Trim(c, "0"); return err }},
		"respawn": {[]string{dead, queue, names, returned}, func(c redis.Conn) error {
			_, err := s.Respawn(c, "q", [][]byte{failure(job("9"))}, texts(job("9")))
			return err
		}},
		"remove dead": {[]string{dead}, func(c redis.Conn) error { _, err := s.RemoveDead(c, "q", 3); return err }},
		"take back":   {[]string{dead}, func(c redis.Conn) error { _, err := s.TakeBack(c, "q", "77"); return err }},
		"destroy":     {[]string{leases, leased, queue, names}, func(c redis.Conn) error { _, err := s.Destroy(c, "q", "", []string{"unique"}, seed); return err }},
		"destroy delayed": {[]string{schedule}, func(c redis.Conn) error {
			_, err := s.Destroy(c, "q", "delayed 0", nil, seed)
			return err
		}},
		"destroy held": {[]string{leases}, func(c redis.Conn) error { _, err := s.Destroy(c, "q", "held 0", nil, seed); return err }},
		"seize": {[]string{leases, leased, queue}, func(c redis.Conn) error {
			_, _, err := s.Seize(c, "q", []byte(job("2")), false, seed)
			return err
		}},
		"seize delayed": {[]string{leases, leased, schedule}, func(c redis.Conn) error {
			_, _, err := s.Seize(c, "q", []byte(job("5")), true, seed)
			return err
		}},
		"publish": {[]string{queue, names, schedule}, func(c redis.Conn) error {
			p, err := s.Publish(c, []Publish{{Queue: "q", Payloads: texts("x")}, {Queue: "q", Payloads: texts("x"), At: 5}})
			return errors.Join(append(p.Errors, err)...)
		}},
		"reserved counts": {[]string{leases}, func(c redis.Conn) error { _, err := s.CountReserved(c); return err }},
		"peek":            {[]string{queue}, func(c redis.Conn) error { _, _, err := s.Peek(c, "q"); return err }},
		"find":            {[]string{queue}, func(c redis.Conn) error { _, _, _, err := s.FindReady(c, "q", "x", nil); return err }},
		"find delayed": {[]string{schedule}, func(c redis.Conn) error {
			_, err := s.FindDelayed(c, "q", "x", 5)
			return err
		}},
		"ready":    {[]string{queue}, func(c redis.Conn) error { _, _, err := s.Ready(c, "q", "", 9); return err }},
		"delayed":  {[]string{schedule}, func(c redis.Conn) error { _, _, err := s.Delayed(c, "q", "", 9); return err }},
		"reserved": {[]string{leases}, func(c redis.Conn) error { _, _, err := s.Reserved(c, "q", "", 9); return err }},
	}
}

// fill makes a queue with jobs in every place.
func (b *bundle) fill() {
	b.Helper()
	b.do("FLUSHALL")
	b.served(0)
	b.turns = 0
	b.push("q", job("1"), job("2"), job("3"))
	b.do("SADD", "resque:queues", "q")
	b.do("ZADD", "resque:go:schedule", 5, "1:q"+job("5"))
	b.bury(job("9"))
	one := b.take(2, "q")[1]
	b.back(one, job("2"))
}

// No call changes anything if a key that it needs has another type, and its error says so. publish alone does what it can.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, tt := range calls(b.s) {
		for _, key := range append(tt.keys, "") {
			b.fill()
			if key != "" {
				b.do("DEL", key)
				b.do("SET", key, "of another program")
			}
			before := b.redis.Dump(t, "")
			err := tt.call(b.c)
			switch {
			case key == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case key == "":
			case err == nil || !strings.Contains(err.Error(), "another type") && !strings.Contains(err.Error(), " is not a "):
				t.Errorf("%s with %s of another type: %v", name, key, err)
			case name != "publish":
				b.same(name+" with "+key+" of another type left", before, b.redis.Dump(t, ""))
			}
		}
	}
}

// What Redis answers as none of our scripts does is an error, and never a panic.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("\x07\x05\x01\x01\x07\x04\x01\x01" + redistest.Leaf("id") + "\x01\x01" + redistest.Leaf("{}") + "\x07\x01\x01\x02\x07\x02" + redistest.Leaf("k") + redistest.Leaf("e") + "\x07\x02\x01\x01" + redistest.Leaf("back")))
	f.Add([]byte("\x07\x02" + redistest.Leaf("7") + redistest.Leaf("1000 1:qx\n1001 1:qy")))
	f.Add([]byte("\x07\x02" + redistest.Leaf("0") + "\x07\x02" + redistest.Leaf("1:qx") + redistest.Leaf("5")))
	f.Add([]byte("\x07\x07\x01\x01" + redistest.Leaf("9") + "\x01\x01" + redistest.Leaf("1:qx") + redistest.Leaf("9") + redistest.Leaf("{}") + redistest.Leaf("done")))
	s := New(resque.New(""))
	all := calls(s)
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, tt := range all {
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Errorf("%s panicked: %v", name, r)
					}
				}()
				c := redistest.Answering(redistest.Trees(text)...)
				if err := tt.call(c); err != nil && strings.HasPrefix(fmt.Sprint(err), "redigo") {
					t.Errorf("%s: %v does not say what was done", name, err)
				}
			}()
		}
	})
}
