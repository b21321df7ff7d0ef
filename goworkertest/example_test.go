package goworkertest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

// Email is the argument of SendEmail.
type Email struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

var SendEmail = goworker.Define[Email, goworker.None]("SendEmail", goworker.OnQueue("mail"), goworker.Retry(3))

// signUp is code under test: it enqueues.
func signUp(ctx context.Context, jobs goworker.Enqueuer, address string) error {
	if _, err := SendEmail.Enqueue(ctx, jobs, Email{address, "Welcome"}); err != nil {
		return err
	}
	_, err := SendEmail.Enqueue(ctx, jobs, Email{address, "How do you like it?"}, goworker.ProcessIn(72*time.Hour))
	return err
}

// In these examples newT stands for the t of a test.

func ExampleEnqueued() {
	t := newT()
	defer t.end()

	jobs := goworkertest.NewClient(t)
	if err := signUp(t.Context(), jobs, "ann@example.com"); err != nil {
		t.Fatal(err)
	}
	for _, mail := range goworkertest.Enqueued(t, jobs, SendEmail) {
		fmt.Println(mail.To, mail.Subject)
	}
	// Output:
	// ann@example.com Welcome
	// ann@example.com How do you like it?
}

func ExampleRequireEnqueued() {
	t := newT()
	defer t.end()

	jobs := goworkertest.NewClient(t)
	if err := signUp(t.Context(), jobs, "ann@example.com"); err != nil {
		t.Fatal(err)
	}
	goworkertest.RequireEnqueued(t, jobs, goworker.NewJob("mail", "SendEmail"), goworkertest.Times(2))
	goworkertest.RequireEnqueued(t, jobs, SendEmail.Job(Email{"ann@example.com", "Welcome"}), goworkertest.DueNow())
	later := SendEmail.Job(Email{"ann@example.com", "How do you like it?"})
	job := goworkertest.RequireEnqueued(t, jobs, later, goworkertest.DueIn(72*time.Hour))
	fmt.Println(job.Queue, job.Class, job.At.Sub(jobs.Now()))
	// Output: mail SendEmail 72h0m0s
}

// The bytes of a plain job are those that Ruby's Resque.enqueue writes.
func ExampleJob() {
	t := newT()
	defer t.end()

	jobs := goworkertest.NewClient(t)
	if _, err := SendEmail.Enqueue(t.Context(), jobs, Email{"ann@example.com", "Welcome"}); err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(jobs.Jobs()[0].Payload))
	// Output: {"class":"SendEmail","args":[{"to":"ann@example.com","subject":"Welcome"}]}
}

// A unique job is refused while another holds its lock, as in production.
func ExampleClient() {
	t := newT()
	defer t.end()

	report := goworker.Define[string, goworker.None]("Report", goworker.OnQueue("low"), goworker.Unique())
	jobs := goworkertest.NewClient(t)
	for range 3 {
		_, err := report.Enqueue(t.Context(), jobs, "October")
		fmt.Println(errors.Is(err, goworker.ErrDuplicate))
	}
	goworkertest.RequireEnqueued(t, jobs, report.Job("October"), goworkertest.Times(1))
	// Output:
	// false
	// true
	// true
}

func ExampleWork() {
	t := newT()
	defer t.end()

	d := goworker.New(goworker.WorkerSettings{})
	d.Register("Area", func(width, height int) (int, error) {
		if width < 0 || height < 0 {
			return 0, errors.New("a side is negative")
		}
		return width * height, nil
	})
	result := goworkertest.Work(t, d, goworker.NewJob("shapes", "Area", 6, 7))
	result.RequireDone(t)
	fmt.Println(goworkertest.ValueOf[int](t, result))

	result = goworkertest.Work(t, d, goworker.NewJob("shapes", "Area", -1, 7))
	result.RequireFailed(t, nil)
	fmt.Println(result.Err)
	// Output:
	// 42
	// a side is negative
}

// What the class's options say about an error shows without a wait: the payload that a run leaves is the next run.
func ExampleWork_retries() {
	t := newT()
	defer t.end()

	d := goworker.New(goworker.WorkerSettings{})
	SendEmail.Handle(d, goworker.NoResult(func(context.Context, Email) error { return errors.New("the server is away") }))

	result := goworkertest.Work(t, d, SendEmail.Job(Email{To: "ann@example.com"}))
	result.RequireRetried(t, 8*time.Second, 10*time.Second) // the wait has a random part
	for result.State == goworkertest.Retried {
		result = goworkertest.WorkPayload(t, d, "mail", string(result.Next))
		fmt.Println("attempt", result.Attempt, result.State)
	}
	// Output:
	// attempt 2 retried
	// attempt 3 retried
	// attempt 4 failed
}

