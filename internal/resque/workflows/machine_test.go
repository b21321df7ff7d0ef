package workflows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// chain is step 0, then 1, then 2.
func chain(id string) *Plan {
	first := stepOf{0, "low", "1 - - 0 - n high", "1"}
	second := stepOf{1, "high", "2 - - 0 - n low", ""}
	third := stepOf{2, "low", "0 3 2 0 - 1 -", "7"}
	return &Plan{ID: id, Letters: []byte("swwbh"), Fields: []any{
		"j0", "1 0 0 j 0 0 - - - -", "j1", "1 0 0 j 1 1 0 3 - -", "j2", "1 0 0 j 2 1 0 3 - -", "p0", "- 4 -",
		"s1", second.template(id, "s v 0 0 0"), "s2", third.template(id, "s v 1 0 0"),
		"s4", stepOf{4, "low", "- - - - - 0 -", "1"}.template(id, "r e - 0 0"), "result", "v 2",
	}, Jobs: []Job{first.job(id)}}
}

// chord is steps 0 to 2, and 3, which gets their results as of says. The failures of the three are borne as borne says.
func chord(id, of, borne string) *Plan {
	p := &Plan{ID: id, Letters: []byte("sssw"), Fields: []any{
		"j0", "1 0 0 j 0 0 - - - -", "j1", "3 0 0 j 3 1 - - - -", "p0", "- - " + borne,
		"s3", stepOf{3, "low", "0 - - - - 1 -", ""}.template(id, "s v "+of+" 0 0"), "result", "v 3",
	}}
	for n := range 3 {
		p.Jobs = append(p.Jobs, stepOf{n, "low", "1 - - 0 " + borne + " n low", fmt.Sprint(n)}.job(id))
	}
	return p
}

func TestChain(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.start(chain("w"))
	w.same("document", map[string]string{"state": "running", "workflow": "-", "enqueued": "then", "ttl": "3600000"}, w.document("w"))
	w.same("first", "[1]", w.end("C0", Done, "5"))
	w.same("filled", []string{"high"}, w.filled)
	w.same("second", "[5]", w.end("C1", Done, `+["a",null]`))
	w.same("third", `[7,"a",null]`, w.end("C2", Done, `{"x":1}`))
	w.state("w", "done")
	w.same("letters", "dddgh", w.letters("w"))
	w.same("document", map[string]string{
		"state": "done", "workflow": "-", "enqueued": "then", "ttl": "3600000", "ended": "then", "result": `{"x":1}`,
	}, w.document("w"))
	for _, key := range []string{w.s.KeyOfResult("w"), w.s.WorkflowKey("w").String(), w.s.LettersKey("w").String()} {
		if ms := w.server.Int(t, "PTTL", key); ms < 3500_000 || ms > 3600_000 {
			t.Errorf("%s goes in %d ms, want an hour", key, ms)
		}
	}
	w.same("index", 0, w.server.Int(t, "ZCARD", w.s.IndexKey()))
}

// A failure that nothing bears halts the workflow. The failed job, retried by its id, goes on.
func TestFailureAndRetry(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.start(chain("w"))
	w.end("C0", Done, "5")
	j, _ := w.job("C1")
	w.commit(w.arrival(j, Failed, `{"step":1}`))
	w.state("w", "failed")
	w.same("letters", "dfwnr", w.letters("w"))
	w.same("error", `{"step":1}`, w.document("w")["error"])
	w.same("no steps run", 0, w.server.Int(t, "ZCARD", w.s.HaltedKey()))
	w.none("C2")
	w.same("handler", `[1,{"step":1}]`, w.end("C4", Done, ""))
	w.same("letter of the handler", "o", w.letters("w")[4:])
	if !strings.HasPrefix(w.field("w", "f1"), "1 2 - - 0 - n low\n{\"step\":1}\ns n - 0 0 0 0 4:high{") {
		t.Errorf("f1 is %q", w.field("w", "f1"))
	}

	w.must(w.s.Push(w.c, "high", j.Payload))
	w.end("C1", Done, "6")
	w.state("w", "running")
	w.same("f1", "", w.field("w", "f1"))
	w.same("third", "[7,6]", w.end("C2", Done, ""))
	w.state("w", "done")
	w.same("result", "null", w.document("w")["result"])
}

