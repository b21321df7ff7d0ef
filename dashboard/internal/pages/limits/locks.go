package limits

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// Lock is a lock of a unique job.
type Lock struct {
	Name    string    `json:"lock"`
	ID      string    `json:"id"` // the job that holds it
	Queue   string    `json:"queue"`
	Class   string    `json:"class"`
	Job     string    `json:"job"`  // the beginning of the job, masked
	Hold    string    `json:"hold"` // until when: done, start or time
	Since   site.Time `json:"since"`
	Seen    site.Time `json:"seen"`
	Left    site.Span `json:"left_ms"` // until it falls by itself; 0: not known
	Refused int64     `json:"refused"`
	Shard   string    `json:"shard,omitempty"`
}

// HoldText says until when the job holds the lock.
func (l Lock) HoldText() string {
	switch l.Hold {
	case "done":
		return "until its job is done"
	case "start":
		return "until its job starts"
	case "time":
		return "for a time"
	}
	return l.Hold
}

// LockPage is the page of a lock.
type LockPage struct {
	Lock
	Place   string `json:"place"`                 // where its job is, as in searches; "": nowhere, or not looked for
	Looked  bool   `json:"looked"`                // the job was looked for
	Unknown string `json:"why_unknown,omitempty"` // why it was not
}

// PageTitle is the title of the page.
func (l *LockPage) PageTitle() string { return "Lock of " + l.Class }

// Orphan reports whether the job is nowhere.
func (l *LockPage) Orphan() bool { return l.Looked && l.Place == "" }

// PlaceText says where the job is.
func (l *LockPage) PlaceText() string {
	switch inspect.Place(l.Place) {
	case inspect.Queued:
		return "in its queue"
	case inspect.InLane:
		return "in its queue, behind a limit or a turn"
	case inspect.Delayed:
		return "delayed"
	case inspect.Running:
		return "running"
	}
	return l.Place
}

func lockOf(a *site.Ask, l inspect.Lock) Lock {
	return Lock{
		Name: l.Name, ID: l.ID, Queue: l.Queue, Class: l.Class, Job: a.Masks.Brief(l.Payload, 200), Hold: l.Hold, Since: site.Time{Time: l.Since}, Seen: site.Time{Time: l.Seen},
		Left: site.Span(l.Left), Refused: l.Refused, Shard: l.Shard,
	}
}

func (p *Page) locks(ctx context.Context, a *site.Ask) error {
	got, err := site.Seldom(ctx, a, "locks "+a.Param("after"), func(ctx context.Context) (inspect.LockPage, error) {
		return a.In().LocksPage(ctx, a.Param("after"), rows, inspect.Budget(budget))
	})
	if err != nil {
		return err
	}
	p.Next = got.Next
	for _, l := range got.Locks {
		if one := lockOf(a, l); a.Sees(l.Queue) && p.fits(one.Class, one.Queue, one.ID, one.Job, one.Name) {
			p.Locks = append(p.Locks, one)
		}
	}
	return nil
}

// lookFor is how long a page waits for the look for the job of a lock.
const lookFor = 3 * time.Second

var errNoLock = site.Missing("no job holds this lock any more")

// lockNamed is the lock of the path, if the user sees its queue.
func lockNamed(ctx context.Context, a *site.Ask) (inspect.Lock, error) {
	l, err := a.In().Lock(ctx, a.Path("lock"))
	if errors.Is(err, inspect.ErrNoLock) || err == nil && !a.Sees(l.Queue) {
		return l, errNoLock
	}
	return l, err
}

func loadLock(ctx context.Context, a *site.Ask) (any, error) {
	l, err := lockNamed(ctx, a)
	if err != nil {
		return nil, err
	}
	p := &LockPage{Lock: lockOf(a, l)}
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	switch place, _, err := a.In().LockHolder(ctx, l); {
	case errors.Is(err, inspect.ErrNoLock):
		return nil, errNoLock
	case err != nil:
		p.Unknown = err.Error()
	default:
		p.Looked, p.Place = true, string(place)
	}
	return p, nil
}

