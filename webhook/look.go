package webhook

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/webhook"
)

const (
	// lookWithin is how long a look may take.
	lookWithin = 15 * time.Second

	// historyEvery is how often a looker reads the history of the last day, whose rows are of ten minutes.
	historyEvery = 10 * time.Minute

	// mostGrouped is how many failures a looker reads to find new kinds. Of more it finds none.
	mostGrouped = 10_000

	// mostWrong is how many findings a webhook keeps at a time. It delivers no notices of further ones.
	mostWrong = 100
)

// looker runs the checks while it has the lease for that, and writes notices of findings that begin and end into the stream. Only its
// goroutine uses it.
type looker struct {
	*Deliverer
	door inspect.Door
	id   string
	say  *slog.Logger

	before  inspect.Sample
	history inspect.History
	read    time.Time // when the history was read
	groups  []inspect.FailureGroup
	counted [2]int64             // how many failures there were, and ever, when the groups were read
	grouped time.Time            // when that was
	unseen  map[string]time.Time // since when the checks have not seen a finding that has begun
	said    logging.Once
}

func newLooker(d *Deliverer, door inspect.Door) *looker {
	return &looker{Deliverer: d, door: door, id: rand.Text(), say: d.log(""), unseen: make(map[string]time.Time)}
}

// run looks until the context ends.
func (l *looker) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := l.turn(ctx); err != nil && ctx.Err() == nil {
			if l.said.News("look", err.Error()) {
				l.say.Warn("the deliverer of the webhook cannot run its checks", "error", err)
			}
		} else {
			l.said.Over("look")
		}
		sleep(ctx, l.clock, l.pace.look)
	}
}

// turn looks, if this deliverer has the lease. The lease lasts three looks.
func (l *looker) turn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	var leads bool
	var said map[string]string
	err := l.door.Do(ctx, func(s resque.Store, c redis.Conn) (err error) {
		store := webhook.New(s)
		if leads, err = store.Lead(c, l.settings.Name, l.id, 3*l.pace.look); err == nil && leads {
			said, err = store.Wrong(c, l.settings.Name)
		}
		return err
	})
	if err != nil || !leads {
		l.before = inspect.Sample{} // it is too old to compare with
		clear(l.unseen)
		return err
	}
	found, seen, err := l.look(ctx)
	if err != nil {
		return err
	}
	return l.tell(ctx, said, found, seen)
}

// look returns the findings by their ids, and which checks have seen all that they look at.
func (l *looker) look(ctx context.Context) (found map[string]Item, seen map[string]bool, err error) {
	in := l.door.Inspector()
	after, err := in.Sample(ctx, inspect.SampleAfter(l.before))
	if err != nil {
		return nil, nil, err
	}
	if clock.Since(l.clock, l.read) >= historyEvery {
		h, err := in.History(ctx, inspect.HistoryQuery{Step: historyEvery, Since: after.At.Add(-24 * time.Hour)})
		if err == nil { // else what is usual is not known
			l.history, l.read = h, l.clock.Now()
		}
	}
	found, seen = make(map[string]Item), make(map[string]bool)
	add := func(f checks.Finding) {
		if f.State == checks.Found && f.Check.In(checks.Notice) {
			found[identity(f)] = item(f, after.At)
		}
	}
	moving := checks.Moving(l.before, after, checks.Usually(l.history))
	for _, f := range append(moving, checks.Failing(l.history)...) {
		if f.Check.Number == 0 { // doctor has the others
			add(f)
		}
	}
	var numbers []int
	for _, c := range checks.Table {
		switch {
		case !c.In(checks.Notice):
		case c.Number > 0:
			numbers = append(numbers, c.Number)
		default:
			seen[c.Name] = !l.before.At.IsZero()
		}
	}
	fresh, all := l.fresh(ctx, after)
	for _, f := range fresh {
		add(f)
	}
	seen[checks.NewKind] = all
	l.before = after
	for f, err := range checks.Run(ctx, in, checks.Options{Only: numbers, ReadOnly: true}) {
		if err != nil {
			return nil, nil, err
		}
		if f.State == checks.OK || f.State == checks.Found && f.Seen >= 1 && f.More == 0 {
			seen[f.Check.Name] = true
		}
		add(f)
	}
	return found, seen, nil
}

// fresh returns the failures of new kinds, and whether it has seen all failures. It reads them where they have changed, and not all the
// time: they are the bodies of jobs.
func (l *looker) fresh(ctx context.Context, s inspect.Sample) (found []checks.Finding, all bool) {
	if s.Failures.Bound != inspect.Exact || s.Failures.N > mostGrouped {
		return nil, false
	}
	counted := [2]int64{s.Failures.N, s.Failed.N}
	if l.grouped.IsZero() || counted != l.counted && clock.Since(l.clock, l.grouped) >= l.pace.groups {
		groups, err := l.door.Inspector().Failures().Groups(ctx, inspect.FailureFilter{})
		if err != nil {
			return nil, false // the other checks say what is wrong with the list
		}
		l.groups, l.counted, l.grouped = groups, counted, l.clock.Now()
	}
	return checks.NewFailures(l.groups, s.At), true
}

// identity is the name of a finding in the state of the webhook.
func identity(f checks.Finding) string {
	digest := sha256.Sum256([]byte(f.Identity()))
	return f.Check.Name + ":" + hex.EncodeToString(digest[:8])
}

// item is the notice of a finding.
func item(f checks.Finding, at time.Time) Item {
	i := Item{
		Kind: Begun, At: at.UTC(), Check: f.Check.Name, Severity: f.Check.Severity.String(), Sentence: logging.Shorten(f.Sentence, mostText),
		Remedy: logging.Shorten(f.Remedy.Words, mostText),
	}
	if len(f.Remedy.Command) <= mostCommand {
		i.Command = f.Remedy.Command
	}
	return i
}

// tell writes notices of findings that have begun or ended. A finding has ended when no look has seen it for a while, so one that comes
// and goes gives one notice.
func (l *looker) tell(ctx context.Context, said map[string]string, found map[string]Item, seen map[string]bool) error {
	now := l.clock.Now()
	write := func(id, value string, i Item) error {
		return l.door.Do(ctx, func(s resque.Store, c redis.Conn) error {
			_, err := webhook.New(s).Say(c, l.settings.Name, id, value, encode(i))
			return err
		})
	}
	var errs []error
	room := mostWrong - len(said)
	for id, i := range found {
		delete(l.unseen, id)
		if _, known := said[id]; known || room <= 0 {
			continue
		}
		room--
		errs = append(errs, write(id, string(encode(i)), i))
	}
	for id, value := range said {
		var i Item
		if _, still := found[id]; still || json.Unmarshal([]byte(value), &i) == nil && !seen[i.Check] && i.Check != "" {
			continue
		}
		since, ok := l.unseen[id]
		if !ok {
			l.unseen[id], since = now, now
		}
		if now.Sub(since) < l.pace.over {
			continue
		}
		i.Kind, i.At, i.Remedy, i.Command = Ended, l.before.At.UTC(), "", ""
		if err := write(id, "", i); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(l.unseen, id)
	}
	return errors.Join(errs...)
}
