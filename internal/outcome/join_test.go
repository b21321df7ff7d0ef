package outcome

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// A handler has a feature join its job, once. It settles behind the others whatever the end, may add to the next payload,
// and does nothing for a job that does not ask.
func TestJoin(t *testing.T) {
	t.Parallel()
	var b *bundle
	made := 0
	b = setup(t,
		Feature{Name: "late", Join: func(j *Job) Policy {
			if j.ID == "" {
				return nil
			}
			made++
			j.Fields = append(j.Fields, payload.TextField("joined", "yes"))
			return talker{b: b, name: "late", settle: func(_ *Job, o *Outcome) {
				o.Effects = append(o.Effects, resque.Command("PERSIST", resque.New("").HashKey("x")))
			}}
		}},
		Feature{Name: "all", Bind: func(*Class) Policy {
			return talker{b: b, name: "all", decide: func(_ *Job, err error) (Outcome, bool) { return Outcome{State: Snoozed, Err: err, At: noon}, true }}
		}},
	)
	var kept context.Context
	ask := func(end error) Handler {
		return func(ctx context.Context, j *Job) error {
			kept = ctx
			first := Join(ctx, "late")
			if j.ID != "" && (first == nil || Join(context.WithoutCancel(ctx), "late") == nil || made != 1) || j.ID == "" && first != nil {
				t.Errorf("job %q: %v, made %d times", j.ID, first, made)
			}
			if Join(ctx, "all") != nil || Join(ctx, "nothing") != nil {
				t.Error("a feature joins that cannot")
			}
			if JobOf(ctx) != j {
				t.Error("the context belongs to another job")
			}
			return end
		}
	}
	for name, tt := range map[string]struct {
		job  *Job
		end  error
		want string
	}{
		"done":    {of("Plain", `"id":"1"`), nil, "all.admit all{ }all all.settle:done late.settle:done"},
		"snoozed": {of("Plain", `"id":"1"`), errOops, "all.admit all{ }all all.decide all.settle:snoozed late.settle:snoozed"},
		"no id":   {of("Plain"), nil, "all.admit all{ }all all.settle:done"},
	} {
		made = 0
		var o Outcome
		b.Run(t.Context(), tt.job, ask(tt.end), &o)
		if got := b.heard(); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
		if again := strings.Count(string(o.Next.Payload), `"joined":"yes"`); again != strings.Count(name, "snoozed") {
			t.Errorf("%s: the next payload is %s", name, o.Next.Payload)
		}
		if Join(kept, "late") != nil {
			t.Errorf("%s: a feature joins a job whose handler has returned", name)
		}
	}
	if Join(t.Context(), "late") != nil || JobOf(t.Context()) != nil {
		t.Error("a feature joins no job")
	}
	made = 0
	j, o, left := of("Plain", `"id":"1"`), Outcome{}, make(chan struct{})
	go func() { // the handler ends its goroutine
		defer close(left)
		b.Run(t.Context(), j, func(ctx context.Context, j *Job) error { Join(ctx, "late"); runtime.Goexit(); return nil }, &o)
	}()
	<-left
	b.heard()
	b.Fail(t.Context(), j, errOops, &o)
	if got := b.heard(); got != "all.decide all.settle:snoozed late.settle:snoozed" {
		t.Errorf("after Goexit: %s", got)
	}
	plain := of("Plain", `"id":"1"`)
	if o := talkers(t).run(plain, nil); plain.policies != nil || plain.joined != nil || !o.Plain() {
		t.Errorf("a job that does not ask has %v, %v", plain.policies, plain.joined)
	}
}
