package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpclient"
)

// How many failures of each group there are.
const (
	declined = 24
	badRows  = 11
	timeouts = 7
)

// seed fills the Redis, and returns when all that fails has failed.
func (f *fleet) seed(ctx context.Context, web string) error {
	for _, step := range []func(context.Context) error{
		f.seedJobs, f.seedRuby, f.seedWorkflows, func(ctx context.Context) error { return f.seedHTTP(ctx, web) }, f.settled,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) seedJobs(ctx context.Context) error {
	var items []goworker.Item
	add := func(n int, queue, class string, args func(n int) []any, opts ...goworker.EnqueueOption) {
		for i := range n {
			items = append(items, goworker.Item{Job: goworker.NewJob(queue, class, args(i)...), Options: opts})
		}
	}
	tenant := func(name string) goworker.EnqueueOption { return goworker.WithMeta(map[string]string{"tenant": name}) }
	add(declined, "payments", "ChargeCard", func(n int) []any { return []any{1000 + n, "acme"} }, tenant("acme"))
	add(badRows, "imports", "ImportRow", func(n int) []any { return []any{n, "cat;grey"} })
	add(timeouts, "payments", "SyncCustomer", func(n int) []any { return []any{7000 + n} }, tenant("initech"))
	add(5, "payments", "Webhook", func(n int) []any { return []any{n} })
	add(120, "mail", "SendMail", func(n int) []any { return []any{fmt.Sprintf("ann%d@example.com", n), "Welcome"} })
	add(30, "images", "Thumbnail", func(n int) []any { return []any{fmt.Sprintf("cat%d.png", n)} })
	add(3, "reports", "Report", func(n int) []any { return []any{fmt.Sprintf("2026-%02d", 9+n)} })
	add(6, "mail", "Account", func(n int) []any { return []any{n} })
	add(40, "mail", "SendMail", func(n int) []any { return []any{fmt.Sprintf("late%d@example.com", n), "Later"} }, goworker.ProcessIn(6*time.Hour))
	add(260, "nightly", "Rebuild", func(n int) []any { return []any{n, map[string]any{"full": n%2 == 0}} }, tenant("acme"))
	add(90, "archive", "Archive", func(n int) []any { return []any{n} })
	add(12, "hooks", "SendMail", func(n int) []any { return []any{fmt.Sprintf("hook%d@example.com", n), "Ping"} })
	_, err := f.client.EnqueueMany(ctx, items...)
	return err
}

// seedRuby leaves what Ruby's workers and resque-scheduler leave.
func (f *fleet) seedRuby(ctx context.Context) error {
	c, err := redis.DialContext(ctx, "tcp", f.redis.address())
	if err != nil {
		return err
	}
	defer c.Close()
	now := time.Now().UTC()
	text := func(v any) string {
		t, _ := json.Marshal(v)
		return string(t)
	}
	busy := map[string]any{"queue": "low", "run_at": now.Add(-40 * time.Minute).Format(time.RFC3339), "payload": map[string]any{"class": "RebuildIndex", "args": []any{"products"}}}
	for n, worker := range []string{"ruby-1:4711:low,mail", "ruby-1:4712:low,mail", "ruby-2:812:low"} {
		if err = c.Send("SADD", "resque:workers", worker); err == nil {
			err = c.Send("SET", "resque:worker:"+worker+":started", now.Add(-26*time.Hour).Format("2006-01-02 15:04:05 -0700"))
		}
		if err == nil {
			err = c.Send("HSET", "resque:workers:heartbeat", worker, now.Format(time.RFC3339))
		}
		if err == nil && n == 0 {
			err = c.Send("SET", "resque:worker:"+worker, text(busy))
		}
		if err != nil {
			return err
		}
	}
	for n := range 9 {
		record := map[string]any{
			"failed_at": now.Add(-time.Duration(n) * 17 * time.Minute).Format("2006/01/02 15:04:05 MST"), "exception": "NoMethodError", "queue": "low", "worker": "ruby-1:4711:low,mail",
			"error":     fmt.Sprintf("undefined method `total' for nil:NilClass in order %d", 500+n),
			"payload":   map[string]any{"class": "RebuildIndex", "args": []any{500 + n}},
			"backtrace": []string{"/app/jobs/rebuild_index.rb:14:in `perform'", "/gems/resque-2.6.0/lib/resque/job.rb:177:in `perform'"},
		}
		if err := c.Send("RPUSH", "resque:failed", text(record)); err != nil {
			return err
		}
	}
	for _, command := range [][]any{
		{"SADD", "resque:queues", "low"}, {"RPUSH", "resque:queue:low", `{"class":"RebuildIndex","args":["users"]}`, `{"class":"RebuildIndex","args":["orders"]}`},
		{"HSET", "resque:persistent_schedules", "digest", `{"cron":"0 7 * * *","class":"SendMail","queue":"mail","args":["all@example.com","Digest"],"description":"the digest of the day"}`},
		{"SET", "resque:stat:processed", "41204118"}, {"SET", "resque:stat:failed", "1204"},
	} {
		if err := c.Send(command[0].(string), command[1:]...); err != nil {
			return err
		}
	}
	_, err = c.Do("")
	return err
}

// seedWorkflows starts a workflow that has ended and two that wait outside.
func (f *fleet) seedWorkflows(ctx context.Context) error {
	step := func(class string, args ...any) *goworker.Job { return goworker.NewJob("steps", class, args...) }
	picture := func(name string) *goworker.Node {
		return goworker.Chain(goworker.Step(step("Fetch", name)), goworker.Step(step("Resize", 100)))
	}
	for n, name := range []string{"gallery", "review", "review"} {
		pictures := goworker.Group(picture("cat"), picture("dog"), picture("owl"))
		nodes := goworker.Chord(pictures, goworker.Step(step("Publish", name)))
		if n > 0 {
			nodes = goworker.Chain(pictures, goworker.Step(step("Approve", name), goworker.External(48*time.Hour), goworker.Immutable()), goworker.Step(step("Publish", name), goworker.Immutable()))
		}
		if _, err := f.client.Start(ctx, nodes, goworker.WorkflowName(name), goworker.WithID(fmt.Sprintf("%s-%d", name, n))); err != nil {
			return err
		}
	}
	return nil
}

// seedHTTP has a consumer over HTTP hold two jobs.
func (f *fleet) seedHTTP(ctx context.Context, web string) error {
	client, err := httpclient.New(web, "shop")
	if err != nil {
		return err
	}
	for n := range 5 {
		if _, err := client.Publish(ctx, "pick", fmt.Appendf(nil, "order %d", n)); err != nil {
			return err
		}
	}
	_, err = client.Reserve(ctx, httpclient.Reservation{Queues: []string{"pick"}, Count: 2, TTR: 30 * time.Minute, Wait: time.Second})
	return err
}

// settled waits until what fails at once has failed.
func (f *fleet) settled(ctx context.Context) error {
	failures := f.client.Inspect().Failures()
	for {
		n, err := failures.Count(ctx)
		if err != nil {
			return err
		}
		if n >= declined+badRows+timeouts+9 {
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
