package goworkertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

type email struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

var (
	sendEmail = goworker.Define[email, goworker.None]("SendEmail", goworker.OnQueue("mail"))
	resize    = goworker.Define[goworker.Args2[string, int], goworker.None]("Resize", goworker.OnQueue("images"), goworker.Unique())
	sweep     = goworker.Define[goworker.None, goworker.None]("Sweep", goworker.OnQueue("low"))
)

func TestClientRecords(t *testing.T) {
	t.Parallel()
	c := goworkertest.NewClient(t)
	ctx := t.Context()
	must := func(_ goworker.Receipt, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(sendEmail.Enqueue(ctx, c, email{To: "ann@example.com"}))
	must(sendEmail.Enqueue(ctx, c, email{To: "bob@example.com"}, goworker.ProcessIn(time.Hour), goworker.WithID("b"), goworker.WithMeta(map[string]string{"tenant": "acme"}), goworker.ExpireAfter(time.Minute)))
	must(sweep.Enqueue(ctx, c, goworker.None{}))
	must(c.Enqueue(ctx, goworker.NewJob("old", "Old", 1, "x"), goworker.ProcessIn(time.Hour), goworker.ResqueScheduler()))
	_, err := c.EnqueueMany(ctx, resize.Item(goworker.Args2[string, int]{A: "a.png", B: 80}), sendEmail.Item(email{To: "cid@example.com"}))
	if err != nil {
		t.Fatal(err)
	}

	mails := goworkertest.Enqueued(t, c, sendEmail)
	if want := []email{{To: "ann@example.com"}, {To: "bob@example.com"}, {To: "cid@example.com"}}; !slices.Equal(mails, want) {
		t.Errorf("mails %v, want %v", mails, want)
	}
	if sizes := goworkertest.Enqueued(t, c, resize); len(sizes) != 1 || sizes[0] != (goworker.Args2[string, int]{A: "a.png", B: 80}) {
		t.Errorf("sizes %v", sizes)
	}
	if sweeps := goworkertest.Enqueued(t, c, sweep); len(sweeps) != 1 {
		t.Errorf("sweeps %v", sweeps)
	}
	var order []string
	for _, j := range c.Jobs() {
		order = append(order, j.Class)
	}
	if got := strings.Join(order, " "); got != "SendEmail SendEmail Sweep Old Resize SendEmail" {
		t.Error(got)
	}
	first := goworkertest.RequireEnqueued(t, c, sendEmail.Job(email{To: "ann@example.com"}), goworkertest.Times(1), goworkertest.DueNow())
	if string(first.Payload) != `{"class":"SendEmail","args":[{"to":"ann@example.com","subject":""}]}` || first.ID != "" {
		t.Errorf("%s", first)
	}
	goworkertest.RequireEnqueued(t, c, sendEmail.Job(email{To: "bob@example.com"}), goworkertest.DueIn(time.Hour), goworkertest.HasID("b"), goworkertest.HasMeta("tenant", "acme"),
		goworkertest.Expires(time.Hour+time.Minute))
	goworkertest.RequireEnqueued(t, c, goworker.NewJob("", "SendEmail"), goworkertest.Times(3))
	goworkertest.RequireEnqueued(t, c, sweep.Job(goworker.None{}), goworkertest.HasField("args", []any{}))
	old := goworkertest.RequireEnqueued(t, c, goworker.NewJob("old", "Old", 1, "x"), goworkertest.DueIn(time.Hour), goworkertest.HasID(""))
	if !old.Plain || string(old.Payload) != `{"class":"Old","args":[1,"x"]}` {
		t.Errorf("%s", old)
	}
	goworkertest.RequireEnqueued(t, c, resize.Job(goworker.Args2[string, int]{A: "a.png", B: 80}), goworkertest.Where(func(j goworkertest.Job) string {
		if _, locked := j.Field("unique"); !locked {
			return "it has no lock"
		}
		return ""
	}))
	goworkertest.RequireNotEnqueued(t, c, sendEmail.Job(email{To: "dot@example.com"}))
	goworkertest.RequireNotEnqueued(t, c, sendEmail.Job(email{To: "ann@example.com"}), goworkertest.DueIn(time.Hour))
	goworkertest.RequireNotEnqueued(t, c, goworker.NewJob("other", "SendEmail"))
	goworkertest.RequireEnqueued(t, c, goworker.NewJob("", "Nobody"), goworkertest.Times(0))
	c.Forget()
	goworkertest.RequireNotEnqueued(t, c, goworker.NewJob("", "SendEmail"))
}

// A job that a Client refuses is refused here too, and not recorded; so is one whose lock is held.
func TestClientRefuses(t *testing.T) {
	t.Parallel()
	save := goworker.Define[goworker.Args2[int, string], goworker.None]("Save", goworker.OnQueue("low"), goworker.Unique(
		goworker.ByKeyOf(func(j *goworker.Job) string { return fmt.Sprint(j.Payload.Args[0]) }), goworker.ReplaceWaiting()))
	elapsing := goworker.Define[goworker.None, goworker.None]("Once", goworker.OnQueue("low"), goworker.Unique(goworker.UntilElapsed(time.Hour)))
	c := goworkertest.NewClient(t, goworker.Classes(resize, save, elapsing), goworker.WithEnqueueMiddleware(
		func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
			return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
				if items[0].Job.Payload.Class == "Forbidden" {
					return nil, errDeclined
				}
				return next(ctx, items)
			}
		}))
	ctx := t.Context()
	for want, job := range map[string]*goworker.Job{
		"needs a queue and a class": goworker.NewJob("", "X"), "args[0]": goworker.NewJob("q", "X", func() {}),
		errDeclined.Error(): goworker.NewJob("q", "Forbidden"),
	} {
		if _, err := c.Enqueue(ctx, job); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if _, err := c.Enqueue(ctx, goworker.NewJob("q", "X"), goworker.ProcessAt(time.Time{})); err == nil {
		t.Error("the zero time was accepted")
	}
	if jobs := c.Jobs(); len(jobs) > 0 {
		t.Errorf("recorded: %v", jobs)
	}
	image := goworker.NewJob("images", "Resize", "a.png", 80)
	if _, err := c.Enqueue(ctx, image); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(ctx, image); !errors.Is(err, goworker.ErrDuplicate) {
		t.Errorf("a duplicate: %v", err)
	}
	receipts, err := c.EnqueueMany(ctx, goworker.Item{Job: image}, goworker.Item{Job: goworker.NewJob("q", "X")})
	if err != nil || receipts[0].Duplicate == nil || receipts[1].Duplicate != nil {
		t.Errorf("%+v, %v", receipts, err)
	}
	goworkertest.RequireEnqueued(t, c, image, goworkertest.Times(1))
	goworkertest.RequireEnqueued(t, c, goworker.NewJob("q", "X"), goworkertest.Times(1))

	_, err = save.Enqueue(ctx, c, goworker.Args2[int, string]{A: 7, B: "W"})
	receipt, again := save.Enqueue(ctx, c, goworker.Args2[int, string]{A: 7, B: "Word"})
	if err != nil || again != nil || receipt.Replaced == "" {
		t.Errorf("%+v, %v, %v", receipt, err, again)
	}
	last := goworkertest.RequireEnqueued(t, c, save.Job(goworker.Args2[int, string]{A: 7, B: "Word"}))
	if last.Replaced != receipt.Replaced {
		t.Errorf("%q, want %q", last.Replaced, receipt.Replaced)
	}
	if n, err := c.Inspect().QueueSize(ctx, "low"); n != 1 || err != nil {
		t.Errorf("%d jobs wait, %v", n, err)
	}

	once := func() error { _, err := elapsing.Enqueue(ctx, c, goworker.None{}); return err }
	if err := once(); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Hour - time.Millisecond)
	if err := once(); !errors.Is(err, goworker.ErrDuplicate) {
		t.Errorf("the lock lasts an hour: %v", err)
	}
	c.Advance(time.Millisecond)
	if err := once(); err != nil {
		t.Errorf("an hour later: %v", err)
	}
}

