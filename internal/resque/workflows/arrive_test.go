package workflows

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// A key of the wrong type refuses the commit of the job that writes it, and of no other. Mended, what follows is sent once.
func TestArriveWrongType(t *testing.T) {
	t.Parallel()
	s := New(resque.New(""))
	ends := map[string]func(w *wire) *Arrival{
		"callback": func(w *wire) *Arrival { // a step of its own queue, one by the schedule
			w.start(chord("w", "[0+3]", "-"))
			w.end("C0", Done, "1")
			w.end("C1", Done, "1")
			j, _ := w.job("C2")
			return w.arrival(j, Done, "2")
		},
		"later": func(w *wire) *Arrival {
			p := chain("w")
			p.Fields[9] = strings.Replace(p.Fields[9].(string), "s v 0 0", "s v 0 60000", 1)
			w.start(p)
			j, _ := w.job("C0")
			return w.arrival(j, Done, "2")
		},
		"failure": func(w *wire) *Arrival {
			w.start(chord("w", "[0+3]", "-"))
			j, _ := w.job("C2")
			return w.arrival(j, Failed, "{}")
		},
		"back": func(w *wire) *Arrival {
			w.start(chord("w", "[0+3]", "-"))
			j, _ := w.job("C2")
			return w.arrival(j, NotRun, "")
		},
		"member": func(w *wire) *Arrival {
			w.start(chord("w", "[0+3]", "-"))
			j, _ := w.job("C2")
			return w.arrival(j, Done, "2")
		},
	}
	letters, hash := s.LettersKey("w").String(), s.WorkflowKey("w").String()
	for name, keys := range map[string][]string{
		"callback": {letters, hash, s.KeyOfQueue("low"), s.KeyOfQueues()},
		"later":    {letters, hash, s.KeyOfSchedule()},
		"failure":  {letters, hash, s.IndexKey().String(), s.KeyOfResult("w"), s.HaltedKey().String()},
		"back":     {letters, hash, s.KeyOfQueue("low"), s.KeyOfQueues()},
		"member":   {letters, hash},
	} {
		for _, key := range keys {
			t.Run(name+" "+key, func(t *testing.T) {
				t.Parallel()
				w := newWire(t)
				a := ends[name](w)
				w.must(w.s.Push(w.c, "mid", []byte(`{"class":"Plain"}`)))
				plain, _ := w.job("Plain")
				saved, _ := redis.String(w.c.Do("DUMP", key))
				w.spoil(key)
				before := w.server.Dump(t, "resque:")
				ended := []resque.Ended{
					{Ticket: a.Job.Ticket, Counts: resque.CountsDone, Effects: []resque.Effect{w.s.Arrive(a)}},
					{Ticket: plain.Ticket, Effects: w.s.FileFailure("mid", []byte("{}"), false)},
				}
				out := w.turn(resque.Exchange{Ended: ended})
				if len(out.Refused) != 1 || out.Refused[0].Ticket != a.Job.Ticket || out.Refused[0].Key != key ||
					!strings.Contains(out.Refused[0].Reason, "WRONGTYPE") {
					t.Errorf("refused %+v", out.Refused)
				}
				after := w.server.Dump(t, "resque:")
				for _, other := range []string{"resque:failed", "resque:go:inflight:p"} {
					delete(before, other)
					delete(after, other)
				}
				w.same("keys", before, after)
				w.same("the other job has ended", 1, w.server.Int(t, "LLEN", "resque:failed"))
				w.same("ticket", 1, w.server.Int(t, "HEXISTS", "resque:go:inflight:p", a.Job.Ticket))
				w.do("DEL", key)
				if saved != "" {
					w.do("RESTORE", key, 0, saved)
				}
				for range 2 { // its reply is lost: the ticket is gone then
					w.same("refused", 0, len(w.turn(resque.Exchange{Ended: ended}).Refused))
				}
				w.same("ticket", 0, w.server.Int(t, "HEXISTS", "resque:go:inflight:p", a.Job.Ticket))
			})
		}
	}
}

// Redis is out of memory: what has run is committed all the same.
func TestArriveOutOfMemory(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.start(chord("w", "[0+3]", "-"))
	w.take("low")
	w.do("CONFIG", "SET", "maxmemory", "1")
	for n := range 3 {
		w.commit(w.arrival(w.jobs[n], Done, strconv.Itoa(n)))
	}
	w.do("CONFIG", "SET", "maxmemory", "0")
	w.jobs = nil
	w.same("callback", "[[0,1,2]]", w.end("C3", Done, ""))
	w.state("w", "done")
}

