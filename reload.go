package goworker

import (
	"context"
	"errors"
	"log/slog"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/reload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/roster"
	"github.com/goworker/goworker/internal/sdnotify"
	"github.com/goworker/goworker/internal/setting"
)

// This file is how a daemon has its settings from a configuration file, and reads that again.

// Configure has a daemon, or Shards, read its settings from the file that open returns, or returns the one that it has. It is for
// package config: no program can name the type of its parameter.
func Configure(on Controlled, open func(setting.Seat) setting.File) setting.File {
	seat, e := setting.Seat{Table: settingTable}, (*endpoint)(nil)
	switch on := on.(type) {
	case *Daemon:
		e, seat.Reload = on.endpoint, on.reload
	case *Shards:
		e, seat.Shards, seat.Reload = on.own, true, on.reload
	default:
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.file == nil {
		e.file = open(seat)
		e.command.addFile()
	}
	return e.file
}

// reload reads the configuration file again. It refuses the file whole, or applies what can change while the daemon runs.
func (d *Daemon) reload(ctx context.Context) error {
	d.mu.Lock()
	c, settings, file := d.client, d.settings, d.file
	d.mu.Unlock()
	if c == nil {
		return prefix.Of(errNotRunning)
	}
	return reloadAll(ctx, c.log, c.common, func(*setting.Content) {}, func() (config, error) { return d.resolveFrom(file, settings, true) }, d)
}

// reload reads the configuration file again; see Daemon.reload.
func (s *Shards) reload(ctx context.Context) error {
	return reloadAll(ctx, s.log, s.common, s.held.Store, func() (config, error) {
		return s.daemons[0].resolveFrom(s.own.file, s.settingsOf(0), true)
	}, s.daemons...)
}

// holds returns the settings that hold now.
func (d *Daemon) holds() config {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.applied
}

// hup is what SIGHUP does; nil: no configuration file is in use, and it ends the program as ever.
func (c config) hup(reload func(context.Context) error) func(context.Context) {
	if c.file == nil {
		return nil
	}
	return func(ctx context.Context) {
		defer sdnotify.Reloading()()
		_ = reload(ctx) // it logs its errors
	}
}

// reloadAll reloads the file of daemons that share their settings.
func reloadAll(ctx context.Context, log *slog.Logger, common *control.Common, keep func(*setting.Content), resolve func() (config, error), daemons ...*Daemon) error {
	first := daemons[0]
	was := first.holds()
	if was.file == nil {
		return prefix.Of(errNotRunning)
	}
	return prefix.Of(reload.Do(ctx, reload.Program{Log: log, Path: was.file.Path, Read: func() (reload.Next, error) {
		c, err := resolve()
		if err != nil {
			return reload.Next{}, err
		}
		now := c.WorkerSettings
		next := reload.Next{Content: c.file, Changes: setting.Changes(settingRows, &was.WorkerSettings, &now), Apply: make(map[string]func(context.Context) error)}
		for _, change := range next.Changes {
			next.Apply[change.Flag] = func(ctx context.Context) error {
				var errs []error
				for _, d := range daemons {
					errs = append(errs, d.change(ctx, change.Flag, c, common))
				}
				return errors.Join(errs...)
			}
		}
		next.Lay = func(ctx context.Context) ([]string, error) {
			changes := reload.Classes(was.file.Classes, c.file.Classes)
			kept := c.file.Beside(was.file, settingTable)
			keep(kept)
			first.registry.lay(kept)
			var errs []error
			for _, d := range daemons {
				d.mu.Lock()
				d.applied.WorkerSettings, d.applied.origins, d.applied.file = was.WorkerSettings, c.origins, kept
				d.mu.Unlock()
				if len(changes) > 0 {
					errs = append(errs, d.writeLimits())
				}
			}
			return changes, errors.Join(errs...)
		}
		return next, nil
	}}))
}

// change changes one setting of a run, as the configuration file has it now.
func (d *Daemon) change(ctx context.Context, flag string, c config, common *control.Common) error {
	d.mu.Lock()
	r, live := d.running, roster.Live{Roster: d.roster, Scale: d.scale, Lease: d.lease, Common: common, MaxRSS: d.maxRSS, UseNumber: &d.registry.useNumber}
	d.mu.Unlock()
	if r == nil || live.Roster == nil {
		return nil // a shard whose Redis is away: its next run begins with the file
	}
	live.Stops = []*part.Budget{r.stop, d.group}
	return live.Change(ctx, flag, roster.Settings{
		Bounds: c.bounds(), Queues: c.queues, Stop: c.ShutdownTimeout, Caps: c.caps(), Level: c.logLevel, MaxRSS: int64(c.MaxRSS), UseNumber: c.UseNumber,
	})
}

// writeLimits writes the numbers of the limits, which the configuration file may have changed.
func (d *Daemon) writeLimits() error {
	numbers, err := d.registry.limits.Numbers()
	if err != nil {
		return err
	}
	if err := d.withConn(func(s resque.Store, c redis.Conn) error { return s.WriteNumbers(c, numbers) }); err != nil {
		return err
	}
	if p := d.currentPoller(); p != nil {
		p.ask(func() {}) // it looks at the lanes again
	}
	return nil
}
