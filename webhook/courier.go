package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
	"github.com/goworker/goworker/internal/resque/history"
	"github.com/goworker/goworker/internal/resque/webhook"
)

// mostHeld is how many failed deliveries a deliverer retries at a time. With so many it takes no new one: the events wait in Redis. It is
// more than one, so that a delivery that the receiver always refuses does not stop the next ones.
const mostHeld = 4

// mostError is how many bytes of why a try failed are logged and kept.
const mostError = 500

// lastWithin is how long the last requests to Redis may take when the deliverer stops.
const lastWithin = 2 * time.Second

// courier delivers the events of one Redis. Only its goroutine uses it.
type courier struct {
	*Deliverer
	door  inspect.Door
	shard string // "": there is one Redis
	say   *slog.Logger

	held     []*delivery     // that have failed and wait for another attempt
	finished []*delivery     // that are over, and whose entries Redis still has
	orphans  []webhook.Entry // claimed, for the next delivery

	attended time.Time // when it last renewed the announcement and the keys
	kept     time.Time // when it last kept its entries from being claimed
	rest     time.Time // until when the receiver wants no delivery, as long as Redis does not know it; zero: it knows
	reported int64     // how many lost events deliveries of this deliverer have reported, or will, in all
	owed     int64     // how many of them the receiver does not know of, because their delivery was given up
	accepted int64     // the highest number of them, in all, that a delivery has reported
	said     logging.Once
	receives bool // the receiver accepted the last delivery
}

func newCourier(d *Deliverer, door inspect.Door, several bool) *courier {
	c := &courier{Deliverer: d, door: door, receives: true}
	if several {
		c.shard = door.Name()
	}
	c.say = d.log(c.shard)
	return c
}

// run delivers until the context ends.
func (c *courier) run(ctx context.Context) {
	var retry part.Backoff
	for ctx.Err() == nil {
		wait, err := c.turn(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			c.said.Over("redis")
			retry.Reset()
		default:
			if wait = retry.Next(); refused(err) {
				wait = c.pace.attend
			}
			c.trouble(err)
		}
		sleep(ctx, c.clock, wait)
	}
	c.leave(context.WithoutCancel(ctx))
}

// refused reports whether Redis would refuse the command again, for a permission or the type of a key.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && conn.Classify(err) != conn.KindWait || errors.Is(err, resque.ErrAnswer)
}

// trouble logs why a request to Redis failed, the same reason once in a row.
func (c *courier) trouble(err error) {
	if !c.said.News("redis", err.Error()) {
		return
	}
	if denied, ok := webhook.New(resque.Store{}).Denied(err); ok {
		c.say.Warn("Redis refuses what the deliverer of the webhook needs, so it delivers nothing; see the ACL in docs/redis.md", "rule", denied.Rule, "error", err)
		return
	}
	c.say.Warn("the deliverer of the webhook cannot ask Redis, and tries again", "error", err)
}