func TestChord(t *testing.T) {
	t.Parallel()
	for of, want := range map[string]string{
		"[0+3]":     `[["a",[1,2],null]]`,
		"0+3":       `["a",1,2]`,
		"c[0+3]":    `[[{"result":"a"},{"result":[1,2]},{"result":null}]]`,
		"[0,[1+2]]": `[["a",[[1,2],null]]]`,
		"[]":        `[[]]`,
		"1,[0],7":   `[1,2,["a"]]`,
		"7[0],1":    `[["a"],1,2]`,
	} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.start(chord("w", of, "-"))
			w.end("C2", Done, "")
			w.end("C0", Done, `"a"`)
			w.none("C3")
			w.end("C1", Done, "+[1,2]")
			w.same("callback", want, w.end("C3", Done, "1"))
			w.state("w", "done")
		})
	}
}

func TestBorne(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ of, borne, want string }{
		{"c[0+3]", "c", `[[{"result":1},{"error":{"step":1}},{"result":3}]]`},
		{"[0+3]", "i", `[[1,null,3]]`},
		{"0+3", "i", `[1,null,3]`},
	} {
		t.Run(tt.of, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.start(chord("w", tt.of, tt.borne))
			w.end("C0", Done, "1")
			w.end("C1", Failed, `{"step":1}`)
			w.state("w", "running")
			w.end("C2", Done, "3")
			w.same("callback", tt.want, w.end("C3", Done, "4"))
			w.state("w", "done")
		})
	}
}

// nested is a group whose members are the group of steps 0 and 1, and the chain of step 2 and 3; step 4 gets the list.
func nested(id, of, borne string) *Plan {
	// letters: 0 to 3 steps, 4 callback, 5 and 6 branches. Join 1 is the outer group, 2 the inner one, 3 the chain's.
	return &Plan{ID: id, Letters: []byte("ssswwbb"), Fields: []any{
		"j0", "1 0 0 j 0 0 - - - -", "j1", "2 0 0 j 4 1 - - - -", "j2", "2 0 0 j 0 0 1 5 " + borne + " -",
		"j3", "1 0 0 j 3 1 1 6 " + borne + " -", "p0", "- - -", "p1", "0 - " + borne,
		"s3", stepOf{3, "low", "1 6 6 1 " + borne + " n low", ""}.template(id, "s v 2 0 0"),
		"s4", stepOf{4, "low", "0 - - - - 1 -", `"x"`}.template(id, "s v "+of+" 0 0"), "result", "v 4",
	}, Jobs: []Job{
		stepOf{0, "low", "2 - - 1 - 1 -", ""}.job(id), stepOf{1, "low", "2 - - 1 - 1 -", ""}.job(id),
		stepOf{2, "low", "3 - - 1 - n low", ""}.job(id),
	}}
}

func TestNested(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		of, borne, fails, want string
	}{
		{"[5[0+2],6]", "-", "", `["x",[[0,1],3]]`},
		{"[5[0+2],6]", "i", "C1", `["x",[null,3]]`},
		{"c[5[0+2],6]", "c", "C1", `["x",[{"error":{"step":1}},{"result":3}]]`},
		{"c[5[0+2],6]", "c", "C2", `["x",[{"result":[0,1]},{"error":{"step":1}}]]`},
		{"c[5[0+2],6]", "c", "C3", `["x",[{"result":[0,1]},{"error":{"step":1}}]]`},
		{"5[0+2],6", "i", "C3", `["x",[0,1],null]`},
	} {
		t.Run(tt.of+" "+tt.fails, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.start(nested("w", tt.of, tt.borne))
			for n := range 4 {
				class := fmt.Sprint("C", n)
				switch {
				case class == tt.fails:
					w.end(class, Failed, `{"step":1}`)
				case n < 3 || tt.fails != "C2":
					w.end(class, Done, fmt.Sprint(n))
				}
			}
			w.same("callback", tt.want, w.end("C4", Done, ""))
			w.state("w", "done")
		})
	}
}

