package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

// end posts an end of a job.
func (p *place) end(status int, j given, how, body string) {
	p.t.Helper()
	if r := p.send("POST", "/v2/shop/queues/"+j.Queue+"/jobs/"+j.ID+"/"+how, body); r.status != status {
		p.t.Fatalf("%s %s: %d %s", how, body, r.status, r.body)
	}
}

func lease(j given, more ...string) string {
	return `{"lease":"` + j.Lease + `"` + strings.Join(append([]string{""}, more...), ",") + `}`
}

// TestV2Ends ends reserved jobs in every way.
func TestV2Ends(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	at := func(j given, how string) string { return "/v2/shop/queues/q/jobs/" + j.ID + "/" + how }

	p.publish("/v2/shop/queues/q/jobs?tries=3", "a")
	j := p.one("q")
	for _, how := range []string{"ack", "nack", "fail", "release", "touch"} {
		if got := p.problem("lease-lost", http.StatusConflict, "POST", at(j, how), `{"lease":"1795405611754"}`); got["status"] != 409.0 {
			t.Errorf("%v", got)
		}
		p.problem("invalid-parameter", 400, "POST", at(j, how), `{"lease":"x"}`)
		p.problem("invalid-parameter", 400, "POST", at(j, how), `{"leas":"1"}`)
		p.problem("invalid-parameter", 400, "POST", at(j, how)+"?lease=1", `{}`)
	}

	// A nack is another delivery.
	p.end(204, j, "nack", lease(j, `"error":"was ill"`))
	old := j
	if j = p.one("q"); j.ID != old.ID || j.Attempt != 2 || j.Tries != 3 {
		t.Fatalf("after the nack: %+v", j)
	}
	p.problem("lease-lost", 409, "POST", at(old, "ack"), lease(old))

	// A release uses up no try.
	p.end(204, j, "release", lease(j))
	if j = p.one("q"); j.Attempt != 2 {
		t.Fatalf("after the release: %+v", j)
	}

	// A touch gives another lease.
	touched := ask[struct{ Lease string }](p, 200, "POST", at(j, "touch"), lease(j, `"ttr_ms":600000`))
	if touched.Lease == j.Lease || len(touched.Lease) != len(j.Lease) || touched.Lease < j.Lease {
		t.Errorf("the lease was %s, and the touch answered %s", j.Lease, touched.Lease)
	}
	shorter := ask[struct{ Lease string }](p, 200, "POST", at(j, "touch"), `{"lease":"`+touched.Lease+`","ttr_ms":300000}`)
	if shorter.Lease >= touched.Lease {
		t.Errorf("a touch for five minutes answered %s, after one for ten %s", shorter.Lease, touched.Lease)
	}
	touched = shorter
	p.problem("lease-lost", 409, "POST", at(j, "ack"), lease(j))
	j.Lease = touched.Lease
	p.end(204, j, "ack", lease(j))
	p.problem("no-job", 404, "POST", at(j, "ack"), lease(j))
	p.problem("no-job", 404, "POST", at(j, "touch"), `{}`)

	// Without a lease the id decides.
	p.publish("/v2/shop/queues/q/jobs", "b")
	j = p.one("q")
	p.end(204, j, "ack", "")

	// A fail is a dead letter whatever tries there are, and so is a nack of the last try.
	p.publish("/v2/shop/queues/q/jobs?tries=5", "c")
	p.end(204, p.one("q"), "fail", `{"error":"no good"}`)
	p.publish("/v2/shop/queues/q/jobs", "d")
	p.end(204, p.one("q"), "nack", `{}`)
	dead := ask[struct{ Jobs []anything }](p, 200, "GET", "/v2/shop/queues/q/jobs?state=dead", "")
	if len(dead.Jobs) != 2 || dead.Jobs[1]["error"] != "no good" || dead.Jobs[1]["body"] != "c" || dead.Jobs[1]["tries"] != 5.0 {
		t.Errorf("%v", dead.Jobs)
	}
	if jobs := p.take(`{"queues":["q"]}`); jobs != nil {
		t.Errorf("%+v is left", jobs)
	}

	// A nack with a delay waits.
	p.publish("/v2/shop/queues/q/jobs?tries=2", "e")
	j = p.one("q")
	p.end(204, j, "nack", `{"delay_ms":600000}`)
	delayed := ask[struct{ Jobs []anything }](p, 200, "GET", "/v2/shop/queues/q/jobs?state=delayed", "").Jobs
	if len(delayed) != 1 || delayed[0]["state"] != "delayed" || delayed[0]["due_at"] == nil || delayed[0]["attempt"] != 2.0 {
		t.Errorf("%v", delayed)
	}
	redistest.Eventually(t, patience, "the delayed job is found by its id", func() bool { // its queue may rest from a search
		return strings.Contains(p.send("GET", "/v2/shop/queues/q/jobs/"+j.ID, "").body, `"state":"delayed"`)
	})
}

