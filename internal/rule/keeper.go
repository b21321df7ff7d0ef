package rule

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
	"github.com/goworker/goworker/internal/resque/history"
)

// Keeper ends rules whose time is over, and restores what processes of older releases have overwritten, because they know no rules. It
// works in the process that has this duty, with each renewal of the lease while there are rules. Any process ends a rule that is still
// there some seconds after its end. Keeper is a rider and a part.
type Keeper struct {
	base   part.Base
	table  *Table
	config KeeperConfig
	loop   *part.Loop
	said   logging.Once

	mu    sync.Mutex
	lines []line // for the log of the fleet, which the next renewal writes
}

// KeeperConfig is what a Keeper needs of its process.
type KeeperConfig struct {
	Keeps   func() bool   // whether this process has the duty; two may have it for a moment
	Process func() string // its id
	Do      func(ctx context.Context, f func(redis.Conn) error) error
}

// line is a rule that ended or was restored, for the log of the fleet.
type line struct{ kind, rule string }

// NewKeeper returns a Keeper that is not started.
func NewKeeper(b part.Base, t *Table, c KeeperConfig) *Keeper {
	k := &Keeper{base: b, table: t, config: c}
	k.loop = part.NewLoop(b, "rules", k.turn)
	return k
}

// Start starts it.
func (k *Keeper) Start(ctx context.Context) error {
	k.loop.Start(ctx)
	return nil
}

// Stop ends it.
func (k *Keeper) Stop(ctx context.Context) error {
	k.loop.Stop(ctx)
	return nil
}

// Load adds the lines for the log to a renewal.
func (k *Keeper) Load(c *resque.Cargo) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lines {
		history.New(k.base.Store).Log(c, nil, l.kind, k.config.Process(), "rule", l.rule)
	}
	k.lines = nil
}

// Answered looks after the rules, if there are any.
func (k *Keeper) Answered(bool, resque.Due) {
	if k.acts() {
		k.loop.Wake()
	}
}

// patience is how long after the end of a rule other processes leave its removal to the keeper. The keeper may hang, or be dead without
// having been found dead.
const patience = 5 * time.Second

// acts reports whether this process looks after the rules now.
func (k *Keeper) acts() bool {
	return k.table.Any() && (k.config.Keeps() || k.table.Late(patience))
}

// turn looks after the rules.
func (k *Keeper) turn(ctx context.Context) (time.Duration, error) {
	if !k.acts() {
		return part.Never, nil
	}
	err := k.config.Do(ctx, k.look)
	if conn.Refused(err) {
		if k.said.News("redis", err.Error()) {
			k.base.Log.Warn("Redis refuses what this process needs to end the rules of operators at their time; a pause of a queue ends all the same", "error", err)
		}
		return part.Never, nil
	}
	return part.Never, err
}

func (k *Keeper) look(c redis.Conn) error {
	s := control.New(k.base.Store)
	now, err := s.Now(c)
	if err != nil {
		return err
	}
	texts, err := s.ReadRules(c)
	if err != nil {
		return err
	}
	numbers, err := s.LimitNumbers(c)
	if err != nil {
		return err
	}
	paused, err := s.PausedQueues(c)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := texts[name]
		v, err := control.ParseValue(text)
		if err != nil {
			if k.said.News(name, text) {
				k.base.Log.Warn("a rule of operators cannot be read and has no effect; set it again, or remove the field of the hash", "key", s.RulesKey(), "field", name, "error", err)
			}
			continue
		}
		kind, about := control.About(name)
		an := control.Announcement{Rules: []control.Rule{{Name: name, Was: text}}}
		did := line{history.RuleEnded, name}
		switch {
		case v.Ended(now):
			an.Changes = v.Undo(name)
		case kind == control.PauseRule && !slices.Contains(paused, about): // a program that knows no rules has resumed the queue
		case kind == control.LimitRule && numbers[about] != v.Value, kind == control.ClassRule && numbers[control.OfPause(about).Spec()] != "0":
			an.Rules[0].Value, an.Changes = text, v.Changes(name)
			did.kind = history.RuleRestored
		default:
			continue
		}
		switch _, err = s.Announce(c, an); {
		case errors.Is(err, control.ErrChanged): // by an operator, or by another keeper
		case err != nil:
			return err
		default:
			k.mu.Lock()
			k.lines = append(k.lines, did)
			k.mu.Unlock()
			if err := s.WakeLanes(c, an.Changes); err != nil {
				return err
			}
		}
	}
	return nil
}
