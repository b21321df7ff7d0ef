package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
)

// Deploy is a version of a program that came into the fleet.
type Deploy struct {
	At      time.Time // by Redis's clock
	Version string    // of the program, as its setting AppVersion or RecordDeploy has it; "": its processes do not say it
	Text    string    // of RecordDeploy

	Named    bool   // RecordDeploy said it
	By       string // who called RecordDeploy
	Goworker string // of one that is not Named: the version of goworker in its first process
	Process  string // of one that is not Named: its first process

	Shard string // of several Redises, the one where it is
}

// RecordDeploy writes into the log of the fleet that a version of a program is deployed now, as a CI job does. The version has 1 to 100 bytes without
// control characters; of the text, for people, 500 bytes are kept. Over shards it is in the log of the first one.
func (i *Inspector) RecordDeploy(ctx context.Context, version, text string) error {
	if err := i.usable(); err != nil {
		return err
	}
	if !history.IsVersion(version) {
		return fmt.Errorf("goworker: %.120q is no version to deploy; give 1 to %d bytes of UTF-8 without control characters", version, history.MostVersion)
	}
	one := i.all()[0]
	err := one.do(ctx, func(s resque.Store, c redis.Conn) error {
		return history.New(s).LogDeploy(c, version, logging.Shorten(text, 500), logging.Shorten(i.who, mostName))
	})
	return one.record(ctx, "RecordDeploy", "version "+version, once(err == nil), err)
}

// Deploys returns what was deployed since a time, the oldest first: what RecordDeploy said, and the first process of each other version of a program, by
// its AppVersion, or by the version of goworker where it has none. It goes by the log of the fleet, which has about 5,000 entries: where the first process
// of a version has left it, the first one that is still there counts.
func (i *Inspector) Deploys(ctx context.Context, since time.Time) ([]Deploy, error) {
	entries, _, err := i.Log(ctx, "", history.MostLogged)
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool) // versions that need no further Deploy
	for _, e := range entries {
		if e.Kind == LogDeploy {
			known["app "+e.More["app"]] = true
		}
	}
	deploys := []Deploy{}
	for _, e := range entries {
		d := Deploy{At: e.At, Version: e.More["app"], Text: e.Text, Shard: e.Shard}
		switch e.Kind {
		case LogDeploy:
			d.Named, d.By = true, e.More["by"]
		case LogOnline:
			version := "app " + d.Version
			if d.Version == "" {
				version = "goworker " + e.Version
			}
			if known[version] {
				continue
			}
			known[version] = true
			d.Goworker, d.Process = e.Version, e.Process
		default:
			continue
		}
		if !d.At.Before(since) {
			deploys = append(deploys, d)
		}
	}
	slices.SortStableFunc(deploys, func(a, b Deploy) int { return a.At.Compare(b.At) })
	return deploys, nil
}