// release releases a lock whose job is nowhere, or with the field force any lock. The field holder, if it is given, has to be the job that
// holds the lock still.
func release(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	l, err := lockNamed(ctx, a)
	if err != nil {
		return site.Outcome{}, err
	}
	if err := a.Permit("lock.release", guard.Target{Queue: l.Queue, Class: l.Class, ID: l.ID}); err != nil {
		return site.Outcome{}, err
	}
	if holder := a.Value("holder"); holder != "" && holder != l.ID {
		return site.Outcome{}, site.Changed(l.ID, "the lock has changed hands: job %s holds it now", l.ID)
	}
	force := a.Flag("force")
	if force && a.Value("confirm") != "force" {
		return site.Outcome{}, site.Bad("a second equal job may run beside the first one; type force in confirm to release the lock all the same")
	}
	if err := a.By().ReleaseLock(ctx, l, force); err != nil {
		return site.Outcome{}, err
	}
	return site.Outcome{Said: fmt.Sprintf("The lock of job %s is released: the next equal job is enqueued.", l.ID), Done: 1, To: "/limits?v=locks"}, nil
}

// Group is a group of aggregated jobs.
type Group struct {
	ID    string    `json:"group"` // names it for its action
	Queue string    `json:"queue"`
	Class string    `json:"class"`
	Key   site.Args `json:"key"` // the arguments that its items share
	Items int       `json:"items"`
	Bytes int       `json:"bytes"`
	Began site.Time `json:"began"`
	Due   site.Time `json:"due"`
}

// mostGroups is how many groups are looked at: those that are due first. mostKey is how many bytes of a key are shown.
const (
	mostGroups = 500
	mostKey    = 1 << 10
)

// groupID is a digest of what makes a group.
func groupID(g inspect.AggregateGroup) string {
	key, _ := json.Marshal(g.Key)
	sum := sha256.Sum256(append([]byte(g.Queue+"\x00"+g.Class+"\x00"), key...))
	return hex.EncodeToString(sum[:12])
}

func groupsOf(ctx context.Context, a *site.Ask) ([]inspect.AggregateGroup, error) {
	return a.In().AggregateGroups(ctx, mostGroups)
}

func (p *Page) groups(ctx context.Context, a *site.Ask) error {
	found, err := groupsOf(ctx, a)
	if err != nil {
		return err
	}
	p.Some = len(found) >= mostGroups
	var all []Group
	for _, g := range found {
		one := Group{ID: groupID(g), Queue: g.Queue, Class: g.Class, Items: g.Items, Bytes: g.Bytes, Began: site.Time{Time: g.Began}, Due: site.Time{Time: g.Due}}
		one.Key, _ = site.Args(a.Masks.Args(g.Class, g.Key)).Cut(mostKey)
		if a.Sees(g.Queue) && p.fits(g.Class, g.Queue, one.Key.Text(mostKey)) {
			all = append(all, one)
		}
	}
	p.Groups, err = page(a, p, all)
	return err
}

// flush makes the job of a group now.
func flush(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	all, err := groupsOf(ctx, a)
	if err != nil {
		return site.Outcome{}, err
	}
	id := strings.ToLower(a.Path("group"))
	for _, g := range all {
		if groupID(g) != id || !a.Sees(g.Queue) {
			continue
		}
		if err := a.Permit("group.flush", guard.Target{Queue: g.Queue, Class: g.Class}); err != nil {
			return site.Outcome{}, err
		}
		if err := a.By().FlushGroup(ctx, g.Queue, g.Class, g.Key); err != nil {
			if errors.Is(err, inspect.ErrNoGroup) {
				break
			}
			return site.Outcome{}, err
		}
		return site.Outcome{Said: fmt.Sprintf("A job of class %s with %d items was pushed to queue %s.", g.Class, g.Items, g.Queue), Done: int64(g.Items)}, nil
	}
	return site.Outcome{}, site.Missing("no such group waits: its job was made meanwhile")
}
