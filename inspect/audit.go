package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// AuditEntry is a change that was made under By.
type AuditEntry struct {
	At      time.Time `json:"at"`
	Who     string    `json:"who"`
	User    string    `json:"user,omitempty"` // the user of Redis under which the program changed it; "?": Redis does not say
	Face    string    `json:"face,omitempty"` // the program that made the change for a person; see Face
	Why     string    `json:"why,omitempty"`
	What    string    `json:"what"`             // the call: Remove, PauseQueue, RetryWhere
	On      string    `json:"on,omitempty"`     // what it concerned: a job, a queue, a filter
	Old     string    `json:"old,omitempty"`    // what was there before, where a value was changed
	Changed int64     `json:"changed"`          // jobs, failures or queues
	Error   string    `json:"error,omitempty"`  // why the call did not do all of it
	Intent  bool      `json:"intent,omitempty"` // the change was about to be made; another entry says what it did

	Shard string `json:"-"` // of several, where the change was made
}

// mostOld is how many bytes of an old value are recorded: those of a recurring schedule are among them, so that it can be kept again.
const mostOld = 4096

// mostText is how many bytes of what a change concerned, and of its error, are recorded.
const mostText = 500

// Audit returns the newest changes that were made under By, the newest first: at most count. The
// record holds 10,000. A process of an older release trims it to 1,000 when it records a change of its own.
func (i *Inspector) Audit(ctx context.Context, count int) ([]AuditEntry, error) {
	if count < 1 || count > resque.MostAudited {
		return nil, fmt.Errorf("goworker: ask for 1 to %d changes of the audit, not for %d", resque.MostAudited, count)
	}
	if i.several() {
		all, err := over(i, func(a, b []AuditEntry) []AuditEntry { return append(a, b...) }, func(one *Inspector) ([]AuditEntry, error) {
			entries, err := one.Audit(ctx, count)
			for n := range entries {
				entries[n].Shard = one.name()
			}
			return entries, err
		})
		slices.SortStableFunc(all, func(a, b AuditEntry) int { return b.At.Compare(a.At) })
		return all[:min(count, len(all))], err
	}
	texts, err := query(ctx, i, func(s resque.Store, c redis.Conn) ([][]byte, error) { return s.Audited(c, count) })
	entries := make([]AuditEntry, 0, len(texts))
	for _, text := range texts {
		var e AuditEntry
		if json.Unmarshal(text, &e) != nil {
			e = AuditEntry{What: string(text)} // another program's: show it as it is
		}
		entries = append(entries, e)
	}
	return entries, err
}

// recordWithin bounds the recording of a change whose context has ended.
const recordWithin = 2 * time.Second

// Recordable returns an error if a change could not be recorded. A face asks before it makes one, and then makes none. Without By
// nothing is recorded, and there is no error.
func (i *Inspector) Recordable(ctx context.Context) error {
	if i.who == "" {
		return nil
	}
	return i.each(func(one *Inspector) error {
		err := one.do(ctx, func(s resque.Store, c redis.Conn) error { return s.TryAudit(c) })
		if err != nil {
			err = prefix.Errorf("nothing is changed, because it could not be recorded: %w", err)
		}
		return err
	})
}

// record records a change that was made on one Redis, and returns its error.
func (i *Inspector) record(ctx context.Context, what, on string, changed int64, done error) error {
	return i.recordOld(ctx, what, on, "", changed, done)
}

// Noted records a change that a program has made by other means than an Inspector, such as a job that it enqueued for a person. done is how
// that ended, and Noted returns it, with the error of the record if there is one.
func (i *Inspector) Noted(ctx context.Context, what, on string, changed int64, done error) error {
	return i.all()[0].record(ctx, what, on, changed, done)
}

// recordOld is record for a value that was changed: the old one is in the record, so that it can be set again.
func (i *Inspector) recordOld(ctx context.Context, what, on, old string, changed int64, done error) error {
	if i.who == "" || changed == 0 {
		return done
	}
	e := AuditEntry{What: what, On: on, Old: old, Changed: changed}
	if done != nil {
		e.Error = done.Error()
	}
	err := i.note(ctx, e)
	if err != nil {
		err = prefix.Errorf("%s was done but not recorded: %w", what, err)
	}
	return errors.Join(done, err)
}

// intend records a change before it is made, so that also one is known whose program is killed.
func (i *Inspector) intend(ctx context.Context, what, on string) error {
	if err := i.note(ctx, AuditEntry{What: what, On: on, Intent: true}); err != nil {
		return prefix.Errorf("%s was not done, because it cannot be recorded: %w", what, err)
	}
	return nil
}

// note writes an entry into the audit, if the changes of this Inspector are recorded.
func (i *Inspector) note(ctx context.Context, e AuditEntry) error {
	if i.who == "" {
		return nil
	}
	e.At, e.Who, e.Why = clock.System.Now().UTC().Truncate(time.Millisecond), i.who, i.why
	e.Face, e.On, e.Old, e.Error = i.face, logging.Shorten(e.On, mostText), logging.Shorten(e.Old, mostOld), logging.Shorten(e.Error, mostText)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	return i.do(ctx, func(s resque.Store, c redis.Conn) error {
		e.User = resque.User(c)
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		return s.Audit(c, text)
	})
}

// once is how much a change of one thing has changed.
func once(changed bool) int64 {
	if changed {
		return 1
	}
	return 0
}
