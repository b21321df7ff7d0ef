package scheduler

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// testBase is what the parts of a test are given.
func testBase(s *redistest.Server) part.Base {
	log := slog.New(slog.DiscardHandler)
	return part.Base{
		Log: log, Outages: logging.NewOutages(log, clock.System), Clock: clock.System, Store: resque.New(""),
		Dialer: testDialer(func() (redis.Conn, error) { return redis.DialURL(s.URI()) }),
	}
}

type testDialer func() (redis.Conn, error)

func (d testDialer) Dial(context.Context) (redis.Conn, error) { return d() }

// testFleet is a fleet in which this process is alone, and its own idea of Redis's clock.
type testFleet struct {
	self   string
	leads  atomic.Bool
	offset atomic.Int64
}

func (f *testFleet) Self() string      { return f.self }
func (f *testFleet) Worker() string    { return "localhost:1-0:*" }
func (f *testFleet) Leads() bool       { return f.leads.Load() }
func (f *testFleet) Alive(string) bool { return false }
func (f *testFleet) Now() time.Time    { return time.Now().Add(time.Duration(f.offset.Load())) }
func (f *testFleet) Saw(now time.Time) { f.offset.Store(int64(time.Until(now))) }
