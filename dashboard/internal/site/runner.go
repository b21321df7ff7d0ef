package site

import (
	"context"
	"errors"
	"iter"

	"github.com/goworker/goworker/inspect"
)

// RunOn runs an operation, or runs it on, in the background, until it ends or the dashboard stops. Another dashboard or the command goes
// on with one that was left.
func (f *Fleet) RunOn(user, id string) {
	f.background(id, f.in.By(user, "").Face(face).Operations().Run)
}

// UndoOn takes an operation back in the background.
func (f *Fleet) UndoOn(user, id string) {
	f.background(id, f.in.By(user, "").Face(face).Operations().Undo)
}

func (f *Fleet) background(id string, steps func(ctx context.Context, id string) iter.Seq2[inspect.Operation, error]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.touch()
	f.busy++
	delete(f.kept, keyOperations)
	f.runs.Go(func() {
		defer func() {
			f.mu.Lock()
			f.busy--
			f.mu.Unlock()
		}()
		for _, err := range steps(f.life, id) {
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, inspect.ErrOperationBusy) && !errors.Is(err, inspect.ErrOperationStopped) {
				f.log.Error("dashboard: an operation stands", "operation", id, "error", err)
			}
		}
	})
}