// Every check of enqueued jobs fails where it should, and names what was enqueued.
func TestJobsThatDoNotFit(t *testing.T) {
	t.Parallel()
	c := goworkertest.NewClient(t)
	none := fails(t, func(t testing.TB) { goworkertest.RequireEnqueued(t, c, sweep.Job(goworker.None{})) })
	if none != "goworkertest: a job of class Sweep in queue low with [] was not enqueued; nothing was" {
		t.Error(none)
	}
	for range 2 {
		if _, err := c.Enqueue(t.Context(), goworker.NewJob("q", "X", 1), goworker.ProcessIn(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	x := goworker.NewJob("q", "X", 1)
	require := func(like *goworker.Job, checks ...goworkertest.Check) func(testing.TB) {
		return func(t testing.TB) { goworkertest.RequireEnqueued(t, c, like, checks...) }
	}
	for want, check := range map[string]func(t testing.TB){
		"a job of class X in queue q with [2] was not enqueued; these were:\n\tX in queue q: {": require(goworker.NewJob("q", "X", 2)),
		"was enqueued 2 times, want once":                   require(x, goworkertest.Times(1)),
		"was enqueued 2 times, want 0 times":                require(x, goworkertest.Times(0)),
		"was not enqueued so:":                              require(x, goworkertest.DueNow()),
		": it is delayed until":                             require(x, goworkertest.DueNow()),
		": it is due at":                                    require(x, goworkertest.DueIn(time.Minute)),
		": it never expires":                                require(x, goworkertest.Expires(time.Minute)),
		`want "me"`:                                         require(x, goworkertest.HasID("me")),
		`its payload has no field "meta"`:                   require(x, goworkertest.HasField("meta", 1)),
		`the field "class" of its payload is "X", want "Y"`: require(x, goworkertest.HasField("class", "Y")),
		"its metadata is map[], want tenant=acme":           require(x, goworkertest.HasMeta("tenant", "acme")),
		"too small":                                         require(x, goworkertest.Where(func(goworkertest.Job) string { return "too small" })),
		"was enqueued 2 times, and should not be:":          func(t testing.TB) { goworkertest.RequireNotEnqueued(t, c, x) },
		"cannot be read as its class says": func(t testing.TB) {
			other := goworker.Define[email, goworker.None]("X", goworker.OnQueue("q"))
			goworkertest.Enqueued(t, c, other)
		},
	} {
		if message := fails(t, check); !strings.HasPrefix(message, "goworkertest: ") || !strings.Contains(message, want) {
			t.Errorf("%q; want %q", message, want)
		}
	}
}

// What never ends is ended with a sentence.
func TestRunnerEnds(t *testing.T) {
	t.Parallel()
	drain := func(class string, d *goworker.Daemon, opts ...goworkertest.RunnerOption) string {
		return fails(t, func(f testing.TB) {
			r := goworkertest.New(f, d, opts...)
			if _, err := r.Client().Enqueue(t.Context(), goworker.NewJob("q", class)); err != nil {
				t.Error(err)
			}
			r.Drain()
		})
	}
	forever := goworker.New(goworker.WorkerSettings{})
	forever.Register("Again", func(ctx context.Context) error {
		_, err := forever.Client().Enqueue(ctx, goworker.NewJob("q", "Again"))
		return err
	})
	if message := drain("Again", forever, goworkertest.MostJobs(20), goworkertest.Patience(2*time.Minute)); !strings.Contains(message, "20 jobs have run and there is no end") ||
		!strings.Contains(message, "Again of queue q is done at attempt 1; does it enqueue itself?") {
		t.Error(message)
	}
	hanging := goworker.New(goworker.WorkerSettings{ShutdownTimeout: 50 * time.Millisecond})
	hanging.Register("Hang", func(ctx context.Context) { <-ctx.Done() })
	for _, patience := range []time.Duration{200 * time.Millisecond, time.Nanosecond} { // the second is over before a job runs
		want := fmt.Sprintf("after %s of real time, jobs still run or wait", patience)
		if message := drain("Hang", hanging, goworkertest.Patience(patience)); !strings.Contains(message, want) {
			t.Error(message)
		}
	}
	if message := drain("X", goworker.New(goworker.WorkerSettings{})); !strings.Contains(message, "no handler is registered") {
		t.Error(message)
	}
	if message := fails(t, func(f testing.TB) { goworkertest.New(f, forever, goworkertest.Concurrency(0)) }); !strings.Contains(message, "must be positive") {
		t.Error(message)
	}
}
