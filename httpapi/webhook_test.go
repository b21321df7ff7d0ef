package httpapi_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/events"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/webhook"
)

// hooked announces a webhook, as a deliverer does.
func (p *place) hooked(name string) {
	p.t.Helper()
	p.redis.Do(p.t, "XGROUP", "CREATE", "resque:go:webhook:"+name, "deliverers", "0", "MKSTREAM")
	p.redis.Do(p.t, "HSET", "resque:go:notice", "webhook:"+name, fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), " ", strings.Join(webhook.Kinds(), ","), " args"))
}

// ends are the entries of a webhook, by the id of their job.
func (p *place) ends(name string) map[string][]map[string]any {
	p.t.Helper()
	rows, err := redis.Values(p.redis.Do(p.t, "XRANGE", "resque:go:webhook:"+name, "-", "+"), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	all := make(map[string][]map[string]any)
	for _, row := range rows {
		pair, _ := redis.Values(row, nil)
		fields, err := redis.StringMap(pair[1], nil)
		var e map[string]any
		if err == nil {
			err = json.Unmarshal([]byte(fields["e"]), &e)
		}
		if err != nil {
			p.t.Fatal(err)
		}
		e["args"] = fields["a"]
		id := fmt.Sprint(e["i"])
		all[id] = append(all[id], e)
	}
	return all
}

// What ends badly at a server is written for webhooks, as what ends badly at a daemon is.
func TestWebhooksOfHTTP(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	taken := func(options string) given {
		p.publish("/v2/shop/queues/q/jobs"+options, `"a"`)
		return p.one("q")
	}
	j := taken("")
	p.end(204, j, "fail", lease(j))
	if n := p.redis.Int(t, "EXISTS", "resque:go:webhook:ops", "resque:go:webhook:ops:state"); n > 0 {
		t.Errorf("%d keys of a webhook, and none is announced", n)
	}
	p.hooked("ops")
	redistest.Eventually(t, patience, "the server writes for the webhook", func() bool {
		j := taken("")
		p.end(204, j, "fail", lease(j))
		return len(p.ends("ops")[j.ID]) == 1
	})
	want := make(map[string]string)
	for how, kind := range map[string]string{"ack": "", "nack": events.Retried, "fail": events.Failed, "release": ""} {
		j := taken("?tries=2")
		p.end(204, j, how, lease(j))
		want[j.ID] = kind
		if how == "nack" || how == "release" { // it is there again
			j = p.one("q")
			p.end(204, j, "ack", lease(j))
		}
	}
	p.publish("/v2/shop/queues/q/jobs", "its lease runs out")
	late := p.take(`{"queues":["shop.q","q"],"ttr_ms":1000}`)[0]
	want[late.ID] = events.Failed
	unwanted := taken("")
	p.end(204, unwanted, "release", lease(unwanted))
	if err := p.jobs.Cancel(t.Context(), unwanted.ID); err != nil {
		t.Fatal(err)
	}
	want[unwanted.ID] = events.Cancelled
	redistest.Eventually(t, patience, "the lease has run out", func() bool { return len(p.ends("ops")[late.ID]) > 0 })
	redistest.Eventually(t, patience, "the cancelled one is dropped", func() bool {
		for _, j := range p.take(`{"queues":["q"]}`) { // Redis notifies the server of the cancel a little later
			p.end(204, j, "release", lease(j))
		}
		return len(p.ends("ops")[unwanted.ID]) > 0
	})
	servers := p.redis.List(t, "ZRANGE", "resque:go:takers", 0, -1)
	for id, kind := range want {
		switch ends := p.ends("ops")[id]; {
		case kind == "" && len(ends) == 0:
		case len(ends) != 1 || ends[0]["k"] != kind || ends[0]["q"] != "shop.q" || ends[0]["c"] != "HTTPJob" || ends[0]["ms"] != nil || ends[0]["args"] == "" || !slices.Contains(servers, fmt.Sprint(ends[0]["p"])):
			t.Errorf("%s: %v of the servers %q", kind, ends, servers)
		}
	}
}

// A server that hears no operators writes nothing for webhooks.
func TestNoWebhooksOfHTTP(t *testing.T) {
	t.Parallel()
	p := &place{t: t, redis: redistest.Start(t), settings: goworker.WorkerSettings{Control: goworker.ControlOff}}
	p.open(httpapi.Settings{Open: true})
	p.hooked("ops")
	p.redis.Do(t, "DEL", "resque:go:takers") // written by the next renewal
	redistest.Eventually(t, patience, "the server has renewed its record", func() bool { return p.redis.Int(t, "EXISTS", "resque:go:takers") == 1 })
	p.publish("/v2/shop/queues/q/jobs", "a")
	j := p.one("q")
	p.end(204, j, "fail", lease(j))
	if ends := p.ends("ops"); len(ends) > 0 {
		t.Errorf("%v", ends)
	}
}

// A server whose user may not touch the keys of webhooks says so once, and its jobs end. With the rules of docs/redis.md it writes.
func TestWebhookUserOfHTTP(t *testing.T) {
	redistest.OwnUser(t)
	t.Parallel()
	var log transcript
	p := &place{t: t, redis: redistest.Start(t), settings: goworker.WorkerSettings{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	rules := redistest.MinimalACL(t)
	may := func(more ...string) {
		p.redis.Do(t, "ACL", redis.Args{"SETUSER"}.AddFlat(rules).AddFlat(more)...)
	}
	may("resetkeys", "~resque:[^g]*", "~resque:go:[^w]*", "~resque:go:w[^e]*")
	p.settings.URI = strings.Replace(p.redis.URI(), "redis://", "redis://"+rules[0]+":"+redistest.ACLPassword+"@", 1)
	p.open(httpapi.Settings{Open: true})
	fails := func() string {
		p.publish("/v2/shop/queues/q/jobs", "a")
		j := p.one("q")
		p.end(204, j, "fail", lease(j))
		return j.ID
	}
	p.hooked("ops")
	redistest.Eventually(t, patience, "the server says what it may not write", func() bool {
		fails()
		return strings.Contains(log.String(), "Redis refuses the events of this process for a webhook")
	})
	if ends := p.ends("ops"); len(ends) > 0 {
		t.Errorf("%v", ends)
	}
	may()
	p.redis.Do(t, "DEL", "resque:go:webhook:ops")
	p.hooked("ops") // as a deliverer announces it again and again
	redistest.Eventually(t, patience, "the server writes for the webhook", func() bool {
		id := fails()
		return len(p.ends("ops")[id]) == 1
	})
}
