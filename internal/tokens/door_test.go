package tokens_test

import (
	"context"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/tokens"
)

// lends is what a client is for an Inspector.
type lends struct{ do tokens.Do }

func (lends) Usable() error { return nil }
func (lends) Settings() (access.Settings, error) {
	return access.Settings{Server: "redis://cache"}, nil
}
func (l lends) Do(ctx context.Context, f func(resque.Store, redis.Conn) error) error {
	return l.do(ctx, f)
}

// A package outside that has an Inspector looks after the tokens through its Door. The audit has who changed them, why, and the face.
func TestBookThroughADoor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	in := inspect.New(lends{b.do(b.redis.URI())}).By("ada", "left the team").Face("dashboard")

	door := in.Doors()[0] // the pool "default" is in the first one
	book := &tokens.Book{Do: door.Do, Clock: clock.System, Record: door.Record}
	if _, _, err := book.Create(ctx, tokens.Record{Namespace: "shop", Description: "the web shop"}, ""); err != nil {
		t.Fatal(err)
	}
	all, err := book.List(ctx, "", "")
	if err != nil || len(all) != 1 || len(tokens.Short(all[0].Digest)) != 6 {
		t.Fatalf("%+v, %v", all, err)
	}
	e, err := book.Get(ctx, all[0].ID()) // by the id, when the button is pressed
	if err == nil {
		err = book.Limit(ctx, e, &tokens.Limits{Read: 5, Interval: 1})
	}
	if err == nil {
		e, err = book.Get(ctx, e.ID())
	}
	if err == nil {
		err = book.Revoke(ctx, e)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Revoke(ctx, e); err == nil {
		t.Error("it is revoked twice")
	}
	audit, err := in.Audit(ctx, 10)
	if err != nil || len(audit) != 3 {
		t.Fatalf("%+v, %v", audit, err)
	}
	if a := audit[0]; a.What != "RevokeToken" || a.On != e.ID()+" of shop" || a.Who != "ada" || a.Why != "left the team" || a.Face != "dashboard" || a.Changed != 1 {
		t.Errorf("%+v", a)
	}
}
