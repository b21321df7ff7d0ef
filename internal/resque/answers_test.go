package resque

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
)

// Any answer that we do not expect, because another program wrote the keys or the server is
// another one: no call panics, an error is a sentence, and an exchange returns rising tickets of
// queues it asked for.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("\x07\x07" + redistest.Leaf("ok") + redistest.Leaf("ps") + "\x01\x02" + "\x07\x01\x07\x03\x01\x01" + redistest.Leaf("{}") + redistest.Leaf("x") + "\x07\x01\x01\x02" + "\x07\x02" + redistest.Leaf("k") + redistest.Leaf("e") + "\x07\x01" + redistest.Leaf("q")))
	f.Add([]byte("\x07\x01" + redistest.Leaf("ok") + "\x07\x02" + redistest.Leaf("ok") + redistest.Leaf("1")))
	f.Add([]byte("\x07\x03" + redistest.Leaf("message") + redistest.Leaf("c") + "\x07\x01" + redistest.Leaf("resque:queue:a")))
	f.Add([]byte("\x07\x04" + redistest.Leaf("concurrency") + redistest.Leaf("99999999999999") + redistest.Leaf("id_head") + redistest.Leaf("h.go:1-")))
	f.Add([]byte("\x07\x04" + redistest.Leaf("concurrency") + redistest.Leaf("-1") + redistest.Leaf("started") + redistest.Leaf("x")))
	s := New("")
	now := time.Unix(1800000000, 0)
	calls := map[string]func(c redis.Conn) error{
		"exchange": func(c redis.Conn) error {
			x := &Exchange{Process: "p", Epoch: 1, Last: 7, Want: 5, Arm: true, List: true, Asks: []Ask{{"a", 1}, {"b", 2}}}
			out, err := s.Receive(c, x)
			if err != nil {
				return err
			}
			for i, j := range out.Jobs {
				if j.Ticket != x.Last+int64(i)+1 || j.Queue != "a" && j.Queue != "b" {
					return fmt.Errorf("broken: job %d is %+v", i, j)
				}
			}
			for _, q := range out.Empty {
				if q != "a" && q != "b" {
					return fmt.Errorf("broken: %q was not asked", q)
				}
			}
			return nil
		},
		"process": func(c redis.Conn) error {
			p, err := s.ReadProcess(c, "p")
			if ids := p.WorkerIDs(); len(ids) > mostWorkers {
				return fmt.Errorf("broken: %d worker ids", len(ids))
			}
			p.Owns("h.go:1-2:q")
			return err
		},
		"renew": func(c redis.Conn) error { _, err := s.Renew(c, "p", time.Second, time.Second, nil); return err },
		"behind": func(c redis.Conn) error {
			_, err := s.RenewBehind(c, "p", "q", time.Second, time.Second, nil)
			return err
		},
		"have":     func(c redis.Conn) error { _, err := s.HaveLeases(c, []string{"p", "q"}); return err },
		"resync":   func(c redis.Conn) error { _, _, _, err := s.Resync(c, "p"); return err },
		"reserved": func(c redis.Conn) error { _, _, err := s.ReadReserved(c, "p", []int64{1, 2, 3}); return err },
		"recover": func(c redis.Conn) error {
			_, err := s.Recover(c, Process{ID: "p"}, 1, now, deadEnds(s, true, now))
			return err
		},
		"deaths":  func(c redis.Conn) error { _, err := s.Deaths(c, []string{"a", "b"}, now); return err },
		"forget":  func(c redis.Conn) error { return s.ForgetDeaths(c, now) },
		"strays":  func(c redis.Conn) error { _, _, err := s.Strays(c, 0); return err },
		"alike":   func(c redis.Conn) error { _, _, err := s.SortAlike(c, Alike{}, 9); return err },
		"relane":  func(c redis.Conn) error { _, err := s.Relane(c, map[Lanes][]Lane{{"a", ""}: nil}); return err },
		"fence":   func(c redis.Conn) error { _, err := s.Fence(c, "p", "1"); return err },
		"cover":   func(c redis.Conn) error { return s.Cover(c, Process{ID: "p"}, "p-0:a") },
		"leave":   func(c redis.Conn) error { _, err := s.Leave(c, "p"); return err },
		"enter":   func(c redis.Conn) error { return s.Enter(c, Process{ID: "p"}, time.Second, now) },
		"now":     func(c redis.Conn) error { _, err := s.Now(c); return err },
		"info":    func(c redis.Conn) error { i, err := s.Info(c, true); _ = i.StatsText(); return err },
		"workers": func(c redis.Conn) error { _, err := s.Workers(c); return err },
		"expired": func(c redis.Conn) error { _, _, err := s.Expired(c, now); return err },
		"prune":   func(c redis.Conn) error { _, err := s.Prune(c, Expired{ID: "w"}, now, true); return err },
		"peek":    func(c redis.Conn) error { _, err := s.Peek(c, "q", 0, -1); return err },
		"walk": func(c redis.Conn) error {
			page, err := s.WalkList(c, "resque:queue:q", false, nil, 9, nil, func([]byte) bool { return true })
			if len(page.Found) > 9 {
				return fmt.Errorf("broken: %d jobs", len(page.Found))
			}
			return err
		},
		"move": func(c redis.Conn) error {
			there, err := s.MoveJobs(c, Lane{Queue: "q"}, false, []Move{{Element: Element{0, []byte("x")}}}, Target{})
			if len(there) != 1 {
				return fmt.Errorf("broken: %v", there)
			}
			return err
		},
		"processes": func(c redis.Conn) error { _, _, err := s.LiveProcesses(c); return err },
		"scan":      func(c redis.Conn) error { _, _, err := s.ScanLanes(c, Lanes{Queue: "q"}, "0"); return err },
		"known":     func(c redis.Conn) error { _, err := s.KnowsQueue(c, "q"); return err },
		"remove":    func(c redis.Conn) error { return s.RemoveQueue(c, "q") },
		"push":      func(c redis.Conn) error { return s.Push(c, "q", []byte("{}")) },
		"guarded": func(c redis.Conn) error {
			b := guardedBulk(guardedJob(s, "q", "{}", "a"), bulkCase{queue: "r", payload: "{}"})
			err := s.PushBulk(c, b)
			for i := range b.Jobs() {
				if _, refused := b.Result(i); err == nil && errors.Is(refused, ErrWaits) {
					return fmt.Errorf("broken: no answer for job %d", i)
				}
			}
			return err
		},
		"unique":   func(c redis.Conn) error { _, _, err := s.enqueueUnique(c, uniqueJob("a", 1, "q")); return err },
		"leased":   func(c redis.Conn) error { _, err := s.CommitLeased(c, []Ended{{Place: "1:qa"}}); return err },
		"beat":     func(c redis.Conn) error { _, err := s.Heartbeat(c, "p", []string{"a", "b"}, now); return err },
		"register": func(c redis.Conn) error { return s.Register(c, "p", []string{"a", "b"}, now, now) },
		"changes":  func(c redis.Conn) error { _, _, err := s.ReceiveChanges(c, time.Second); return err },
		"due":      func(c redis.Conn) error { _, err := s.Due(c, true); return err },
		"master":   func(c redis.Conn) error { _, _, err := s.HoldMasterLock(c, s.MasterLock("p", "", true)); return err },
		"track":    func(c redis.Conn) error { return s.Track(c, c) },
		"reads":    func(c redis.Conn) error { return s.TrackReads(c, c) },
		"document": func(c redis.Conn) error { _, _, err := s.ReadDocument(c, "j"); return err },
		"documents": func(c redis.Conn) error {
			_, err := s.ScanDocuments(c, "0", DocumentFilter{State: "done"})
			return err
		},
		"changes of documents": func(c redis.Conn) error {
			return s.ChangeDocuments(c, []DocumentChange{{ID: "a", Gone: true}, {ID: "b"}})
		},
		"heads": func(c redis.Conn) error { _, _, err := s.ScanHeads(c, "0", 9, DocumentFilter{}); return err },
		"found": func(c redis.Conn) error { return s.ReadFound(c, []string{"a", "b"}, func(int, DocumentRead) {}) },
		"stretches": func(c redis.Conn) error {
			read, err := s.ReadStretches(c, 2, []Stretch{{Key: "a", Last: 1}, {Key: "b", First: 5, Last: 3}})
			if len(read) > 2 || err == nil && len(read) == 0 || len(read) == 2 && len(read[1].Elements) > 0 {
				return fmt.Errorf("broken: %+v", read)
			}
			return err
		},
		"logs": func(c redis.Conn) error { _, _, err := s.JobLogs(c, "j"); return err },
		"keys": func(c redis.Conn) error {
			rows, _, err := s.KeyRows(c, []string{"a", "b"})
			if err == nil && len(rows) != 2 {
				return fmt.Errorf("broken: %d keys", len(rows))
			}
			return err
		},
		"key":      func(c redis.Conn) error { _, err := s.KeyDetail(c, "a"); return err },
		"contents": func(c redis.Conn) error { _, err := s.KeyContents(c, "a", "list", 9, 9); return err },
		"lone":     func(c redis.Conn) error { _, _, _, err := s.LoneKeys(c, 9); return err },
		"memory":   func(c redis.Conn) error { _, _, err := s.MemoryOf(c, []string{"a"}); return err },
		"server":   func(c redis.Conn) error { _, err := s.ServerState(c, time.Now); return err },
		"slow": func(c redis.Conn) error {
			all, err := s.SlowCommands(c, 9)
			for _, slow := range all {
				slow.Weigh()
				if key := s.KeyOfSlow(slow); key != "" && !strings.HasPrefix(key, "resque:") {
					return fmt.Errorf("broken: the key %q", key)
				}
			}
			return err
		},
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, call := range calls {
			err := call(redistest.Answering(redistest.Trees(text)...))
			if err != nil && (err.Error() == "" && !errors.As(err, new(redis.Error)) || strings.HasPrefix(err.Error(), "broken: ")) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A message reports exactly the keys it names: queues by their names, byte for byte, our
// other keys by their constants, and no key outside the namespace.
func FuzzChanges(f *testing.F) {
	f.Add("resque", "a", "b:c")
	f.Add("n:", "", "\xff\n")
	f.Fuzz(func(t *testing.T, namespace, one, two string) {
		s := New(namespace)
		names, all, err := s.ReceiveChanges(redistest.Answering([]any{[]byte("message"), []byte("c"), []any{
			[]byte(s.KeyOfQueue(one)), []byte("other" + s.Namespace() + "queue:x"), []byte(s.pauseAll()), []byte(s.KeyOfQueue(two)), []byte(s.KeyOfQueues()), []byte(s.KeyOfSchedule()),
		}}), time.Second)
		// A namespace may begin as the strange key does.
		names = slices.DeleteFunc(names, func(n string) bool {
			return strings.HasPrefix("other"+s.Namespace()+"queue:x", s.KeyOfQueue("")) && s.KeyOfQueue(n) == "other"+s.Namespace()+"queue:x"
		})
		if want := []string{one, PauseChanged, two, QueuesChanged, DelayedChange}; err != nil || all || !slices.Equal(names, want) {
			t.Errorf("%q, %v, %v; want %q", names, all, err, want)
		}
	})
}

// Times that Ruby and we write are read back to the second, and any text gives a
// time or none.
func FuzzParseTime(f *testing.F) {
	f.Add(int64(1800000000), int16(-420), "Sat Nov 21 2026 02:41:24 GMT+0000 (UTC)")
	f.Add(int64(0), int16(0), "2026-11-21 02:41:24.123 +0100 CET m=+0.01")
	f.Add(int64(253402300799), int16(840), "99999999999999999999")
	f.Fuzz(func(t *testing.T, seconds int64, offset int16, text string) {
		_ = ParseTime(text)
		parseWorking([]byte(text))
		parseWorkerID(text)
		_, _, _ = New("").Expired(redistest.Answering([]any{[]byte("w"), []byte(text)}), time.Unix(0, 0))
		const lastOf9999 = 253402300799
		if seconds < 0 || seconds > lastOf9999-24*3600 || offset < -14*60 || offset > 14*60 {
			return
		}
		at := time.Unix(seconds, 0).In(time.FixedZone("", 60*int(offset)))
		if at.Year() < 1 {
			return
		}
		for _, written := range []string{HeartbeatAt(at), StartedAt(at), at.UTC().Format(runAtLayout), fmt.Sprint(seconds)} {
			if got := ParseTime(written); !got.Equal(at) {
				t.Errorf("%s was read as %v, want %v", written, got, at)
			}
		}
	})
}

// The jobs a process has handed out are read back as they were written. So are the counts of
// deaths, and no text in its place counts more than it says.
func FuzzProcessRecord(f *testing.F) {
	f.Add(int64(7), int64(3), int64(5), 2, "3 1800000000000 p:1:ab")
	f.Add(int64(-1), int64(0), int64(0), 0, "x y z")
	f.Fuzz(func(t *testing.T, upTo, one, two int64, count int, text string) {
		h := parseHanded(HandedOut{UpTo: upTo, Held: []int64{one, two}, Trial: one, Past: []int64{two}}.String())
		if h.UpTo != upTo || !slices.Equal(h.Held, []int64{one, two}) || h.Trial != one || !slices.Equal(h.Past, []int64{two}) {
			t.Errorf("handed %d, %d, %d came back as %+v", upTo, one, two, h)
		}
		for _, ticket := range []int64{upTo, one, two, upTo - 1, upTo + 1} {
			if want := ticket <= upTo && ticket != one && ticket != two; h.running(ticket) != want {
				t.Errorf("handed %d but %d and %d: ticket %d is running: %v", upTo, one, two, ticket, h.running(ticket))
			}
		}
		parseHanded(text).running(one)
		now := time.UnixMilli(1800000000000)
		d := parseDeaths(fmt.Sprintf("%d %d %s", count, now.UnixMilli(), text), now)
		last := append(strings.Fields(text), "")[0]
		if d.Count != count || d.last != last {
			t.Errorf("%d deaths in %q came back as %d in %q", count, last, d.Count, d.last)
		}
		if d = parseDeaths(fmt.Sprintf("%d %d p %d %d", count, now.UnixMilli(), one, two), now); d.Charged != int(one) || d.Level != int(two) {
			t.Errorf("charged %d at level %d came back as %+v", one, two, d)
		}
		if d := parseDeaths(text, now); d.raw != text {
			t.Errorf("%q is remembered as %q", text, d.raw)
		}
		tickets := parseTickets(append(strings.Fields(text), fmt.Sprint(two), fmt.Sprint(one)))
		if !slices.IsSorted(tickets) || !slices.Contains(tickets, one) || !slices.Contains(tickets, two) {
			t.Errorf("tickets %d", tickets)
		}
	})
}

// An entry of the set of workers keeps its bytes and comes apart where it was put
// together; what it works on is busy whenever there is any text.
func FuzzWorkerEntry(f *testing.F) {
	f.Add("vm.go", "1-2", "a,b:c", []byte(`{"queue":"q","run_at":"2026-11-21T02:41:24Z","payload":{"class":"J","args":[]}}`))
	f.Add("", "", "", []byte("x"))
	f.Fuzz(func(t *testing.T, host, pid, queues string, value []byte) {
		id := host + ":" + pid + ":" + queues
		w := parseWorkerID(id)
		if w.ID != id {
			t.Errorf("%q became %q", id, w.ID)
		}
		if !strings.Contains(host+pid, ":") && (w.Host != host || w.PID != pid || strings.Join(w.Queues, ",") != queues) {
			t.Errorf("%q came apart as %+v", id, w)
		}
		if working := parseWorking(value); (working == nil) != (len(value) == 0) {
			t.Errorf("%q: %+v", value, working)
		}
		work := Work{Worker: host, Queue: queues, RunAt: time.Unix(1800000000, 0), Payload: value}
		again := parseWorking(work.Encode())
		if again == nil || !again.RunAt.Equal(work.RunAt) || strings.ToValidUTF8(queues, "?") == queues && again.Queue != queues {
			t.Errorf("%q became %+v", work.Encode(), again)
		}
		if p, err := payload.Parse(value); err == nil && (again.Class != p.Class || !bytes.Equal(again.Payload, value)) {
			t.Errorf("the job %q is shown as %+v", value, again)
		}
		if f := prunedFailure(id, value, time.Unix(0, 0)); f.Payload != nil {
			if _, err := payload.ParseFailure(f.Encode()); err != nil {
				t.Errorf("pruned with %q: %v", value, err)
			}
		}
	})
}