func sleep(ctx context.Context, c clock.Clock, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

// do calls f on a connection.
func (c *courier) do(ctx context.Context, f func(s webhook.Store, conn redis.Conn) error) error {
	return c.door.Do(ctx, func(s resque.Store, conn redis.Conn) error { return f(webhook.New(s), conn) })
}

// turn does what is due, and returns how long to wait for the next turn.
func (c *courier) turn(ctx context.Context) (wait time.Duration, err error) {
	now := c.clock.Now()
	if c.attended.IsZero() || now.Sub(c.attended) >= c.pace.attend {
		if err := c.attend(ctx); err != nil {
			return 0, err
		}
		c.attended = now
	}
	if err := c.finish(ctx); err != nil {
		return 0, err
	}
	if err := c.restAll(ctx); err != nil {
		return 0, err
	}
	d, wait, err := c.next(ctx)
	if errors.Is(err, webhook.ErrNoStream) {
		c.attended = time.Time{}
		return 0, nil
	}
	if err != nil || d == nil {
		return wait, err
	}
	c.deliver(ctx, d)
	return 0, nil
}

// restAll has all deliverers of the webhook heed what the receiver has asked for.
func (c *courier) restAll(ctx context.Context) error {
	if left := c.rest.Sub(c.clock.Now()); left > 0 {
		err := c.do(ctx, func(s webhook.Store, conn redis.Conn) error {
			return s.Rest(conn, c.settings.Name, c.pace.Receiver, left)
		})
		if err != nil {
			return err
		}
	}
	c.rest = time.Time{}
	return nil
}

// attend renews the announcement and the keys, keeps its own entries from being claimed, and claims entries of deliverers that died.
func (c *courier) attend(ctx context.Context) error {
	now := c.clock.Now()
	if !c.kept.IsZero() && now.Sub(c.kept) >= c.pace.orphan {
		c.held, c.finished, c.orphans = nil, nil, nil // another deliverer may have claimed them; they come back from there, or as claimed ones
		c.reported, c.owed = 0, 0
	}
	var claimed []webhook.Entry
	var waiting int64
	err := c.do(ctx, func(s webhook.Store, conn redis.Conn) error {
		if err := s.Attend(conn, c.settings.Name); err != nil {
			return err
		}
		if err := c.announce(s, conn); err != nil {
			return err
		}
		if ids := c.inHand(); len(ids) > 0 {
			if err := s.Keep(conn, c.settings.Name, ids, 0); err != nil {
				return err
			}
		}
		c.kept = now
		if len(c.orphans) == 0 && len(c.held) < mostHeld {
			var err error
			if claimed, err = s.Claim(conn, c.settings.Name, c.pace.orphan, mostEntries); err != nil {
				return err
			}
		}
		var err error
		waiting, err = s.Waiting(conn, c.settings.Name)
		return err
	})
	c.orphans = append(c.orphans, claimed...)
	if err == nil {
		c.count(func(s *Stats) { s.Waiting, s.Held = waiting, len(c.held) })
	}
	return err
}

// inHand returns the ids of all entries that this deliverer has.
func (c *courier) inHand() (ids []string) {
	for _, d := range slices.Concat(c.held, c.finished) {
		ids = append(ids, d.ids...)
	}
	for _, e := range c.orphans {
		ids = append(ids, e.ID)
	}
	return ids
}

// announce makes processes write for the webhook, unless an announcement still holds for long enough.
func (c *courier) announce(s webhook.Store, conn redis.Conn) error {
	n, field := control.New(s.Store), webhook.Notice+c.settings.Name
	now, err := s.Now(conn)
	if err != nil {
		return err
	}
	value, err := n.Told(conn, field)
	if err != nil {
		return err
	}
	a, ok := webhook.ParseAnnouncement(value)
	there := ok && a.Until > now.UnixMilli() // it has its place among them, whatever other programs announce
	same := ok && slices.Equal(a.Kinds, c.settings.Kinds) && a.Arguments == c.settings.Arguments
	if same && time.UnixMilli(a.Until).Sub(now) > webhook.Announced-webhook.Renewed {
		return nil
	}
	a = webhook.Announcement{Until: now.Add(webhook.Announced).UnixMilli(), Kinds: c.settings.Kinds, Arguments: c.settings.Arguments}
	all, err := n.Notices(conn)
	if err != nil {
		return err
	}
	others := 0
	for other, value := range all {
		name, is := strings.CutPrefix(other, webhook.Notice)
		if was, _ := webhook.ParseAnnouncement(value); !is || other == field || !webhook.IsName(name) {
			continue
		} else if was.Until > now.UnixMilli() {
			others++
		} else if _, err := n.Tell(conn, other, "", false); err != nil { // its time is over
			return err
		}
	}
	if others >= webhook.MostWebhooks && !there {
		return fmt.Errorf("this Redis has %d webhooks, which is the most: end one with goworker webhook forget", others)
	}
	_, err = n.Tell(conn, field, a.Value(), !same)
	return err
}

// next returns the delivery to attempt now; nil: there is none, and none before wait is over.
func (c *courier) next(ctx context.Context) (d *delivery, wait time.Duration, err error) {
	now := c.clock.Now()
	wait = c.pace.tick
	for _, h := range c.held {
		if d == nil || h.due.Before(d.due) {
			d = h
		}
	}
	if d != nil && d.due.After(now) {
		wait, d = min(wait, d.due.Sub(now)), nil
	}
	most := 0
	if d == nil && len(c.orphans) == 0 {
		if len(c.held) >= mostHeld {
			return nil, wait, nil
		}
		most = mostEntries
	}
	var t webhook.Taken
	var namespace string
	err = c.do(ctx, func(s webhook.Store, conn redis.Conn) (err error) {
		t, err = s.Take(conn, c.settings.Name, c.pace.Pace, most)
		namespace = s.Namespace()
		return err
	})
	switch {
	case err != nil:
		return nil, 0, err
	case t.None:
		return nil, wait, nil
	case t.Wait > 0:
		return nil, min(wait, t.Wait), nil
	case d != nil:
		return d, 0, nil
	case most == 0:
		t.Entries, c.orphans = c.orphans, nil
	}
	d = c.compose(namespace, t)
	if d.items == 0 && d.cut == 0 { // nothing is there to deliver
		c.finished = append(c.finished, d)
		return nil, 0, nil
	}
	return d, 0, nil
}

// compose makes a delivery of what was taken.
func (c *courier) compose(namespace string, t webhook.Taken) *delivery {
	if t.Cut < c.reported { // the state was removed
		c.reported, c.accepted = 0, 0
	}
	cut := max(0, t.Cut-max(t.Said, c.reported)) + c.owed // one that is on its way reports the others
	d := newDelivery(c.settings.Name, namespace, t.Entries, cut)
	if c.owed = 0; cut > 0 {
		c.reported = t.Cut
		d.said = t.Cut
	}
	if foreign := len(t.Entries) - d.items; foreign > 0 {
		c.count(func(s *Stats) { s.Foreign += int64(foreign) })
		if c.said.News("foreign", "") {
			c.say.Warn("entries of the webhook's stream are passed over, because no process of goworker wrote them: another program writes to this key", "entries", foreign)
		}
	}
	return d
}

// deliver makes one attempt of a delivery.
func (c *courier) deliver(ctx context.Context, d *delivery) {
	rest, err := c.target.try(ctx, d.id, d.body)
	if err != nil { // it may have what the receiver answers
		d.error = logging.Shorten(err.Error(), mostError)
	}
	now := c.clock.Now()
	c.held = slices.DeleteFunc(c.held, func(h *delivery) bool { return h == d })
	if ctx.Err() != nil && err != nil { // the deliverer stops, and another one tries it
		c.held = append(c.held, d)
		return
	}
	if rest > 0 {
		c.rest = now.Add(rest)
	}
	switch {
	case err == nil:
		if c.finished = append(c.finished, d); d.cut > 0 {
			c.accepted = max(c.accepted, d.said) // another one may have been accepted before it
			d.said = c.accepted
		}
		c.count(func(s *Stats) {
			s.Delivered, s.Events, s.Cut, s.Error = s.Delivered+1, s.Events+int64(d.items), s.Cut+d.cut, ""
		})
		if !c.receives {
			c.say.Info("the receiver of the webhook accepts deliveries again")
		}
		if c.receives = true; d.cut > 0 {
			c.say.Warn("events of the webhook were lost: the receiver did not accept deliveries for so long that the stream cut them, or Redis refused them", "events", d.cut)
		}
		return
	case errors.Is(err, errGone): // it does not count as an attempt: the receiver answers all deliveries like this
		d.due, c.rest = now.Add(c.pace.gone), now.Add(c.pace.gone)
	default:
		d.tries++
	}
	c.count(func(s *Stats) { s.Failed, s.Error = s.Failed+1, d.error })
	if c.receives {
		c.say.Warn("the receiver of the webhook did not accept a delivery, trying again", "delivery", d.id, "error", d.error)
	}
	if c.receives = false; d.tries >= c.pace.tries() {
		c.dead(d)
		return
	}
	if d.tries > 0 && !errors.Is(err, errGone) {
		w := c.pace.waits[d.tries-1]
		d.due = now.Add(max(w*9/10+rand.N(w/5+1), rest)) // a tenth more or less, so that several deliverers do not send at the same moment
	}
	c.held = append(c.held, d)
	c.count(func(s *Stats) { s.Held = len(c.held) })
}

// dead drops a delivery after its last attempt.
func (c *courier) dead(d *delivery) {
	c.say.Error("a delivery of the webhook has failed for good", "delivery", d.id, "events", len(d.ids), "tries", d.tries, "error", d.error)
	c.count(func(s *Stats) { s.Dead++ })
	d.line = []any{"webhook", c.settings.Name, "delivery", d.id, "events", strconv.Itoa(len(d.ids)), "text", fmt.Sprintf("given up after %d tries: %s", d.tries, d.error)}
	c.owed, d.said = c.owed+d.cut, 0 // the next delivery reports it
	c.finished = append(c.finished, d)
}

// finish removes the entries of deliveries that are over from Redis.
func (c *courier) finish(ctx context.Context) error {
	for len(c.finished) > 0 {
		d := c.finished[0]
		err := c.do(ctx, func(s webhook.Store, conn redis.Conn) error {
			var line []any
			if d.line != nil {
				line = history.New(s.Store).Logged(history.WebhookDead, "", d.line...)
			}
			unsaid, err := s.Finish(conn, c.settings.Name, d.ids, d.said, line)
			if unsaid != nil && c.said.News("unsaid", unsaid.Error()) {
				c.say.Warn("Redis refuses to write a line of the webhook into the log of the fleet, or the number of lost events that were reported", "error", unsaid)
			}
			return err
		})
		if err != nil && !errors.Is(err, webhook.ErrNoStream) { // without the stream it is over too
			return err
		}
		c.finished = c.finished[1:]
	}
	return nil
}

// leave removes the entries of deliveries that are over, and lets other deliverers claim the rest at once.
func (c *courier) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastWithin)
	defer cancel()
	if err := c.finish(ctx); err != nil {
		c.trouble(err)
		return
	}
	ids := c.inHand()
	if len(ids) == 0 {
		return
	}
	err := c.do(ctx, func(s webhook.Store, conn redis.Conn) error { return s.Keep(conn, c.settings.Name, ids, c.pace.orphan) })
	if err != nil {
		c.trouble(err)
	}
}

// forget removes a webhook.
func forget(ctx context.Context, door inspect.Door, name string) (was bool, err error) {
	err = door.Do(ctx, func(s resque.Store, conn redis.Conn) error {
		n, field := control.New(s), webhook.Notice+name
		value, err := n.Told(conn, field)
		if err != nil {
			return err
		}
		if a, ok := webhook.ParseAnnouncement(value); ok { // a field that is gone says nothing: it may have been lost
			a.Until = 0
			if _, err := n.Tell(conn, field, a.Value(), true); err != nil {
				return err
			}
		}
		was, err = webhook.New(s).Forget(conn, name)
		return err
	})
	if err != nil || !was {
		return was, err
	}
	return true, door.Record(ctx, "webhook forget", name, 1, nil)
}
