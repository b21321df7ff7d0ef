package httpapi_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

// migration is a server with a pool that migrates, and one that serves the old place alone, as before the migration.
type migration struct {
	*gate
	before *gate
	token  string
}

func migrate(t *testing.T) *migration {
	t.Helper()
	redis := redistest.Start(t)
	client := func(namespace string) *goworker.Client {
		c, err := goworker.NewClient(goworker.WorkerSettings{URI: redis.URI(), Namespace: namespace, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	old, fresh := client("old:"), client("fresh:")
	m := &migration{before: guardedOn(t, redis, httpapi.Settings{Pools: map[string]httpapi.Pool{"east": {Client: old}}})}
	m.gate = guardedOn(t, redis, httpapi.Settings{Pools: map[string]httpapi.Pool{"east": {Client: old, MigrateTo: "west"}, "west": {Client: fresh}}})
	m.others = []*httpapi.API{m.before.api}
	m.token, _ = m.gate.token(`{"namespace":"shop","pool":"east"}`)
	return m
}

// v2 makes a call of the server of the migration, below the queue mail.
func (m *migration) v2(method, path, body string, headers ...string) got {
	m.Helper()
	return m.ask(method, m.url+"/v2/shop/"+path, body, append(headers, bearer(m.token))...)
}

// publish publishes by a server and returns the id.
func (m *migration) publish(on *gate, path, body string) string {
	m.Helper()
	r := on.ask("POST", on.url+"/v2/shop/queues/"+path, body, bearer(m.token))
	on.want("a publish", r, 201, `"id"`)
	return member(m.TB, r, "id")
}

// take takes a job, and returns its id and its body.
func (m *migration) take(queue string, wait int) (id, body string) {
	m.Helper()
	r := m.v2("POST", "reservations", fmt.Sprintf(`{"queues":[%q],"wait_ms":%d}`, queue, wait))
	m.want("a reservation", r, 200, `"jobs"`)
	var got struct{ Jobs []struct{ ID, Body string } }
	m.must(json.Unmarshal([]byte(r.body), &got))
	return got.Jobs[0].ID, got.Jobs[0].Body
}

func member(t testing.TB, r got, name string) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(r.body), &all); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	text, _ := all[name].(string)
	return text
}

// While a pool migrates, a consumer that waits gets what comes to either place: a job whose lease ran out, or that was nacked,
// comes back to the old one.
func TestMigratingPoolWakes(t *testing.T) {
	t.Parallel()
	m := migrate(t)
	for _, c := range []struct {
		where string
		on    *gate
	}{{"the old pool", m.before}, {"the new pool", m.gate}} {
		waiting := make(chan got, 1)
		go func() {
			waiting <- m.v2("POST", "reservations", `{"queues":["mail"],"wait_ms":60000}`)
		}()
		m.eventually("the consumer waits in both", func() bool {
			pools := m.api.Stats().Pools
			return pools["east"].Waiters == 1 && pools["west"].Waiters == 1
		})
		m.publish(c.on, "mail/jobs", c.where)
		r := <-waiting
		m.want("what comes to "+c.where, r, 200, c.where)
		m.eventually("nothing waits any more", func() bool {
			pools := m.api.Stats().Pools
			return pools["east"].Waiters == 0 && pools["west"].Waiters == 0
		})
	}
	m.want("a wait for nothing", m.v2("POST", "reservations", `{"queues":["mail"],"wait_ms":50}`), 204, "")
}

// While a pool migrates, every call finds what is in either place.
func TestMigratingPool(t *testing.T) {
	t.Parallel()
	m := migrate(t)
	for _, c := range []struct {
		where string
		on    *gate
	}{{"old", m.before}, {"new", m.gate}} {
		queue := c.where
		publish := func(options, body string) string { return m.publish(c.on, queue+"/jobs"+options, body) }
		job := func(id, call string) string { return "queues/" + queue + "/jobs/" + id + call }

		id := publish("?tries=9&result_ttl_ms=60000", "one")
		m.want("peek in v1", m.ask("GET", m.url+"/api/shop/"+queue+"/peek", "", "X-Token: "+m.token), 200, id)
		m.want("a job by its id in v1", m.ask("GET", m.url+"/api/shop/"+queue+"/job/"+id, "", "X-Token: "+m.token), 200, id)
		m.finds(job(id, ""), 200, `"ready"`)
		m.want("the list", m.v2("GET", "queues/"+queue+"/jobs?limit=1", ""), 200, "")
		m.want("a result that is to come", m.v2("GET", job(id, "/result"), ""), 204, "")
		for _, end := range []string{"/release", "/nack"} {
			taken, _ := m.take(queue, 0)
			m.want("find what is reserved", m.v2("GET", job(taken, ""), ""), 200, `"reserved"`)
			m.want("touch", m.v2("POST", job(taken, "/touch"), `{"ttr_ms":60000}`), 200, `"lease"`)
			m.want(end, m.v2("POST", job(taken, end), `{}`), 204, "")
		}
		m.take(queue, 0)
		awaited := make(chan got, 1)
		go func() { awaited <- m.v2("GET", job(id, "/result?wait_ms=60000"), "") }()
		m.want("an ack with a result", m.v2("POST", job(id, "/ack"), `{"result":"done"}`), 204, "")
		m.want("the awaited result", <-awaited, 200, `"done"`)
		m.want("an ack of what has ended", m.v2("POST", job(id, "/ack"), `{}`), 404, "no-job")

		// The end of several at a time.
		id, other := publish("", "two"), m.publish(m.gate, queue+"/jobs", "three")
		first, _ := m.take(queue, 0)
		second, _ := m.take(queue, 0)
		if first != id || second != other {
			t.Errorf("%s: took %s and %s, want %s and %s", c.where, first, second, id, other)
		}
		acks := fmt.Sprintf(`{"jobs":[{"queue":%q,"id":%q},{"queue":%q,"id":"none"},{"queue":%q,"id":%q}]}`, queue, id, queue, queue, other)
		m.want("acks", m.v2("POST", "acks", acks), 200, `["acked","unknown","acked"]`)

		// Republish, cancel, delete.
		id = publish("", "four")
		m.take(queue, 0)
		fresh := member(t, m.v2("PUT", job(id, ""), "five"), "id")
		if got, body := m.take(queue, 0); got != fresh || body != "five" {
			t.Errorf("%s: the job in the place of another is %s %q, want %s", c.where, got, body, fresh)
		}
		m.want("v1's delete", m.ask("DELETE", m.url+"/api/shop/"+queue+"/job/"+fresh, "", "X-Token: "+m.token), 204, "")
		id = publish("?delay_ms=600000", "six")
		m.want("find what is delayed", m.v2("GET", job(id, ""), ""), 200, `"delayed"`)
		m.eventually("the delayed job is counted", func() bool {
			return strings.Contains(m.v2("GET", "queues/"+queue, "").body, `"delayed":1`)
		})
		m.eventually("the delayed job is cancelled", func() bool { // a queue rests after a search
			r := m.v2("DELETE", job(id, ""), "")
			if r.status != 204 && r.status != 409 {
				t.Fatalf("cancel: %d %s", r.status, r.body)
			}
			return r.status == 204
		})
		m.finds(job(id, ""), 404, "no-job")

		// Dead letters.
		for _, text := range []string{"seven", "eight", "nine"} {
			id = publish("", text)
			m.take(queue, 0)
			m.want("fail", m.v2("POST", job(id, "/fail"), `{"error":"ill"}`), 204, "")
		}
		m.want("v1's dead letters", m.ask("GET", m.url+"/api/shop/"+queue+"/deadletter", "", "X-Token: "+m.token), 200, `"deadletter_size":3`)
		var dead []string
		for after, pages := "", 0; pages < 9; pages++ {
			var page struct {
				Next string
				Jobs []struct {
					DeadID string `json:"dead_id"`
				}
			}
			r := m.v2("GET", "queues/"+queue+"/jobs?state=dead&limit=2&after="+after, "")
			m.must(json.Unmarshal([]byte(r.body), &page))
			for _, j := range page.Jobs {
				dead = append(dead, j.DeadID)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if len(dead) != 3 {
			t.Fatalf("%s: the dead letters are %v, want 3", c.where, dead)
		}
		m.want("retry", m.v2("POST", "queues/"+queue+"/dead", fmt.Sprintf(`{"ids":[%q]}`, dead[0])), 200, `"changed":1`)
		m.want("retry once more", m.v2("POST", "queues/"+queue+"/dead", fmt.Sprintf(`{"ids":[%q]}`, dead[0])), 409, "exists")
		m.want("remove", m.v2("DELETE", "queues/"+queue+"/dead", fmt.Sprintf(`{"ids":[%q]}`, dead[1])), 200, `"changed":1`)
		m.want("remove what is gone", m.v2("DELETE", "queues/"+queue+"/dead", fmt.Sprintf(`{"ids":[%q]}`, dead[1])), 404, "no-job")
		if _, body := m.take(queue, 0); body != "nine" {
			t.Errorf("%s: retried %q, want nine", c.where, body)
		}
		m.want("v1's respawn", m.ask("PUT", m.url+"/api/shop/"+queue+"/deadletter?limit=9", "", "X-Token: "+m.token), 200, "")
		m.want("the counts", m.v2("GET", "queues/"+queue, ""), 200, `"dead":0`)
		m.want("the queues", m.v2("GET", "queues", ""), 200, `"name":"`+queue+`"`)
		m.want("a pause", m.v2("POST", "queues/"+queue+"/pause", ""), 204, "")
		m.want("a paused queue", m.v2("POST", "reservations", fmt.Sprintf(`{"queues":[%q]}`, queue)), 204, "")
		m.want("its end", m.v2("POST", "queues/"+queue+"/resume", ""), 204, "")
		m.listens(queue)
		m.want("destroy", m.v2("DELETE", "queues/"+queue, ""), 204, "")
		m.want("a destroyed queue", m.v2("POST", "reservations", fmt.Sprintf(`{"queues":[%q]}`, queue)), 204, "")
	}
	called := make(chan got, 1)
	go func() { called <- m.v2("POST", "queues/calls/call?wait_ms=60000", "question") }()
	id, _ := m.take("calls", 60000)
	m.want("the end of a call", m.v2("POST", "queues/calls/jobs/"+id+"/ack", `{"result":"answer"}`), 204, "")
	m.want("a call", <-called, 200, `"answer"`)
}

// finds looks for a job until the queue, which rests after each search, was searched.
func (m *migration) finds(path string, status int, part string) {
	m.Helper()
	var r got
	m.eventually("the queue is searched", func() bool {
		r = m.v2("GET", path, "")
		return r.status != 409
	})
	m.want("find", r, status, part)
}

// listens reads the first event of a stream of a queue's counts.
func (m *migration) listens(queue string) {
	m.Helper()
	r, err := http.NewRequestWithContext(m.Context(), "GET", m.url+"/v2/shop/events?queues="+queue, nil)
	m.must(err)
	r.Header.Set("X-Token", m.token)
	answer, err := m.client.Do(r)
	m.must(err)
	defer answer.Body.Close()
	text, piece := "", make([]byte, 1024)
	for !strings.Contains(text, "event: counts") || !strings.HasSuffix(text, "\n\n") {
		n, err := answer.Body.Read(piece)
		m.must(err)
		text += string(piece[:n])
	}
	if !strings.Contains(text, fmt.Sprintf(`"%s":{"ready":2`, queue)) {
		m.Errorf("the event is %s", text)
	}
}