// graph is steps 0 and 1, then 2 after both, and 3 after 0.
func graph(id string, rest bool) *Plan {
	p := &Plan{ID: id, Letters: []byte("ssww"), Fields: []any{
		"j0", "2 4 0 g 1 2 - - - -", "j1", "2 0 0 j 2 1 0 + - -", "j2", "1 0 0 j 3 1 0 + - -", "p0", "- - -",
		"s2", stepOf{2, "low", "0 - - 0 - 1 -", ""}.template(id, "s v 0,1 0 0"),
		"s3", stepOf{3, "low", "0 - - 0 - 1 -", ""}.template(id, "s v 0 0 0"), "result", "v [2,3]",
	}, Jobs: []Job{stepOf{0, "low", "1,2,0 - - 0 - n low", ""}.job(id), stepOf{1, "low", "1,0 - - 0 - n low", ""}.job(id)}}
	if rest {
		p.Fields = append(p.Fields, "rest", "1")
	}
	return p
}

func TestGraph(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		w := newWire(t)
		w.start(graph("w", true))
		if fails {
			w.end("C1", Failed, "{}")
			w.state("w", "failed")
		} else {
			w.end("C1", Done, `"b"`)
		}
		w.end("C0", Done, `"a"`)
		w.same("after one", `["a"]`, w.end("C3", Done, "3"))
		if fails {
			w.none("C2")
			w.must(w.s.Push(w.c, "low", stepOf{1, "low", "1,0 - - 0 - n low", ""}.payload("w")))
			w.end("C1", Done, `"b"`)
		}
		w.same("after both", `["a","b"]`, w.end("C2", Done, "2"))
		w.state("w", "done")
		w.same("result", "[2,3]", w.document("w")["result"])
	}
}

// Without RunRest a failure drops what has not started.
func TestHaltedGraph(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.start(graph("w", false))
	w.end("C1", Failed, "{}")
	w.end("C0", Done, "1")
	w.none("C3")
	w.same("letters", "dfww", w.letters("w"))
}

// A job of a halted workflow that was not run is x, and goes back if the workflow runs by then.
func TestHalted(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.start(chord("w", "[0+3]", "-"))
	w.end("C0", Failed, `{"step":0}`)
	w.state("w", "failed")
	w.same("the commit names what it wrote", []string{"resque:go:halted"}, w.wrote) // the process watches it
	w.same("halted", []string{"w"}, w.server.List(t, "ZRANGE", w.s.HaltedKey(), 0, -1))
	w.end("C1", NotRun, "")
	w.same("letters", "fxsw", w.letters("w"))
	w.same("not run", "1", w.field("w", "off"))

	w.must(w.s.Push(w.c, "low", stepOf{0, "low", "1 - - 0 - n low", "0"}.payload("w")))
	w.end("C0", Done, "1")
	w.state("w", "retrying") // until the sweep has sent what was not run
	w.same("again", "0 x", w.field("w", "again"))
	w.same("halted", []string{}, w.server.List(t, "ZRANGE", w.s.HaltedKey(), 0, -1))

	j, _ := w.job("C2")
	w.must(w.s.Push(w.c, "low", []byte("other")))
	w.commit(w.arrival(j, NotRun, ""))
	w.same("at the head of its queue", []string{string(j.Payload), "other"}, w.server.List(t, "LRANGE", w.s.KeyOfQueue("low"), 0, -1))
	w.same("letters", "dxsw", w.letters("w"))
}

func TestLateEndsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.start(chord("w", "[0+3]", "-"))
	j, _ := w.job("C0")
	twin := stepOf{0, "low", "1 - - 0 - n low", "0"}.payload("w")
	w.commit(w.arrival(j, Done, "1"))
	for _, letter := range []byte{Done, Failed, NotRun} {
		w.must(w.s.Push(w.c, "low", twin))
		before := w.server.Dump(t, "resque:go:wf")
		w.end("C0", letter, "2")
		w.same("a late "+string(letter), before, w.server.Dump(t, "resque:go:wf"))
	}
	w.do("DEL", w.s.WorkflowKey("w"), w.s.LettersKey("w"))
	w.end("C1", Done, "2")
	w.same("keys", []string{}, w.server.List(t, "KEYS", "resque:go:wf*"))
}

// What has a priority, a time or another queue goes by the schedule.
func TestTemplatesBySchedule(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, how, front string
		queue            string
		due              time.Duration
		expires          bool
	}{
		{name: "at once", how: "s v 0 0 0", queue: "low"},
		{name: "another queue", how: "s v 0 0 0", queue: "high"},
		{name: "a delay", how: "s v 0 60000 5000", queue: "low", due: time.Minute, expires: true},
		{name: "a time", how: "s v 0 @1900000000000 0", queue: "low", due: time.Until(time.UnixMilli(1900000000000))},
		{name: "a time that is over", how: "s v 0 @1900 0", queue: "low"},
		{name: "a priority", how: "s v 0 0 0", front: `"priority":3,`, queue: "low"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			template := stepOf{1, tt.queue, "0 - - - - 1 -", ""}.template("w", tt.how)
			w.start(&Plan{ID: "w", Letters: []byte("sw"), Fields: []any{
				"j0", "1 0 0 j 0 0 - - - -", "j1", "1 0 0 j 1 1 - - - -", "s1", strings.Replace(template, "{", "{"+tt.front, 1),
			}, Jobs: []Job{stepOf{0, "low", "1 - - - - n low", ""}.job("w")}})
			w.end("C0", Done, "")
			scheduled := w.server.List(t, "ZRANGE", w.s.ScheduleKey(), 0, -1, "WITHSCORES")
			if tt.queue == "low" && tt.due == 0 && tt.front == "" {
				w.same("schedule", []string{}, scheduled)
				w.same("queue", 1, w.server.Int(t, "LLEN", w.s.QueueKey("low")))
				return
			}
			if len(scheduled) != 2 || !strings.HasPrefix(scheduled[0], resque.JobPrefix(tt.queue)) {
				t.Fatalf("the schedule has %q", scheduled)
			}
			var due int64
			fmt.Sscan(scheduled[1], &due)
			if off := time.Until(time.UnixMilli(due)) - tt.due; off.Abs() > 30*time.Second {
				t.Errorf("due at %s", time.UnixMilli(due))
			}
			if tt.expires != strings.Contains(scheduled[0], fmt.Sprintf(`,"expires_at":%d,"id"`, due+5000)) {
				t.Errorf("scheduled is %s", scheduled[0])
			}
		})
	}
}

// An external step waits for its token: its job's end changes nothing, but for a failure.
func TestExternal(t *testing.T) {
	t.Parallel()
	for _, letter := range []byte{Done, Failed} {
		w := newWire(t)
		w.start(&Plan{ID: "w", Letters: []byte("yw"), Fields: []any{
			"j0", "1 0 0 j 0 0 - - - -", "j1", "1 0 0 j 1 1 - - - -", "k0", "secret 60000 1 - - - - n low",
			"s1", stepOf{1, "low", "0 - - - - 1 -", ""}.template("w", "y v 0 0 0"), "k1", "other 1000 0 - - - - 1 -",
		}, Jobs: []Job{stepOf{0, "low", "1 - - - - n low", ""}.job("w")}})
		w.same("outside", "1", w.field("w", "outside"))
		if until := w.field("w", "y0"); len(until) != 13 {
			t.Errorf("y0 is %q", until)
		}
		w.end("C0", letter, `{"step":0}`)
		if letter == Done {
			w.same("letters", "yw", w.letters("w"))
			continue
		}
		w.same("letters", "fw", w.letters("w"))
		w.same("outside", "0", w.field("w", "outside"))
		w.same("y0", "", w.field("w", "y0"))
		w.must(w.s.Push(w.c, "low", stepOf{0, "low", "1 - - - - n low", ""}.payload("w")))
		w.end("C0", Done, "1")
		w.same("letters", "dy", w.letters("w"))
		w.same("outside", "1", w.field("w", "outside"))
	}
}

