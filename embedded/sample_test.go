package embedded_test

import (
	"context"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/resque"
)

// looker is a program that looks at an embedded server.
type looker struct{ c redis.Conn }

func (looker) Usable() error                      { return nil }
func (looker) Settings() (access.Settings, error) { return access.Settings{MaxPayload: 1 << 20}, nil }
func (l looker) Do(_ context.Context, f func(s resque.Store, c redis.Conn) error) error {
	return f(resque.New(""), l.c)
}

// A Sample and a search read an embedded server as they read Redis. Of what the server does not say the Sample knows nothing.
func TestSample(t *testing.T) {
	t.Parallel()
	c := dial(t, open(t, "embedded:"))
	do := func(command string, args ...any) {
		t.Helper()
		if _, err := c.Do(command, args...); err != nil {
			t.Fatal(err)
		}
	}
	do("SADD", "resque:queues", "mail")
	do("RPUSH", "resque:queue:mail", `{"class":"A","args":[1]}`, `{"class":"A","args":[2]}`)
	do("SADD", "resque:workers", "h:1:*")
	in := inspect.New(looker{c})
	before, err := in.Sample(t.Context())
	if err != nil || len(before.Refused) > 0 {
		t.Fatal(err, before.Refused)
	}
	do("LPOP", "resque:queue:mail")
	do("RPUSH", "resque:queue:mail", `{"class":"A","args":[3]}`, `{"class":"A","args":[4]}`)
	s, err := in.Sample(t.Context(), inspect.SampleAfter(before))
	if err != nil || len(s.Refused) > 0 {
		t.Fatal(err, s.Refused)
	}
	if q := s.Queues[0]; q.Waiting != (inspect.Count{N: 3, Bound: inspect.Exact}) || q.Other != (inspect.Count{N: 1, Bound: inspect.Exact}) {
		t.Errorf("%+v", q)
	}
	if r := s.Rates(before); r.For > 0 && r.Queues["mail"].In.PerSecond*r.For.Seconds() < 1.9 {
		t.Errorf("%+v", r)
	}
	found := 0
	for _, err := range in.All(t.Context(), inspect.Query{Where: []inspect.Condition{{Name: "arg.0", Value: "4"}}}) {
		if found++; err != nil {
			t.Error(err)
		}
	}
	if found != 1 {
		t.Errorf("%d jobs", found)
	}
}
