package control_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/control/profile"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// A process whose program adds the verb answers a profile, one at a time, and one whose program does not says so.
func TestProfile(t *testing.T) {
	t.Parallel()
	f := setup(t)
	file := keyFile(t, strings.Repeat("k", 32))
	full := func(s *goworker.WorkerSettings, _ *goworker.Daemon) {
		s.Control, s.ControlKeyFile = goworker.ControlFull, file
	}
	a := f.start("a", full, func(_ *goworker.WorkerSettings, d *goworker.Daemon) { d.AddVerb(profile.Verb()) })
	f.start("without", full)
	c := control.New(f.client, control.KeyFile(file))
	take := func(ctx context.Context, to string, args map[string]any) (control.ProfileAnswer, string) {
		t.Helper()
		r, err := control.Gather(c.Do(ctx, control.Profile, control.To(to), control.Args(args), control.Timeout(daemontest.Soon)))
		switch {
		case err != nil && ctx.Err() == nil:
			t.Errorf("%v: %v", args, err)
		case len(r.Refused) == 1:
			return control.ProfileAnswer{}, r.Refused[0].Text
		case len(r.Replies) == 1:
			var p control.ProfileAnswer
			if err := r.Replies[0].Decode(&p); err != nil {
				t.Errorf("%v: %v", args, err)
			}
			return p, ""
		}
		return control.ProfileAnswer{}, ""
	}
	for kind, counts := range map[string]string{
		"cpu": "nanoseconds", "heap": "inuse_space", "allocs": "alloc_space", "goroutine": "goroutine", "block": "contentions", "mutex": "contentions",
	} {
		args := map[string]any{"kind": kind}
		if kind == "cpu" || kind == "block" || kind == "mutex" {
			args["for"] = 0.1
		}
		got, refused := take(t.Context(), "a", args)
		zipped, err := gzip.NewReader(bytes.NewReader(got.Profile))
		if err != nil {
			t.Errorf("%s: %v, refused: %q", kind, err, refused)
			continue
		}
		if text, err := io.ReadAll(zipped); err != nil || !bytes.Contains(text, []byte(counts)) || got.Kind != kind {
			t.Errorf("%s has nothing of %s: %v", kind, counts, err)
		}
	}
	for want, args := range map[string]map[string]any{
		"the kind of a profile is": {"kind": "trace"},
		"5m0s at most":             {"kind": "cpu", "for": 301},
		"shows the present state":  {"kind": "heap", "for": 1},
		"the arguments are wrong":  {"kinds": "cpu"},
	} {
		if _, refused := take(t.Context(), "a", args); !strings.Contains(refused, want) {
			t.Errorf("%v is answered with %q, not %q", args, refused, want)
		}
	}
	if _, refused := take(t.Context(), "without", map[string]any{"kind": "heap"}); !strings.Contains(refused, "does not add the verb of package control/profile") {
		t.Errorf("a program without the verb answers %q", refused)
	}
	if r, err := control.Gather(c.Do(t.Context(), control.Profile, control.Timeout(daemontest.Soon))); err != nil || len(r.Refused) != 2 {
		t.Errorf("without an address: %+v, %v", r, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for refused := "another profile"; strings.Contains(refused, "another profile"); { // one of those below may be before it
			_, refused = take(ctx, "a", map[string]any{"kind": "cpu", "for": 120})
		}
	}()
	redistest.Eventually(t, daemontest.Soon, "the second profile is refused", func() bool {
		_, refused := take(t.Context(), "a", map[string]any{"kind": "heap"})
		return strings.Contains(refused, "takes another profile now")
	})
	if err := a.stop(); err != nil { // which ends the first
		t.Error(err)
	}
	cancel()
	<-ended
}
