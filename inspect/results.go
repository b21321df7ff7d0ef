package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// Status returns what has become of a job, or an error that matches ErrNoResult. Over shards each is asked, at the same
// time, and the one that knows the job answers. If none does, the error also names the shards that did not answer.
func (i *Inspector) Status(ctx context.Context, id string) (Status, error) {
	return knows(i, func(one *Inspector) (Status, error) {
		return query(ctx, one, func(s resque.Store, c redis.Conn) (Status, error) {
			d, there, err := s.ReadDocument(c, id)
			if err == nil && !there {
				err = NoResult(id)
			}
			return StatusOf(d), err
		})
	})
}

// NoResult returns the error of a job of which Redis keeps nothing. It is for the packages of this module.
func NoResult(id string) error {
	if id == "" { // of the receipt of a plain job
		return prefix.Errorf("a job without an id: %w", ErrNoResult)
	}
	return prefix.Errorf("job %s: %w", id, ErrNoResult)
}

// knows asks all shards at the same time, and returns the answer of the one that knows the job.
func knows[T any](i *Inspector, ask func(one *Inspector) (T, error)) (answer T, err error) {
	if !i.several() {
		return ask(i)
	}
	answers, errs := make([]T, len(i.shards)), make([]error, len(i.shards))
	var wg sync.WaitGroup
	for n, one := range i.shards {
		wg.Go(func() { answers[n], errs[n] = ask(one) })
	}
	wg.Wait()
	return Known(answers, errs, func(n int, err error) error { return i.shards[n].about(err) })
}

// Known returns the first of several answers that came without an error. If there is none, the error joins those of
// the shards, which about names, and one ErrNoResult. It is for the packages of this module.
func Known[T any](answers []T, errs []error, about func(n int, err error) error) (answer T, err error) {
	var unknown error
	var away []error
	for n, err := range errs {
		switch {
		case err == nil:
			return answers[n], nil
		case errors.Is(err, ErrNoResult):
			unknown = cmp.Or(unknown, err)
		default:
			away = append(away, about(n, err))
		}
	}
	return answer, errors.Join(append(away, unknown)...)
}

// ResultFilter chooses jobs: those that fit every field that is set.
type ResultFilter struct {
	State State
	Class string
	Queue string
	Limit int // at most so many; 0: all

	// Fits chooses further, by what is known without the whole Status: ID, State, Class and Queue. nil: all.
	Fits func(s Status) bool
}

// The budget of one page of Results: how long a walk has a connection at a time, and how many steps it takes in it. In a
// step Redis looks at about a thousand keys.
const (
	pageSteps = 10
	pageTime  = 100 * time.Millisecond
)

// Results walks through the jobs of which something is known, in no order. It looks at all keys of Redis: a million takes
// a second or two. Redis serves other clients after each thousand, and the walk gives its connection back after ten thousand.
// It ends with the context.
//
// A job whose document is made or removed meanwhile may be missing, and one may come twice. Over shards it walks
// through one after the other. An error ends the walk of that shard, and the walk goes on with the next one.
func (i *Inspector) Results(ctx context.Context, f ResultFilter) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		if f.Limit < 0 {
			yield(Status{}, fmt.Errorf("goworker: the limit of results is %d; give a positive one, or 0 for all", f.Limit))
			return
		}
		left := f.Limit
		for _, one := range i.all() {
			err := one.results(ctx, f, func(s Status) bool {
				if !yield(s, nil) {
					return false
				}
				left--
				return left != 0
			})
			if err == errStopped {
				return
			}
			if err != nil {
				if i.several() {
					err = one.about(err)
				}
				if !yield(Status{}, err) || ctx.Err() != nil {
					return
				}
			}
		}
	}
}

// errStopped ends a walk.
var errStopped = errors.New("the caller has seen enough")

// results walks through the documents of one Redis.
func (i *Inspector) results(ctx context.Context, f ResultFilter, take func(Status) bool) error {
	want := resque.DocumentFilter{State: string(f.State), Class: f.Class, Queue: f.Queue}
	for cursor := "0"; ; {
		var found []resque.Document
		err := i.do(ctx, func(s resque.Store, c redis.Conn) error {
			until := clock.System.Now().Add(pageTime)
			for range pageSteps {
				page, err := s.ScanDocuments(c, cursor, want)
				if err != nil {
					return err
				}
				found, cursor = append(found, page.Found...), page.Next
				if cursor == "0" || len(found) >= MaxPage || clock.System.Now().After(until) {
					break
				}
			}
			return nil
		})
		for _, d := range found {
			if s := StatusOf(d); (f.Fits == nil || f.Fits(s)) && !take(s) {
				return errStopped
			}
		}
		if err != nil || cursor == "0" {
			return prefix.Of(err)
		}
	}
}

// Forget removes what is known about a job: its document, its progress and its log lines. The job itself goes on, and
// those that wait for it get ErrNoResult. So does Forget if nothing is known. The id of a workflow removes the workflow; see
// Workflows.Forget.
func (i *Inspector) Forget(ctx context.Context, id string) error {
	_, err := knows(i, func(one *Inspector) (struct{}, error) {
		if changed, err := one.forget(ctx, id); !errors.Is(err, ErrNoWorkflow) {
			return struct{}{}, one.record(ctx, "Forget", "workflow "+id, changed, prefix.Of(err))
		}
		forgotten, err := query(ctx, one, func(s resque.Store, c redis.Conn) (bool, error) { return s.ForgetDocument(c, id) })
		if err == nil && !forgotten {
			return struct{}{}, NoResult(id)
		}
		return struct{}{}, one.record(ctx, "Forget", "job "+id, once(forgotten), prefix.Of(err))
	})
	return err
}

// LogLine is a captured line of a job's log.
type LogLine struct {
	Time    time.Time
	Level   slog.Level
	Message string
	Attrs   map[string]json.RawMessage // what else the line says
}

// JobLogs returns the log lines of a job that was enqueued with CaptureLogs, the oldest first, or an error that matches
// ErrNoResult if nothing is known about the job.
func (i *Inspector) JobLogs(ctx context.Context, id string) ([]LogLine, error) {
	return knows(i, func(one *Inspector) ([]LogLine, error) {
		return query(ctx, one, func(s resque.Store, c redis.Conn) ([]LogLine, error) {
			texts, there, err := s.JobLogs(c, id)
			if err == nil && !there {
				err = NoResult(id)
			}
			lines := make([]LogLine, 0, len(texts))
			for _, text := range texts {
				lines = append(lines, LogLineOf(text))
			}
			return lines, err
		})
	})
}

// LogLineOf reads a line as slog.JSONHandler writes it. A line of another form is a message. It is for the packages of
// this module.
func LogLineOf(text string) (l LogLine) {
	if json.Unmarshal([]byte(text), &l.Attrs) != nil || l.Attrs == nil {
		return LogLine{Message: text}
	}
	for key, into := range map[string]any{slog.TimeKey: &l.Time, slog.LevelKey: &l.Level, slog.MessageKey: &l.Message} {
		if raw, ok := l.Attrs[key]; ok && json.Unmarshal(raw, into) == nil {
			delete(l.Attrs, key)
		}
	}
	return l
}
