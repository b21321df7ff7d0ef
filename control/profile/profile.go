// Package profile lets operators profile a program while it runs: where its processor time goes, what holds its memory, what its
// goroutines wait for. A program adds the verb with one line:
//
//	goworker.AddVerb(profile.Verb())
//
// Then goworker control profile cpu --for 10s --to ADDRESS -o FILE takes one. It is a package of its own, because a program that
// imports it links runtime/pprof.
package profile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque/control"
)

const (
	// Most is how many bytes a profile has at most.
	Most = 8 << 20

	// Usual is how long a profile of cpu, block or mutex takes by default.
	Usual = 10 * time.Second

	// Longest is how long such a profile may take.
	Longest = 5 * time.Minute
)

const (
	blockRate     = 10_000 // ns: shorter waits are sampled, so that a busy program pays little
	mutexFraction = 10     // the runtime counts one of this many waits for a mutex
)

// Verb returns the verb profile. It needs an address and the level full, so it needs a signature. A process takes one profile at a time.
//
// The profiles cpu, block and mutex observe the process for a while. heap, allocs and goroutine show its present state. A profile of
// block switches the runtime's block profiling on, and off at its end, even if the program had switched it on. A profile of mutex sets
// the fraction of mutex profiling, and restores it.
func Verb() goworker.Verb {
	p := new(profiler)
	return goworker.Verb{Name: "profile", Help: "Take a profile of cpu, block, mutex, heap, allocs or goroutine", Addressed: true, Do: p.take}
}

// profiler takes one profile at a time.
type profiler struct{ busy sync.Mutex }

var (
	errKind  = errors.New("the kind of a profile is cpu, block, mutex, heap, allocs or goroutine")
	errNow   = errors.New("a profile of heap, allocs or goroutine shows the present state: leave out how long it takes")
	errFor   = fmt.Errorf("a profile takes %s at most", Longest)
	errBusy  = errors.New("the process takes another profile now; try again when that is over")
	errLarge = fmt.Errorf("the profile has more than %d MiB", Most>>20)
)

func (p *profiler) take(ctx context.Context, args json.RawMessage) (any, error) {
	var asked struct {
		Kind string  `json:"kind"`
		For  float64 `json:"for"` // seconds
	}
	if len(args) > 0 {
		d := json.NewDecoder(bytes.NewReader(args))
		d.DisallowUnknownFields()
		if err := d.Decode(&asked); err != nil {
			return nil, fmt.Errorf("the arguments are wrong: %w", err)
		}
	}
	lasts, err := time.Duration(0), error(nil)
	switch asked.Kind {
	case "cpu", "block", "mutex":
		if lasts = Usual; asked.For != 0 {
			lasts = time.Duration(asked.For * float64(time.Second))
		}
		if asked.For < 0 || asked.For > Longest.Seconds() {
			return nil, errFor
		}
	case "heap", "allocs", "goroutine":
		if asked.For != 0 {
			return nil, errNow
		}
	default:
		return nil, errKind
	}
	if !p.busy.TryLock() {
		return nil, errBusy
	}
	defer p.busy.Unlock()
	var out bounded
	if asked.Kind == "cpu" {
		err = cpu(ctx, lasts, &out)
	} else {
		err = named(ctx, asked.Kind, lasts, &out)
	}
	switch {
	case out.full:
		return nil, errLarge
	case err != nil:
		return nil, err
	}
	return control.Profile{Kind: asked.Kind, For: lasts.Seconds(), Profile: out.Bytes()}, nil
}

// cpu takes a profile of the processor's time.
func cpu(ctx context.Context, lasts time.Duration, out *bounded) error {
	if err := pprof.StartCPUProfile(out); err != nil {
		return errors.New("the program itself takes a profile of cpu now; try again when that is over")
	}
	defer pprof.StopCPUProfile() // which writes it
	return wait(ctx, lasts)
}

// named takes one of the other profiles.
func named(ctx context.Context, kind string, lasts time.Duration, out *bounded) error {
	switch kind {
	case "block":
		runtime.SetBlockProfileRate(blockRate)
		defer runtime.SetBlockProfileRate(0)
	case "mutex":
		defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(mutexFraction))
	}
	if err := wait(ctx, lasts); err != nil {
		return err
	}
	return pprof.Lookup(kind).WriteTo(out, 0)
}

// wait waits until the time is over, or the command or the process ends.
func wait(ctx context.Context, lasts time.Duration) error {
	if lasts == 0 {
		return nil
	}
	timer := clock.System.NewTimer(lasts)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the profile ends before its time: %w", context.Cause(ctx))
	}
}

// bounded keeps what is written as long as there is room.
type bounded struct {
	bytes.Buffer
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.full = b.full || b.Len()+len(p) > Most; b.full {
		return 0, errLarge
	}
	return b.Buffer.Write(p)
}
