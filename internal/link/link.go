package link

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// PingEvery is how often the poller's subscription may be pinged. It is after one to two times as long a silence, and after three times
// as long it counts as broken.
const PingEvery = 10 * time.Second

// Link is the poller's Pair: its commands are exchanges.
type Link struct {
	*Pair
	requests chan *resque.Exchange
	replies  chan Reply
	wg       sync.WaitGroup
}

// Reply is the answer to an exchange that Send has started.
type Reply struct {
	Link *Link
	resque.Exchanged
	Err error
}

// Dial connects and, if asked, sets up tracking; see DialPair. Changes of these keys are notified too, once
// they are watched. noticed is called, on a goroutine of the link's, when a field of the notice of processes has changed; nil:
// nothing listens.
func Dial(ctx context.Context, b part.Base, track bool, pings time.Duration, signal chan<- struct{}, replies chan Reply, noticed func(field string), keys ...string) (*Link, error) {
	var tracking *Tracking
	if track {
		tracking = trackingOf(b.Store, noticed, keys)
	}
	p, err := DialPair(ctx, b, tracking, pings, signal)
	if err != nil {
		return nil, err
	}
	l := &Link{Pair: p, requests: make(chan *resque.Exchange), replies: replies}
	l.wg.Add(1)
	go l.exchange()
	return l, nil
}

// trackingOf is how the poller's link is notified.
func trackingOf(s resque.Store, noticed func(field string), keys []string) *Tracking {
	t := &Tracking{Start: s.Track, Spares: true, Receive: func(wake redis.Conn, timeout time.Duration) ([]string, bool, error) {
		return s.ReceiveChanges(wake, timeout, keys...)
	}}
	if noticed == nil {
		return t
	}
	t.Start = func(conn, wake redis.Conn) error {
		if err := s.Track(conn, wake); err != nil {
			return err
		}
		return s.HearNotice(wake)
	}
	receive := t.Receive
	t.Receive = func(wake redis.Conn, timeout time.Duration) ([]string, bool, error) {
		names, all, err := receive(wake, timeout)
		if len(names) == 1 {
			if field, ok := strings.CutPrefix(names[0], resque.Noticed); ok {
				noticed(field)
				return nil, all, err
			}
		}
		return names, all, err
	}
	return t
}

// Send starts an exchange. Its reply comes on the channel of replies.
func (l *Link) Send(x *resque.Exchange) {
	l.Used()
	l.requests <- x
}

func (l *Link) exchange() {
	defer l.wg.Done()
	for x := range l.requests {
		l.do(x)
	}
}

// do does one exchange. There is a reply to each, however it ends.
func (l *Link) do(x *resque.Exchange) {
	r := Reply{Link: l, Err: errDialer}
	defer func() { l.replies <- r }()
	defer l.base.Catch("connection")
	err := l.base.Store.Send(l.Conn, x)
	if err == nil {
		r.Exchanged, err = l.base.Store.Receive(l.Conn, x)
	}
	r.Err = err
}

// Shut closes both connections and waits for the goroutines. An exchange in flight
// ends with an error.
func (l *Link) Shut() {
	l.Pair.Shut()
	close(l.requests)
	l.wg.Wait()
}

// whyUntracked is the sentence for the log when a server cannot track keys.
func whyUntracked(err error, interval time.Duration) string {
	return fmt.Sprintf("Redis cannot tell when a queue fills, so queues are looked at every %s: %s", interval, WhyUntracked(err))
}
