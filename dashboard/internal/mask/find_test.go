package mask

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// lender lends connections to a Redis.
type lender struct{ server *redistest.Server }

func (l lender) Usable() error { return nil }
func (l lender) Settings() (access.Settings, error) {
	return access.Settings{Style: payload.Plain, MaxPayload: 1 << 20}, nil
}

func (l lender) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	c, err := redis.DialURLContext(ctx, l.server.URI())
	if err != nil {
		return err
	}
	defer c.Close()
	return f(resque.New(""), c)
}

// secret is in a job in every place: in its arguments, its metadata, its error and backtrace.
const secret = "hunter22"

func everywhere(t *testing.T, server *redistest.Server) {
	t.Helper()
	job := func(id string) string {
		return `{"class":"Mail","args":[{"password":"` + secret + `","to":"ada","card":4111111111111111},"see ` + secret + `"],"id":"` + id + `","meta":{"session":"` + secret + `","tenant":"acme"}}`
	}
	server.Do(t, "SADD", "resque:queues", "mail")
	server.Do(t, "RPUSH", "resque:queue:mail", job("q"), `no job, token=`+secret)
	server.Do(t, "ZADD", "resque:go:schedule", time.Now().Add(time.Hour).UnixMilli(), "4:mail"+job("d"))
	server.Do(t, "ZADD", "resque:go:processes", 1_900_000_000_000, "media-1:7:ab")
	server.Do(t, "HSET", "resque:go:inflight:media-1:7:ab", 1, "4:mail"+job("w"))
	server.Do(t, "HSET", "resque:go:leased", "4:mailh", job("h"))
	server.Do(t, "ZADD", "resque:go:leases", 1_900_000_000_000, "4:mailh")
	server.Do(t, "RPUSH", "resque:failed", string(payload.Failure{
		FailedAt: "2026/11/22 11:00:00 UTC", Payload: []byte(job("f")), Exception: "Wrong" + secret, Error: "no " + secret + " for ada",
		Backtrace: []string{"at " + secret}, Worker: "media-1:7:mail", Queue: "mail",
	}.Encode()))
}