// TestV2Acks acknowledges many jobs at a time.
func TestV2Acks(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	for _, q := range []string{"a", "b", "a"} {
		p.publish("/v2/shop/queues/"+q+"/jobs?tries=2", q)
	}
	jobs := p.take(`{"queues":["a","b"],"count":10}`)
	if len(jobs) != 3 || jobs[2].Queue != "b" {
		t.Fatalf("%+v", jobs)
	}
	body := `{"jobs":[{"queue":"a","id":"` + jobs[0].ID + `","lease":"` + jobs[0].Lease + `"},
		{"queue":"b","id":"nothing"}, {"queue":"a","id":"` + jobs[1].ID + `","lease":"1"}, {"queue":"b","id":"` + jobs[2].ID + `"}]}`
	out := ask[struct{ Results []string }](p, 200, "POST", "/v2/shop/acks", body)
	if !slices.Equal(out.Results, []string{"acked", "unknown", "lease-lost", "acked"}) {
		t.Errorf("%q", out.Results)
	}
	p.problem("invalid-parameter", 400, "POST", "/v2/shop/acks", `{}`)
	if got := p.problem("invalid-parameter", 400, "POST", "/v2/shop/acks", `{"jobs":[{"queue":"a","id":"x"},{"queue":"*","id":"x"}]}`); got["parameter"] != "jobs.1.queue" {
		t.Errorf("%v", got)
	}
	p.problem("too-many-jobs", 413, "POST", "/v2/shop/acks", `{"jobs":[`+strings.Repeat(`{"queue":"a","id":"x"},`, 1000)+`{"queue":"a","id":"x"}]}`)
}

// TestV2LeaseEnds lets a lease end: the job is delivered again, and a late acknowledgement counts until then.
func TestV2LeaseEnds(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	p.publish("/v2/shop/queues/q/jobs?tries=2", "a")
	first := p.take(`{"queues":["q"],"ttr_ms":1000}`)[0]
	second := p.one("q")
	if second.ID != first.ID || second.Attempt != 2 {
		t.Fatalf("%+v", second)
	}
	p.problem("lease-lost", 409, "POST", "/v2/shop/queues/q/jobs/"+first.ID+"/ack", lease(first))
	p.end(204, second, "ack", lease(second))

	p.publish("/v2/shop/queues/late/jobs?tries=2", "b")
	j := p.take(`{"queues":["late"],"ttr_ms":1000}`)[0]
	redistest.Eventually(t, patience, "the job goes back", func() bool { return p.redis.Int(t, "LLEN", "resque:queue:shop.late") == 1 })
	p.end(204, j, "ack", lease(j))
	if jobs := p.take(`{"queues":["late"]}`); jobs != nil {
		t.Errorf("%+v was given after its acknowledgement", jobs)
	}
}

// TestV2FullRedis fills Redis: nothing is published, and consumers go on, also those whose token has a limit.
func TestV2FullRedis(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{})
	made, err := httpapi.NewTokens(p.jobs, "").Create(t.Context(), httpapi.Token{Namespace: "shop", Limits: &httpapi.Limits{Read: 1000, Write: 1000, Interval: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	known(t, made, p.api)
	token := []string{"X-Token", made.Token}
	const jobs = "/v2/shop/queues/q/jobs"
	for range 6 {
		p.publish(jobs+"?tries=3", "a", token...)
	}
	p.publish(jobs+"?tries=3&result_ttl_ms=60000&unique=u", "a", token...)
	p.redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	defer p.redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	p.problem("redis-full", 503, "POST", jobs, "a", token...)
	p.problem("redis-full", 503, "POST", jobs+"?id=x", "a", token...)
	take := func() string {
		r := p.send("POST", "/v2/shop/reservations", `{"queues":["q"]}`, token...)
		var out struct{ Jobs []struct{ ID string } }
		if err := json.Unmarshal([]byte(r.body), &out); err != nil || len(out.Jobs) != 1 {
			t.Fatalf("a reservation: %d %s", r.status, r.body)
		}
		return out.Jobs[0].ID
	}
	for _, end := range [][2]string{{"touch", `{"ttr_ms":60000}`}, {"ack", "{}"}, {"nack", "{}"}, {"nack", `{"delay_ms":60000}`}, {"fail", `{"error":"ill"}`}, {"release", "{}"}} {
		if r := p.send("POST", jobs+"/"+take()+"/"+end[0], end[1], token...); r.status/100 != 2 {
			t.Errorf("%s: %d %s", end[0], r.status, r.body)
		}
	}
	id := take() // what was released
	if r := p.send("POST", "/v2/shop/acks", `{"jobs":[{"queue":"q","id":"`+id+`"}]}`, token...); r.body != `{"results":["acked"]}` {
		t.Errorf("acks: %d %s", r.status, r.body)
	}
	id = take() // with a lock and a result
	if r := p.send("POST", jobs+"/"+id+"/ack", `{"result":1}`, token...); r.status != 204 {
		t.Errorf("an ack with effects: %d %s", r.status, r.body)
	}
	for _, path := range []string{"", "/jobs", "/jobs?state=reserved", "/jobs?state=dead", "/jobs/" + id + "/result"} {
		if r := p.send("GET", "/v2/shop/queues/q"+path, "", token...); r.status != 200 {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