// A job that another program enqueued runs from the bytes of its queue.
func ExampleWorkPayload() {
	t := newT()
	defer t.end()

	d := goworker.New(goworker.WorkerSettings{})
	d.Register("Resize", func(path string, size struct{ W, H int }) error {
		fmt.Println(path, size.W, size.H)
		return nil
	})
	goworkertest.WorkPayload(t, d, "images", `{"class":"Resize","args":["a.png",{"w":80,"h":60}]}`).RequireDone(t)
	result := goworkertest.WorkPayload(t, d, "images", `{"class":"Resize","args":["a.png"]}`)
	var misfit *goworker.ArgumentError
	fmt.Println(result.State, errors.As(result.Err, &misfit))
	// Output:
	// a.png 80 60
	// failed true
}

// A drain runs jobs, and the jobs that they enqueue.
func ExampleRunner_Drain() {
	t := newT()
	defer t.end()

	d := goworker.New(goworker.WorkerSettings{})
	d.Register("SignUp", func(ctx context.Context, address string) error { return signUp(ctx, d.Client(), address) })
	SendEmail.Handle(d, goworker.NoResult(func(_ context.Context, mail Email) error {
		fmt.Println(mail.Subject)
		return nil
	}))

	r := goworkertest.New(t, d)
	if _, err := r.Client().Enqueue(t.Context(), goworker.NewJob("web", "SignUp", "ann@example.com")); err != nil {
		t.Fatal(err)
	}
	r.Drain()
	for _, job := range r.Delayed() {
		fmt.Println("in", job.At.Sub(r.Now()), "waits", job.Class)
	}
	r.Advance(72 * time.Hour)
	// Output:
	// Welcome
	// in 72h0m0s waits SendEmail
	// How do you like it?
}

// A day of retries takes milliseconds.
func ExampleRunner_Advance() {
	t := newT()
	defer t.end()

	d := goworker.New(goworker.WorkerSettings{})
	d.Register("Charge", func() error { return errors.New("the bank is closed") },
		goworker.Retry(2, goworker.Delays{time.Minute, 8 * time.Hour}))

	r := goworkertest.New(t, d, goworkertest.StartAt(time.Date(2026, 3, 2, 18, 0, 0, 0, time.UTC)))
	if _, err := r.Client().Enqueue(t.Context(), goworker.NewJob("bank", "Charge")); err != nil {
		t.Fatal(err)
	}
	for _, result := range r.Advance(24 * time.Hour) {
		fmt.Println(result.At.Format("Mon 15:04"), "attempt", result.Attempt, result.State)
	}
	fmt.Println(len(r.Failed()), "failure:", r.Failed()[0].Error)
	// Output:
	// Mon 18:00 attempt 1 retried
	// Mon 18:01 attempt 2 retried
	// Tue 02:01 attempt 3 failed
	// 1 failure: the bank is closed
}

// Recurring schedules fire as the clock moves.
func ExampleRunner_schedule() {
	t := newT()
	defer t.end()

	d := goworker.New(goworker.WorkerSettings{})
	d.Register("Sweep", func(tick time.Time) { fmt.Println("sweep of", tick.UTC().Format("Jan 2 15:04")) })
	if err := d.Schedule("sweep", goworker.Recurring{Cron: "0 3 * * * UTC", Class: "Sweep", Queue: "low", TickArg: true}); err != nil {
		t.Fatal(err)
	}

	r := goworkertest.New(t, d, goworkertest.StartAt(time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)))
	r.Advance(48 * time.Hour)
	// Output:
	// sweep of Mar 3 03:00
	// sweep of Mar 4 03:00
}

// Jobs that expire are dropped, as in production.
func ExampleRunner_AdvanceTo() {
	t := newT()
	defer t.end()

	meeting := time.Date(2026, 3, 2, 14, 0, 0, 0, time.UTC)
	d := goworker.New(goworker.WorkerSettings{})
	d.Register("Remind", func(of string) { fmt.Println("remember", of) })

	r := goworkertest.New(t, d, goworkertest.StartAt(meeting.Add(-2*time.Hour)))
	remind := goworker.NewJob("reminders", "Remind", "the meeting")
	if _, err := r.Client().Enqueue(t.Context(), remind, goworker.ExpiresAt(meeting)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Client().Enqueue(t.Context(), remind, goworker.ProcessAt(meeting.Add(time.Minute)), goworker.ExpiresAt(meeting)); err != nil {
		t.Fatal(err)
	}
	for _, result := range r.AdvanceTo(meeting.Add(time.Hour)) {
		fmt.Println(result.State)
	}
	// Output:
	// remember the meeting
	// done
	// expired
}
