package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
)

// limitsVar has the program register classes with limits besides.
const limitsVar = "GOWORKER_CRASH_LIMITS"

const (
	fewAtOnce = 3
	tenants   = 6
)

// registerLimited registers classes with limits:
//
//	Few id ms            takes its time; three run at a time
//	Turn id ms tenant    takes its time; one of a tenant runs at a time
func registerLimited(note func(event, id, detail string)) {
	goworker.Register("Few", func(id string, ms int) {
		note("start", id, "few")
		time.Sleep(time.Duration(ms) * time.Millisecond)
		note("end", id, "few")
	}, goworker.MaxRunning(fewAtOnce))
	goworker.Register("Turn", func(id string, ms int, tenant string) {
		note("start", id, tenant)
		time.Sleep(time.Duration(ms) * time.Millisecond)
		note("end", id, tenant)
	}, goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(2))))
}

// Three processes share limits and are killed at random instants. No job is lost, no more
// run than may, those of a tenant run in their order, and no job holds a slot in the end.
func TestKillsUnderLimits(t *testing.T) {
	t.Parallel()
	const (
		total     = 2400
		kills     = 6
		processes = 3
	)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("GOWORKER_CRASH_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("GOWORKER_CRASH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	f := newFleet(t)
	start := func() *process { return f.startWith([]string{limitsVar + "=1"}, "-concurrency=4") }
	var alive []*process
	for range processes {
		alive = append(alive, start())
	}
	f.eventually(soon, "they are in the fleet", func() bool { return f.redis.Int(t, "ZCARD", "resque:go:processes") == processes })

	f.push(`{"class":"Few","args":["first",0]}`) // the fleet learns that the queue holds such jobs
	f.eventually(soon, "it is done", func() bool { return f.stat("processed") == 1 })
	for n := 0; n < total; {
		var batch []string
		for range 100 {
			ms := random.IntN(20)
			if n%3 == 0 {
				batch = append(batch, fmt.Sprintf(`{"class":"Few","args":["%04d",%d]}`, n, ms))
			} else {
				batch = append(batch, fmt.Sprintf(`{"class":"Turn","args":["%04d",%d,"t%d"]}`, n, ms, n%tenants))
			}
			n++
		}
		f.push(batch...)
	}
	for range kills {
		time.Sleep(time.Duration(300+random.IntN(700)) * time.Millisecond)
		n := random.IntN(len(alive))
		f.eventually(soon, "it is in the fleet", func() bool { return alive[n].id() != "" })
		alive[n].kill()
		f.note("killed", alive[n].pid)
		alive[n] = start()
	}
	f.eventually(3*recovery, "all jobs are counted", func() bool { return f.stat("processed") > total })
	f.buried()
	for _, p := range alive {
		p.stop()
	}
	ends := counts(f.events("end"))
	for n := range total {
		if id := fmt.Sprintf("%04d", n); ends[id] == 0 {
			t.Errorf("job %s is lost", id)
		}
	}
	if n := f.stat("processed"); n != total+1 {
		t.Errorf("stat:processed is %d, want %d", n, total+1)
	}
	f.checkLimits()
	for _, key := range f.left() {
		if key != "resque:go:lanes" && key != "resque:go:limits" && key != "resque:go:clock" {
			t.Errorf("the key %s is left", key)
		}
	}
}

// note adds a line of the test's own to the ledger.
func (f *fleet) note(kind string, pid int) {
	f.t.Helper()
	file, err := os.OpenFile(f.ledger, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := fmt.Fprintf(file, "%s\t\t%d\t\n", kind, pid); err != nil {
		f.t.Fatal(err)
	}
}

// checkLimits reads the ledger from its beginning: how many ran at a time, and in what order.
func (f *fleet) checkLimits() {
	f.t.Helper()
	text, err := os.ReadFile(f.ledger)
	if err != nil {
		f.t.Fatal(err)
	}
	running := make(map[string]map[string]string) // limit → job → pid
	most := make(map[string]int)
	last := make(map[string]string) // tenant → the job that began last
	ended := make(map[string]bool)
	again := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		kind, id, pid, limit := fields[0], fields[1], fields[2], fields[3]
		switch kind {
		case "killed":
			for _, jobs := range running {
				for id, by := range jobs {
					if by == pid {
						delete(jobs, id)
					}
				}
			}
		case "start":
			if running[limit] == nil {
				running[limit] = make(map[string]string)
			}
			running[limit][id] = pid
			most[limit] = max(most[limit], len(running[limit]))
			if limit == "few" {
				break
			}
			switch before := last[limit]; {
			case id < before:
				f.t.Errorf("tenant %s: job %s began after job %s", limit, id, before)
			case id == before:
				again++
			case before != "" && !ended[before]:
				f.t.Errorf("tenant %s: job %s began before job %s had ended", limit, id, before)
			}
			last[limit] = id
		case "end":
			delete(running[limit], id)
			ended[id] = true
		}
	}
	for limit, n := range most {
		if allowed := map[bool]int{true: fewAtOnce, false: 1}[limit == "few"]; n > allowed {
			f.t.Errorf("%d ran at a time under limit %s, want %d", n, limit, allowed)
		}
	}
	f.t.Logf("at most %v at a time; %d jobs began again after a kill", most, again)
}
