package workflows_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// resultStore is the results of a workflow in Redis.
func resultStore(t *testing.T) (workflows.Store, redis.Conn) {
	t.Helper()
	server := redistest.Start(t)
	server.Do(t, "HSET", "resque:go:wf:w", "state", "running", "r0", "1", "r1", `"a"`, "r3", `!{"error":"no"}`, "r4", "+[4,5]", "r5", "[6]", "r8", `!{"error":"branch"}`)
	return workflows.New(resque.New("")), server.Dial(t)
}

func join(raws []json.RawMessage) string {
	texts := make([]string, len(raws))
	for i, raw := range raws {
		texts[i] = string(raw)
	}
	return strings.Join(texts, " ")
}

// Values side by side, lists, lists with failures, lists that stand for branches, and all of them in each other.
func TestReadValues(t *testing.T) {
	t.Parallel()
	s, c := resultStore(t)
	for of, want := range map[string]string{
		"0":             `1`,
		"0,1":           `1 "a"`,
		"0+2":           `1 "a"`,
		"2":             ``,
		"0+3,5":         `1 "a" [6]`,
		"3":             `null`,
		"4":             `4 5`,
		"[0+2]":         `[1,"a"]`,
		"[0,1]":         `[1,"a"]`,
		"[0+6]":         `[1,"a",null,null,[4,5],[6]]`,
		"c[0+5]":        `[{"result":1},{"result":"a"},{"result":null},{"error":{"error":"no"}},{"result":[4,5]}]`,
		"[]":            `[]`,
		"c[]":           `[]`,
		"0,[1,[0]],4":   `1 ["a",[1]] 4 5`,
		"9[0]":          `[1]`,
		"8[0,[1]]":      `null`,
		"[8[0],1]":      `[null,"a"]`,
		"c[8[0,1],0]":   `[{"error":{"error":"branch"}},{"result":1}]`,
		"c[9c[3],0]":    `[{"result":[{"error":{"error":"no"}}]},{"result":1}]`,
		"[8c[3,3],9[]]": `[null,[]]`,
	} {
		v, ok := workflows.ParseValues(of)
		if !ok {
			t.Errorf("%s cannot be read", of)
			continue
		}
		got, err := s.ReadValues(c, "w", v, 1<<20)
		if err != nil || join(got) != want {
			t.Errorf("%s: %s, %v\nwant %s", of, join(got), err, want)
		}
	}
	for _, of := range []string{"", "x", "0+", "0+0", "+1", "[", "[0", "0]", "0,", "[0,]", "[,0]", "c", "c0", "3c", "-1", "0 ", "0,,1", "99999999999999999999", strings.Repeat("[", 1000) + strings.Repeat("]", 1000)} {
		if _, ok := workflows.ParseValues(of); ok {
			t.Errorf("%q is no list of results", of)
		}
	}
	v, _ := workflows.ParseValues("[0+6]")
	if _, err := s.ReadValues(c, "w", v, 10); err == nil || !strings.Contains(err.Error(), "more than 10 bytes") {
		t.Error(err)
	}
	if _, err := s.ReadValues(c, "v", v, 10); !errors.Is(err, workflows.ErrGone) {
		t.Error(err)
	}
}

// Pages of a list are what the whole list has there.
func TestReadResults(t *testing.T) {
	t.Parallel()
	s, c := resultStore(t)
	for _, of := range []string{"[0+6]", "c[0+6]", "[0,[1,0+4],c[3],8[0],5,0+2]", "9[0+3]", "[]"} {
		v, _ := workflows.ParseValues(of)
		whole, err := s.ReadValues(c, "w", v, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		var all []json.RawMessage
		if err := json.Unmarshal(whole[0], &all); err != nil {
			t.Fatal(err)
		}
		if n, ok := v.OneList(); !ok || n != len(all) {
			t.Errorf("%s has %d elements, %v", of, n, ok)
		}
		for from := range len(all) + 1 {
			for count := range len(all) + 2 {
				got, err := s.ReadResults(c, "w", v, from, count)
				if want := all[from:min(len(all), from+count)]; err != nil || join(got) != join(want) {
					t.Fatalf("%s, %d from %d on: %s, %v\nwant %s", of, count, from, join(got), err, join(want))
				}
			}
		}
	}
	v, _ := workflows.ParseValues("0,1")
	if _, err := s.ReadResults(c, "w", v, 0, 1); err == nil {
		t.Error("values side by side are no list")
	}
}

// Many results are read in pages: the process never has many of them.
func TestReadManyResults(t *testing.T) {
	t.Parallel()
	s, c := resultStore(t)
	const many = 100_000
	for n := 0; n < many; n += 1000 {
		args := []any{"resque:go:wf:w"}
		for i := n; i < n+1000; i++ {
			args = append(args, fmt.Sprint("r", i), fmt.Sprintf(`{"number":%d,"text":"a result of about a hundred bytes, as a step has it that says what it has done and where"}`, i))
		}
		if _, err := c.Do("HSET", args...); err != nil {
			t.Fatal(err)
		}
	}
	v, _ := workflows.ParseValues(fmt.Sprintf("[0+%d]", many))
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most uint64
	for from := 0; from < many; from += 512 {
		page, err := s.ReadResults(c, "w", v, from, 512)
		if err != nil || len(page) != min(512, many-from) || !strings.HasPrefix(string(page[0]), fmt.Sprintf(`{"number":%d,`, from)) {
			t.Fatalf("from %d: %d results, %v", from, len(page), err)
		}
		if from%(512*20) == 0 {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse-min(now.HeapInuse, before.HeapInuse))
		}
	}
	if most > 16<<20 {
		t.Errorf("%d bytes", most)
	}
	t.Logf("%d KiB", most>>10)
}
