package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// walkKeys walks through all pages.
func walkKeys(t *testing.T, i *inspect.Inspector, match string, o inspect.KeysOptions) (all []inspect.KeyRow, looked, others int64) {
	t.Helper()
	for after, pages := "", 0; ; pages++ {
		page, err := i.Keys(t.Context(), match, after, o)
		if err != nil || pages > 2000 || len(page.Denied) > 0 {
			t.Fatalf("page %d: %+v, %v", pages, page, err)
		}
		all, looked, others = append(all, page.Keys...), looked+page.Looked, others+page.Others
		if after = page.Next; after == "" {
			return all, looked, others
		}
	}
}

func fillKeys(t *testing.T, server *redistest.Server) {
	t.Helper()
	server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"A","args":[]}`, "two", "three")
	server.Do(t, "SADD", "resque:queues", "mail", "low")
	server.Do(t, "ZADD", "resque:go:schedule", 1, "x", 2, "y")
	server.Do(t, "HSET", "resque:go:inflight:p", "1", "payload", "2", strings.Repeat("p", 5000))
	server.Do(t, "HSET", "resque:go:http:tokens", "digest", "record")
	server.Do(t, "SET", "resque:go:result:a", "12345", "EX", "1000")
	server.Do(t, "XADD", "resque:go:log", "*", "a", "b")
	server.Do(t, "SET", "resque:mine", "1")
	for n := range 40 {
		server.Do(t, "SET", fmt.Sprint("other:", n), "secret")
	}
}

// A walk shows each key of the namespace, what it is, and how many there are of other programs.
func TestKeys(t *testing.T) {
	i, server, l := setup(t)
	fillKeys(t, server)
	for _, count := range []int{0, 1, 1000} {
		all, looked, others := walkKeys(t, i, "", inspect.KeysOptions{Count: count, Budget: time.Minute})
		if looked != 48 || others != 40 {
			t.Errorf("%d keys were looked at, %d of other programs", looked, others)
		}
		var said []string
		for _, k := range all {
			said = append(said, fmt.Sprintf("%s %s %s %s %v", strings.TrimPrefix(k.Name, "resque:"), k.Family, k.Type, k.Elements, k.TTL > 900*time.Second && k.Ends && k.TTLKnown))
		}
		slices.Sort(said)
		want(t, "keys", []string{
			"go:http:tokens tokens hash 1 false", "go:inflight:p go:inflight hash 2 false", "go:log history stream 1 false",
			"go:result:a result documents string 5 true", "go:schedule delayed jobs zset 2 false", "mine other string 1 false",
			"queue:mail queue list 3 false", "queues names of queues set 2 false",
		}, said, nil)
	}
	if all, _, _ := walkKeys(t, i, "queue*", inspect.KeysOptions{}); len(all) != 2 {
		t.Errorf("queue* fits %+v", all)
	}
	for name, after := range map[string]string{"a word": "x", "an older cursor of shards": "AAAA"} {
		if _, err := i.Keys(t.Context(), "", after, inspect.KeysOptions{}); !errors.Is(err, inspect.ErrCursor) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []inspect.KeysOptions{{Count: -1}, {Count: 1001}, {Budget: -1}} {
		if _, err := i.Keys(t.Context(), "", "", o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}

	l.as("~resque:*", "-@all", "+scan", "+eval", "+evalsha", "+llen", "+type")
	page, err := i.Keys(t.Context(), "queue*", "", inspect.KeysOptions{Budget: time.Minute, Count: 1000})
	want(t, "denied", []inspect.Denied{{Command: "PTTL", Rule: "+pttl"}, {Command: "SCARD", Rule: "+scard"}}, page.Denied, err)
	for _, k := range page.Keys {
		if k.TTLKnown || k.Ends || k.Elements.Known() != (k.Type == "list") || k.Type == "" {
			t.Errorf("without a rule: %+v", k)
		}
	}
	l.as("~resque:*", "-@all", "+eval", "+evalsha")
	var denied *inspect.DeniedError
	if _, err := i.Keys(t.Context(), "", "", inspect.KeysOptions{}); !errors.As(err, &denied) || denied.Rule != "+scan" {
		t.Errorf("without SCAN: %v", err)
	}
}

// A page ends with its budget and with its count.
func TestKeysBudget(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "EVAL", "for i = 1, 20000 do redis.call('SET', 'resque:k' .. i, 1) redis.call('SET', 'x' .. i, 1) end", 0)
	page, err := i.Keys(t.Context(), "nothing", "", inspect.KeysOptions{Budget: 1})
	if err != nil || page.Next == "" || page.Looked > 400 {
		t.Errorf("a short budget: %d looked at, %q, %v", page.Looked, page.Next, err)
	}
	page, err = i.Keys(t.Context(), "", "", inspect.KeysOptions{Budget: time.Hour})
	if err != nil || page.Next == "" || len(page.Keys) < 200 || len(page.Keys) > 300 {
		t.Errorf("a page has %d keys, %v", len(page.Keys), err)
	}
	seen := make(map[string]bool)
	all, _, _ := walkKeys(t, i, "k1*", inspect.KeysOptions{Budget: time.Hour})
	for _, k := range all {
		seen[k.Name] = true
	}
	want(t, "keys", 11111, len(seen), nil)
}

// A key shows the beginning of jobs and names, and of nothing else.
func TestKey(t *testing.T) {
	i, server, l := setup(t)
	fillKeys(t, server)
	ctx := t.Context()
	k, err := i.Key(ctx, "resque:queue:mail")
	if err != nil || k.Bytes <= 0 || k.Encoding == "" || k.Elements.N != 3 || len(k.Contents) != 3 || k.Contents[0].Text != `{"class":"A","args":[]}` || k.Contents[2].Size != 5 {
		t.Errorf("a list: %+v, %v", k, err)
	}
	k, err = i.Key(ctx, "resque:go:inflight:p")
	slices.SortFunc(k.Contents, func(a, b inspect.KeyContent) int { return strings.Compare(a.Field, b.Field) })
	if err != nil || len(k.Contents) != 2 || k.Contents[0] != (inspect.KeyContent{Field: "1", Text: "payload", Size: 7}) || len(k.Contents[1].Text) != 2048 || k.Contents[1].Size != 5000 {
		t.Errorf("a hash: %+v, %v", k, err)
	}
	k, err = i.Key(ctx, "resque:queues")
	if err != nil || len(k.Contents) != 2 {
		t.Errorf("a set: %+v, %v", k, err)
	}
	for _, name := range []string{"resque:go:http:tokens", "resque:mine", "resque:go:schedule", "resque:go:result:a", "resque:go:log"} {
		if k, err := i.Key(ctx, name); err != nil || k.Contents != nil || k.Type == "" {
			t.Errorf("%s: %+v, %v", name, k, err)
		}
	}
	for _, name := range []string{"other:1", "resque", "", "resque:"} {
		if k, err := i.Key(ctx, name); !errors.Is(err, inspect.ErrForeignKey) || k.Type != "" {
			t.Errorf("%q: %+v, %v", name, k, err)
		}
	}
	if _, err := i.Key(ctx, "resque:gone"); !errors.Is(err, inspect.ErrNoKey) {
		t.Errorf("no key: %v", err)
	}

	for n := range 200 { // small ones, and then large ones
		server.Do(t, "RPUSH", "resque:queue:long", fmt.Sprint(n))
		server.Do(t, "SADD", "resque:workers", n)
		server.Do(t, "HSET", "resque:go:leased", n, strings.Repeat("x", 100))
	}
	server.Do(t, "EVAL", "for i = 1, 10 do redis.call('RPUSH', 'resque:failed', string.rep('x', 400000)) end", 0)
	for name, most := range map[string]int{"queue:long": 50, "workers": 50, "go:leased": 50, "failed": 6} {
		if k, err := i.Key(ctx, "resque:"+name); err != nil || len(k.Contents) > most || len(k.Contents) < most/2 {
			t.Errorf("%s shows %d elements, %v", name, len(k.Contents), err)
		}
	}

	l.as("~resque:*", "-@all", "+eval", "+evalsha", "+type", "+pttl", "+llen", "+lrange")
	k, err = i.Key(ctx, "resque:queue:mail")
	want(t, "denied", []inspect.Denied{{Command: "MEMORY USAGE", Rule: "+memory|usage"}, {Command: "OBJECT ENCODING", Rule: "+object|encoding"}}, k.Denied, err)
	if k.Bytes != -1 || len(k.Contents) != 3 {
		t.Errorf("the rest is %+v", k)
	}
	l.as("~resque:*", "-@all", "+eval", "+evalsha", "+type", "+pttl", "+llen")
	var denied *inspect.DeniedError
	if k, err := i.Key(ctx, "resque:queue:mail"); !errors.As(err, &denied) || k.Elements.N != 3 {
		t.Errorf("without LRANGE: %+v, %v", k, err)
	}
}

// Keys of shards are walked one shard after the other.
func TestKeysOfShards(t *testing.T) {
	i, servers := sharded(t)
	for n, server := range servers {
		server.Do(t, "SET", fmt.Sprint("resque:k", n), "1")
		server.Do(t, "SET", "other", "1")
	}
	all, looked, others := walkKeys(t, i, "", inspect.KeysOptions{})
	if len(all) != 3 || looked != 6 || others != 3 || all[2].Shard != "redis://shard2" {
		t.Errorf("%+v, %d, %d", all, looked, others)
	}
	if k, err := i.Key(t.Context(), "resque:k1"); err != nil || k.Shard != "redis://shard1" {
		t.Errorf("%+v, %v", k, err)
	}
	if _, err := i.Key(t.Context(), "resque:gone"); !errors.Is(err, inspect.ErrNoKey) {
		t.Errorf("no key: %v", err)
	}
	report, err := i.MemoryByFamily(t.Context(), time.Minute)
	if err != nil || !report.Whole || report.Of != 6 || report.Looked != 6 || report.Families[0].Keys != 3 || report.Others.Keys != 3 || report.Others.Bytes <= 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// The families of keys are measured: those of one of a kind and the queues by name, the others by a sample.
func TestMemoryByFamily(t *testing.T) {
	i, server, l := setup(t)
	fillKeys(t, server)
	server.Do(t, "EVAL", "for i = 1, 30000 do redis.call('RPUSH', 'resque:failed', string.rep('x', 100)) end", 0)
	families := func(budget time.Duration) (inspect.FamilyReport, map[string]inspect.KeyFamily) {
		t.Helper()
		r, err := i.MemoryByFamily(t.Context(), budget)
		if err != nil {
			t.Fatal(err)
		}
		of := make(map[string]inspect.KeyFamily)
		for _, f := range r.Families {
			of[f.Name] = f
		}
		return r, of
	}
	r, of := families(time.Hour)
	if !r.Whole || r.Looked != 49 || r.Of != 49 || r.Others.Keys != 40 || r.Others.Bytes <= 0 || len(r.Denied) > 0 {
		t.Errorf("the whole is %+v", r)
	}
	if r.Families[0].Name != "failed" || of["failed"].Bytes < 3_000_000 || of["failed"].Estimate != of["failed"].Bytes || of["queue"].Keys != 1 || of["other"].Keys != 1 {
		t.Errorf("the families are %+v", r.Families)
	}

	const results = 20_000
	server.Do(t, "EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'resque:go:result:' .. i, string.rep('x', 1000)) end", 0, results)
	_, of = families(time.Hour)
	whole := of["result documents"]
	r, of = families(1)
	part := of["result documents"]
	if r.Whole || r.Looked > 1000 || r.Of != 49+results || of["failed"].Bytes < 3_000_000 || of["failed"].Estimate != of["failed"].Bytes || r.Families[0].Name != "result documents" {
		t.Errorf("a part is %+v", r)
	}
	if part.Bytes > whole.Bytes/10 || part.Estimate < whole.Bytes*8/10 || part.Estimate > whole.Bytes*12/10 {
		t.Errorf("of %d bytes %d were seen and %d estimated", whole.Bytes, part.Bytes, part.Estimate)
	}

	rules := []any{"~resque:*", "-@all", "+scan", "+eval", "+evalsha", "+type", "+pttl", "+scard", "+smembers", "+hlen", "+llen", "+strlen", "+zcard", "+xlen", "+get"}
	l.as(append(rules, "+memory|usage", "+dbsize")...)
	r, of = families(time.Hour)
	if r.Others.Bytes != -1 || r.Others.Keys != 40 || of["failed"].Bytes < 3_000_000 || len(r.Denied) > 0 {
		t.Errorf("who may use the namespace sees %+v", r)
	}
	l.as(rules...)
	r, of = families(1)
	want(t, "denied", []inspect.Denied{{Command: "MEMORY USAGE", Rule: "+memory|usage"}, {Command: "DBSIZE", Rule: "+dbsize"}}, r.Denied, nil)
	if of["failed"].Keys != 1 || of["failed"].Bytes != -1 || of["failed"].Estimate != -1 || r.Of != 0 {
		t.Errorf("who may not measure sees %+v", r)
	}
}