// No search confirms a masked value, wherever it is. Conditions about what is shown find the jobs.
func TestSearchesCompareWhatIsShown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	everywhere(t, server)
	all := inspect.New(lender{server})
	shards := inspect.New(lender{server}, lender{redistest.Start(t)})
	ids := func(i *inspect.Inspector, q inspect.Query) (found []string) {
		t.Helper()
		for e, err := range i.All(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, e.ID)
		}
		slices.Sort(found)
		return found
	}
	parse := func(text string) inspect.Query {
		t.Helper()
		q, err := inspect.ParseQuery(text, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	masked := all.Masked(New(Rules{}))
	for _, i := range []*inspect.Inspector{masked, masked.By("ada", "").Face("dashboard"), shards.Masked(New(Rules{})), all.Masked(New(Rules{Level: Hide}))} {
		for _, text := range []string{
			secret, "hunter", `"` + secret + `"`, "see*" + secret, "arg.0.password:" + secret, "arg.0.password:h*", "arg.1:*" + secret, "meta.session:" + secret, "error:" + secret,
			"error:\"no hunter\"", "exception:Wrong" + secret, "exception:Wrongh*", "arg.0.card:4111111111111111", "arg.0.card:4*", `args:"[{\"password\":\"hunter22\",\"to\":\"ada\",\"card\":4111111111111111},\"see hunter22\"]"`,
			`"4111111111111111"`,
		} {
			if found := ids(i, parse(text)); found != nil {
				t.Errorf("%s finds %q", text, found)
			}
			if ids(all, parse(text)) == nil {
				t.Errorf("%s finds nothing without a mask either", text)
			}
			if found := ids(i, parse("-"+text+" queue:mail")); len(found) < 5 {
				t.Errorf("without %s: only %q", text, found)
			}
			q := parse(text)
			if found, _, err := i.Failures().Search(t.Context(), inspect.FailureFilter{Query: &q}, "", 10); err != nil || len(found) > 0 {
				t.Errorf("%s finds failures: %v, %v", text, found, err)
			}
		}
		for _, filter := range []inspect.FailureFilter{{Text: secret}, {Exception: "Wrong" + secret}, {Text: "NO HUNTER"}} {
			if found, _, err := i.Failures().Search(t.Context(), filter, "", 10); err != nil || len(found) > 0 {
				t.Errorf("%s finds failures: %v, %v", filter, found, err)
			}
			if groups, err := i.Failures().Groups(t.Context(), filter); err != nil || len(groups) > 0 {
				t.Errorf("%s has groups: %v, %v", filter, groups, err)
			}
			if done, err := i.Failures().RetryStep(t.Context(), filter, ""); err != nil || done.Changed > 0 {
				t.Errorf("%s retries: %v, %v", filter, done, err)
			}
		}
		args := inspect.Query{Class: "Mail", Args: []any{map[string]any{"password": secret}}}
		if found := ids(i, args); found != nil {
			t.Errorf("arguments find %q", found)
		}
		job := &inspect.Job{Queue: "mail", Class: "Mail", Args: args.Args}
		if _, err := i.Dequeue(t.Context(), job); !errors.Is(err, inspect.ErrMasked) {
			t.Errorf("dequeued: %v", err)
		}
		if _, err := i.DelayedUntil(t.Context(), job); !errors.Is(err, inspect.ErrMasked) {
			t.Errorf("delayed: %v", err)
		}
	}
	for _, text := range []string{"class:Mail", "arg.0.to:ada", "meta.tenant:acme", "class:Mail ada", "arg.0.password:" + Mark} {
		if found := ids(masked, parse(text)); !slices.Equal(found, []string{"d", "f", "h", "q", "w"}) {
			t.Errorf("%s finds %q", text, found)
		}
	}
	for _, filter := range []inspect.FailureFilter{{Text: "for ada"}, {Exception: "Wrong" + Mark}, {Text: "FOR", Query: &inspect.Query{Class: "Mail"}}} {
		if found, _, err := masked.Failures().Search(t.Context(), filter, "", 10); err != nil || len(found) != 1 {
			t.Errorf("%s finds %v, %v", filter, found, err)
		}
	}
}

// An operation compares what is shown too, also where another program runs it on.
func TestOperationsCompareWhatIsShown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	everywhere(t, server)
	all := inspect.New(lender{server})
	masked := all.Masked(New(Rules{}))
	plan := inspect.Plan{Verb: inspect.Drop, Query: inspect.Query{Where: []inspect.Condition{{Name: "arg.0.password", Value: secret}}}}
	if n, err := masked.Operations().Count(t.Context(), plan); err != nil || n.Jobs != 0 {
		t.Errorf("counted %+v, %v", n, err)
	}
	run := func(i *inspect.Inspector, id string) (last inspect.Operation, err error) {
		for op, fails := range i.Operations().Run(t.Context(), id) {
			last, err = op, fails
		}
		return last, err
	}
	op, err := masked.Operations().Start(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run(all, op.ID); !errors.Is(err, inspect.ErrMasked) || got.Done != 0 {
		t.Errorf("run without the mask: %+v, %v", got, err)
	}
	if got, err := run(masked, op.ID); err != nil || got.Done != 0 || got.State != inspect.OperationDone {
		t.Errorf("run: %+v, %v", got, err)
	}
	plan.Query.Where[0] = inspect.Condition{Name: "arg.0.to", Value: "ada"}
	if op, err = masked.Operations().Start(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if got, err := run(masked, op.ID); err != nil || got.Done != 2 {
		t.Errorf("run: %+v, %v", got, err)
	}
}

// Errors and the audit name a job that has no id by its masked arguments.
func TestEntriesNameWhatIsShown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"Mail","args":[{"password":"hunter22"}]}`)
	page, err := inspect.New(lender{server}).Masked(New(Rules{})).List(t.Context(), "mail", "", 1)
	if err != nil || len(page.Jobs) != 1 {
		t.Fatal(page, err)
	}
	if got, want := page.Jobs[0].String(), `job Mail({"password":"`+Mark+`"}) in queue mail`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
