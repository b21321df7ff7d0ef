// Package reload applies a configuration file while a daemon runs: the whole file or nothing of it.
package reload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/goworker/goworker/internal/setting"
)

// ErrRefused is returned where a file has mistakes. Nothing has changed then.
var ErrRefused = errors.New("the configuration file is refused, and nothing has changed")

// Program is what a reload needs of a daemon, or of Shards.
type Program struct {
	Log *slog.Logger

	// Path is the file that the present settings are from.
	Path string

	// Read reads the file and checks it.
	Read func() (Next, error)
}

// Next is what a file says that was read again.
type Next struct {
	Content *setting.Content
	Changes []setting.Change

	// Apply are the functions that change settings at once, by flag. Those of one number change several settings together.
	Apply map[string]func(context.Context) error

	// Lay lays the options of classes over those registered, and returns what has changed.
	Lay func(context.Context) ([]string, error)
}

// Do reads the file again. Its log has what the file changes, and what needs a restart; or each mistake in a line.
func Do(ctx context.Context, p Program) error {
	next, err := p.Read()
	if err == nil && next.Content == nil {
		err = errors.New("no configuration file is named any more")
	}
	if err != nil {
		for mistake := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "goworker: "), "\n") {
			p.Log.Error("configuration refused, nothing changed", "file", p.Path, "mistake", mistake)
		}
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	var changed, restart []string
	var failed []error
	for _, c := range next.Changes {
		apply := next.Apply[c.Flag]
		if !c.Live || apply == nil {
			restart = append(restart, c.String())
			continue
		}
		if err := apply(ctx); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", c.Flag, err))
			continue
		}
		changed = append(changed, c.String())
	}
	laid, err := next.Lay(ctx)
	changed = append(changed, laid...)
	failed = append(failed, err)
	sections, later := next.Content.Accept(true)
	changed, restart = append(changed, sections...), append(restart, later...)
	attrs := []any{"file", next.Content.Path}
	if len(changed) > 0 {
		attrs = append(attrs, "changed", strings.Join(changed, "; "))
	}
	if len(restart) > 0 {
		attrs = append(attrs, "needs_restart", strings.Join(restart, "; "))
	}
	if err := errors.Join(failed...); err != nil {
		p.Log.Error("configuration reloaded, but not all of it took effect", append(attrs, "error", err)...)
		return err
	}
	if len(changed)+len(restart) == 0 {
		attrs = append(attrs, "changed", "nothing")
	}
	p.Log.Info("configuration reloaded", attrs...)
	return nil
}

// Classes says what differs between what two files say of classes.
func Classes(was, now map[string]setting.Class) (changes []string) {
	names := maps.Clone(was)
	if names == nil {
		names = make(map[string]setting.Class)
	}
	maps.Copy(names, now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, after := parts(was[name]), parts(now[name])
		for i, what := range setting.ClassOptions {
			if before[i] != after[i] {
				changes = append(changes, fmt.Sprintf("classes.%s.%s %s → %s", name, what, before[i], after[i]))
			}
		}
	}
	return changes
}

// parts are the options of a class as text.
func parts(c setting.Class) (texts [3]string) {
	texts = c.Texts()
	for i := range texts {
		texts[i] = cmp.Or(texts[i], "as registered")
	}
	return texts
}
