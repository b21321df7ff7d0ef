package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/webhook"
)

// hooks are Webhooks of a process whose calls to Redis end with what answer returns.
func hooks(log *bytes.Buffer, answer func() error) *Webhooks {
	return New(part.Base{Log: slog.New(slog.NewTextHandler(log, nil)), Clock: clock.System, Store: resque.New("")}, Config{
		Now: time.Now, Process: func() string { return "web:1:x" },
		Do: func(context.Context, func(redis.Conn) error) error { return answer() },
	})
}

// announced is an announcement that holds for so long.
func announced(within time.Duration) string {
	return webhook.Announcement{Until: time.Now().Add(within).UnixMilli(), Kinds: []string{"failed", "recovered"}, Arguments: true}.Value()
}

// names are the webhooks that a process writes for.
func (w *Webhooks) names() (names []string) {
	if all := w.wanted.Load(); all != nil {
		for _, h := range *all {
			names = append(names, h.name)
		}
	}
	return names
}

// A webhook whose time is over leaves its place to another one, and what any program announces fills no more than the room there is.
func TestBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := new(bytes.Buffer)
		w := hooks(log, func() error { return nil })
		defer w.Close()
		for n := range webhook.MostWebhooks {
			w.Heard(fmt.Sprint("a", n), announced(time.Minute))
		}
		w.Heard("b", announced(time.Hour))
		synctest.Wait()
		if names := w.names(); len(names) != webhook.MostWebhooks || slices.Contains(names, "b") {
			t.Errorf("it writes for %q", names)
		}
		time.Sleep(time.Minute)
		w.Heard("b", announced(time.Hour))
		if names := w.names(); !slices.Equal(names, []string{"b"}) {
			t.Errorf("when the time of the first ones is over it writes for %q", names)
		}
		for n := range 1000 {
			w.Heard(fmt.Sprint("c", n), announced(time.Hour))
			w.Heard("x y", announced(time.Hour))
			w.Heard(fmt.Sprint("d", n), announced(time.Hour)+strings.Repeat("x", 1000))
			w.Heard(fmt.Sprint("d", n), "x failed")
		}
		synctest.Wait()
		if n := len(w.known); n != mostKnown || !slices.Contains(w.names(), "b") {
			t.Errorf("it knows %d, and writes for %q", n, w.names())
		}
		if n := strings.Count(log.String(), "more webhooks are announced"); n != 1 {
			t.Errorf("the log says it %d times", n)
		}
		w.Heard("b", webhook.Announcement{}.Value()) // forgotten
		if slices.Contains(w.names(), "b") {
			t.Error("it writes for a webhook that is forgotten")
		}
	})
}

// A process that gets the permission to write begins with the next announcement, and one that loses it stops.
func TestPermission(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, bad := new(bytes.Buffer), error(redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments"))
		w := hooks(log, func() error { return bad })
		defer w.Close()
		for range 3 {
			w.Heard("a", announced(time.Hour))
			synctest.Wait()
			time.Sleep(webhook.Renewed)
		}
		if n := strings.Count(log.String(), "Redis refuses the events of this process"); n != 1 || w.names() != nil {
			t.Errorf("the log says %d times that Redis refuses it, and it writes for %q", n, w.names())
		}
		bad = nil
		w.Heard("a", announced(time.Hour))
		synctest.Wait()
		if names := w.names(); len(names) != 1 {
			t.Errorf("it writes for %q", names)
		}
		time.Sleep(webhook.Renewed)
		bad = redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments")
		w.Heard("a", announced(time.Hour))
		synctest.Wait()
		if names := w.names(); names != nil {
			t.Errorf("without the permission it writes for %q", names)
		}
	})
}

// A job that a reaper puts back without reading it has its class, id and arguments all the same. One that a client had is of this server.
func TestEvent(t *testing.T) {
	t.Parallel()
	w := hooks(new(bytes.Buffer), func() error { return nil })
	defer w.Close()
	for want, j := range map[string]*outcome.Job{
		`recovered "p" "mail" "Send" "x" 2 ["a"]`: {
			Reserved: resque.Reserved{Queue: "mail", Payload: []byte(`{"class":"Send","args":["a"],"id":"x","attempt":2}`)}, Process: "p", Dead: true,
		},
		`recovered "p" "mail" "" "" 0 []`:       {Reserved: resque.Reserved{Queue: "mail", Payload: []byte(`no job`)}, Process: "p", Dead: true},
		`recovered "web:1:x" "mail" "" "" 0 []`: {Reserved: resque.Reserved{Queue: "mail", Payload: []byte(`no job`)}, Process: "web.http:1-0", Place: "4:mailx"},
	} {
		event, args := w.event("recovered", j, &outcome.Outcome{State: outcome.Returned, Err: errors.New("e")})
		var e struct {
			K, P, Q, C, I, E string
			A                int
		}
		if err := json.Unmarshal(event, &e); err != nil || e.E != "e" {
			t.Errorf("%s: %v", event, err)
		}
		if got := fmt.Sprintf("%s %q %q %q %q %d %s", e.K, e.P, e.Q, e.C, e.I, e.A, args); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
