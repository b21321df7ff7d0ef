package site

import (
	"context"
	"errors"
	"time"

	"github.com/goworker/goworker/inspect/groups"
)

const (
	// grouped is how old the index of failures may be to serve a page.
	grouped = time.Second
	// indexing is how long a page waits for failures that are not grouped yet.
	indexing = 100 * time.Millisecond
	// indexed is how long the index is built at a time. Then it looks whether the fleet is still used.
	indexed = 200 * time.Millisecond
)

// grouping is the index of a fleet's failures, which is built in the background. The fleet's mu guards its fields.
type grouping struct {
	index *groups.Index
	begun chan struct{} // closed once the index knows how many failures there are, or why not
	runs  chan struct{} // closed when the building under way ends; nil: there is none
	at    time.Time     // when the last one ended
	err   error         // why it did
}

// builds reports whether the index is being built.
func (g *grouping) builds() bool { return g != nil && g.runs != nil }

// Groups returns the index of the failures, and how far it is. Where it is older than a second, it is brought up to date in the
// background, while the fleet is used. Groups waits a moment for that.
func (f *Fleet) Groups(ctx context.Context) (*groups.Index, groups.Progress, error) {
	f.mu.Lock()
	f.touch()
	if f.groups == nil {
		f.groups = &grouping{index: groups.New(f.in, groups.Options{}), begun: make(chan struct{})}
	}
	g := f.groups
	if g.runs == nil && time.Since(g.at) >= grouped {
		g.runs = make(chan struct{})
		if !f.start(func(ctx context.Context) { f.build(ctx, g) }) {
			g.runs = nil
			f.mu.Unlock()
			return g.index, g.index.Progress(), errors.New("the dashboard stops")
		}
	}
	runs := g.runs
	f.mu.Unlock()
	if runs != nil {
		enough := time.NewTimer(indexing)
		defer enough.Stop()
		select {
		case <-g.begun:
		case <-ctx.Done():
			return g.index, g.index.Progress(), context.Cause(ctx)
		}
		select {
		case <-runs:
		case <-enough.C:
		case <-ctx.Done():
			return g.index, g.index.Progress(), context.Cause(ctx)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return g.index, g.index.Progress(), g.err
}

// build brings the index up to date. It ends when nothing is left to read, when Redis refuses, or when the fleet is no longer used.
func (f *Fleet) build(ctx context.Context, g *grouping) {
	before := int64(-1)
	for first := true; ; first = false {
		p, err := g.refresh(ctx, first)
		f.mu.Lock()
		if g.err = err; err != nil || p.Done || p.Indexed == before || time.Since(f.used) >= f.wait {
			g.at = time.Now()
			close(g.runs)
			g.runs = nil
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		before = p.Indexed
	}
}

func (g *grouping) refresh(ctx context.Context, first bool) (groups.Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	budget := indexed
	if first { // pages wait for how many there are
		budget = indexing / 2
	}
	p, err := g.index.Refresh(ctx, budget)
	select {
	case <-g.begun:
	default:
		close(g.begun)
	}
	return p, err
}