// A job that the record has lost is sent once more from its template.
func TestBackWithoutBytes(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.start(chord("w", "[0+3]", "-"))
	j, _ := w.job("C2")
	w.jobs = nil
	w.do("HDEL", "resque:go:inflight:p", j.Ticket)
	w.commit(w.arrival(j, NotRun, ""))
	again, _ := w.job("C2")
	w.same("payload", string(j.Payload), string(again.Payload))
	w.same("letters", "sssw", w.letters("w"))
}

// Steps that one call does not send are left to the sweep.
func TestManyFollow(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	const many = 300
	p := &Plan{ID: "w", Letters: []byte("s" + strings.Repeat("w", many)), Fields: []any{
		"j0", fmt.Sprint(many, " 0 0 j 0 0 - - - -"), "j1", fmt.Sprint("1 0 0 j 1 ", many, " - - - -"),
	}, Jobs: []Job{stepOf{0, "low", "1 - - - - n low", ""}.job("w")}}
	for n := 1; n <= many; n++ {
		p.Fields = append(p.Fields, fmt.Sprint("s", n), stepOf{n, "low", "0 - - - - 0 low", ""}.template("w", "s v 0 0 0"))
	}
	w.start(p)
	w.end("C0", Done, "7")
	w.same("sent", 128, strings.Count(w.letters("w"), "s"))
	w.same("left", "172 -", w.field("w", "m129"))
	w.same("result", "7", w.field("w", "r0"))
	w.same("first", "[7]", w.end("C1", Done, ""))
	w.same("queue", many-172-1, len(w.jobs))
}

// BenchmarkArrive is what ends of 25 steps cost in one commit, beside ends with a plain effect. us/job is the time that
// Redis spends in the script.
func BenchmarkArrive(b *testing.B) {
	const jobs = 25
	for _, way := range []string{"plain", "member", "kept", "sends"} {
		b.Run(way, func(b *testing.B) {
			w := newWire(b)
			w.start(&Plan{ID: "w", Letters: []byte(strings.Repeat("s", 1000))})
			record, fields := []any{"resque:go:inflight:p"}, []any{w.s.WorkflowKey("w"), "j0", "1000000 0 0 j 0 0 - - - -"}
			var ended []resque.Ended
			for n := range jobs {
				step, place, value := stepOf{n: n, queue: "low"}, "0 - - - - 0 low", ""
				switch way {
				case "kept":
					place, value = "0 - - - - 1 low", `{"url":"https://example.com/1.jpg"}`
				case "sends":
					place, value = fmt.Sprint(n+1, " - - - - n low"), `{"url":"https://example.com/1.jpg"}`
					next := stepOf{500 + n, "low", "0 - - - - 0 low", "1"}
					fields = append(fields, fmt.Sprint("j", n+1), fmt.Sprint("1 0 0 j ", 500+n, " 1 0 600 - -"),
						fmt.Sprint("s", 500+n), next.template("w", fmt.Sprint("s v ", n, " 0 0")))
				}
				step.place = place
				j := resque.Reserved{Ticket: int64(n + 1), Queue: "low", Payload: step.payload("w")}
				effect := w.s.Arrive(w.arrival(j, Done, value))
				if way == "plain" {
					effect = resque.Command("HSET", w.s.HashKey("plain"), n, "done")
				}
				ended = append(ended, resque.Ended{Ticket: j.Ticket, Counts: resque.CountsDone, Effects: []resque.Effect{effect}})
				record = append(record, j.Ticket, "3:low"+string(j.Payload))
			}
			turn := func() {
				w.must(w.c.Send("HSET", record...))
				w.must(w.c.Send("SETRANGE", w.s.LettersKey("w"), 0, strings.Repeat("s", jobs)))
				w.must(w.c.Send("SETRANGE", w.s.LettersKey("w"), 500, strings.Repeat("w", jobs)+strings.Repeat("b", 100)))
				w.must(w.c.Send("HSET", fields...))
				w.must(w.c.Send("DEL", w.s.QueueKey("low")))
				w.must(w.c.Flush())
				for range 5 {
					_, err := w.c.Receive()
					w.must(err)
				}
				w.turn(resque.Exchange{Ended: ended})
			}
			turn()
			if n := w.server.Int(b, "LLEN", w.s.QueueKey("low")); way == "sends" && n != jobs {
				b.Fatalf("%d steps were sent", n)
			}
			w.do("CONFIG", "RESETSTAT")
			n := 0
			for b.Loop() {
				turn()
				n++
			}
			for line := range strings.Lines(w.server.Text(b, "INFO", "commandstats")) {
				if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
					_, us, _ := strings.Cut(rest, "usec=")
					us, _, _ = strings.Cut(us, ",")
					total, _ := strconv.ParseFloat(us, 64)
					b.ReportMetric(total/float64(n*jobs), "us/job")
				}
			}
		})
	}
}