// A list of many results is a reference.
func TestReference(t *testing.T) {
	t.Parallel()
	const members = 600
	for mode, want := range map[string]string{"v": `[{"goworker":"w/[0+600]"}]`, "i": "[[" + strings.Repeat("1,", members-1) + "1]]"} {
		w := newWire(t)
		p := &Plan{ID: "w", Letters: []byte(strings.Repeat("s", members) + "w"), Fields: []any{
			"j0", "1 0 0 j 0 0 - - - -", "j1", "600 0 0 j 600 1 - - - -",
			"s600", stepOf{600, "low", "0 - - - - 1 -", ""}.template("w", "s "+mode+" [0+600] 0 0"),
		}}
		for n := range members {
			p.Jobs = append(p.Jobs, stepOf{n, "low", "1 - - - - n low", ""}.job("w"))
		}
		w.start(p)
		w.take("low")
		var ended []resque.Ended
		for _, j := range w.jobs {
			ended = append(ended, resque.Ended{Ticket: j.Ticket, Effects: []resque.Effect{w.s.Arrive(w.arrival(j, Done, "1"))}})
		}
		w.jobs = nil
		w.turn(resque.Exchange{Ended: ended})
		w.same("callback of mode "+mode, want, w.end("C600", Done, ""))
		w.state("w", "done")
	}
}

// A list may have any number of results: the script that sends it reads none of them.
func TestReferenceToVeryMany(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.start(&Plan{ID: "w", Letters: []byte("sw"), Fields: []any{
		"j0", "1 0 0 j 0 0 - - - -", "j1", "1 0 0 j 1 1 - - - -",
		"s1", stepOf{1, "low", "0 - - - - 1 -", ""}.template("w", "s v [0+100000] 0 0"),
	}, Jobs: []Job{stepOf{0, "low", "1 - - - - n low", ""}.job("w")}})
	w.end("C0", Done, "1")
	w.same("callback", `[{"goworker":"w/[0+100000]"}]`, w.end("C1", Done, ""))
	w.state("w", "done")
}

// A damaged workflow holds no job up: the job ends, nothing is written, and the sweep looks at the workflow.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string][]any{
		"no template":           {"s1", "s v 0 0 0 1 1 x"},
		"a letter far away":     {"j1", "1 0 0 j 1 0 0 999999999999 - -"},
		"a letter out of range": {"j1", "1 0 0 j 1 0 0 99999999999999999999999999 - -"},
		"too many results":      {"s1", "s v 0+99999999 0 0 1 1 3:low{}"},
		"no delay":              {"s1", "s v 0 x 0 1 1 3:low{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.start(chain("w"))
			w.do("HSET", append([]any{w.s.WorkflowKey("w")}, damage...)...)
			j, _ := w.job("C0")
			score := w.server.Text(t, "ZSCORE", w.s.IndexKey(), "w")
			before := w.server.Dump(t, "resque:go:wf")
			w.same("refused", 0, len(w.commit(w.arrival(j, Done, "5"))))
			w.same("ticket", 0, w.server.Int(t, "HEXISTS", "resque:go:inflight:p", j.Ticket))
			w.same("keys", before, w.server.Dump(t, "resque:go:wf"))
			if now := w.server.Text(t, "ZSCORE", w.s.IndexKey(), "w"); now >= score {
				t.Errorf("the sweep looks at %s, not now", now)
			}
		})
	}
}
