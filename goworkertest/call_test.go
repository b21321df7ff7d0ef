package goworkertest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

// charge is a function that code under test calls.
func charge(_ context.Context, customer string, cents int) (string, error) {
	if cents <= 0 {
		return "", errors.New("there is nothing to charge")
	}
	return fmt.Sprintf("%s paid %d", customer, cents), nil
}

// buy is code under test.
func buy(ctx context.Context, jobs *goworker.Client, customer string, cents any) error {
	_, err := goworker.Call(ctx, jobs, charge, customer, cents)
	return err
}

// A recording client takes calls. They are found by the job of the same call, and refused as in production.
func TestClientRecordsCalls(t *testing.T) {
	t.Parallel()
	jobs := goworkertest.NewClient(t, goworker.Function(charge, goworker.OnQueue("money"), goworker.Unique()))
	if err := buy(t.Context(), jobs.Client, "ann", 500); err != nil {
		t.Fatal(err)
	}
	if err := buy(t.Context(), jobs.Client, "ann", 500); !errors.Is(err, goworker.ErrDuplicate) {
		t.Errorf("the second: %v", err)
	}
	var wrong *goworker.ArgumentError
	if err := buy(t.Context(), jobs.Client, "ann", "500"); !errors.As(err, &wrong) || wrong.Index != 2 {
		t.Errorf("a text: %v", err)
	}
	like, err := jobs.FuncJob(charge, "ann", 500)
	if err != nil {
		t.Fatal(err)
	}
	goworkertest.RequireEnqueued(t, jobs, like)
	other, err := jobs.FuncJob(charge, "bob", 500)
	if err != nil {
		t.Fatal(err)
	}
	goworkertest.RequireNotEnqueued(t, jobs, other)
}

// One run of a function, and of a job that has an alias of it.
func TestWorkRunsFunctions(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{})
	d.RegisterFunc(charge, goworker.OnQueue("money"), goworker.As("Charge"), goworker.Alias("billing.Charge"))
	job, err := d.Client().FuncJob(charge, "ann", 500)
	if err != nil {
		t.Fatal(err)
	}
	if got := goworkertest.ValueOf[string](t, goworkertest.Work(t, d, job)); got != "ann paid 500" {
		t.Error(got)
	}
	result := goworkertest.Work(t, d, goworker.NewJob("money", "billing.Charge", "bob", 0))
	result.RequireFailed(t, nil)
	if result.Class != "Charge" {
		t.Errorf("%s", result)
	}
}

// A Runner runs calls, steps of functions, and jobs by an alias.
func TestRunnerRunsCalls(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{})
	d.RegisterFunc(charge, goworker.OnQueue("money"), goworker.As("Charge"), goworker.Alias("billing.Charge"))
	r := goworkertest.New(t, d)
	if err := buy(t.Context(), r.Client(), "ann", 500); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Client().Enqueue(t.Context(), goworker.NewJob("money", "billing.Charge", "bob", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Client().Start(t.Context(), goworker.Group(goworker.FuncStep(charge, "cid", 2), goworker.FuncStep(charge, "dot", 3))); err != nil {
		t.Fatal(err)
	}
	r.Drain()
	if all := r.ResultsOf("Charge"); len(all) != 4 {
		t.Errorf("%d results: %v", len(all), r.Results())
	}
	for _, result := range r.Results() {
		result.RequireDone(t)
	}
}

// What a call enqueues is compared with the job of the same call.
func ExampleNewClient_calls() {
	t := newT()
	defer t.end()

	jobs := goworkertest.NewClient(t, goworker.Function(charge, goworker.OnQueue("money")))
	if err := buy(t.Context(), jobs.Client, "ann", 500); err != nil {
		t.Fatal(err)
	}
	like, err := jobs.FuncJob(charge, "ann", 500)
	if err != nil {
		t.Fatal(err)
	}
	job := goworkertest.RequireEnqueued(t, jobs, like)
	fmt.Println(job.Queue, job.Class)
	// Output: money github.com/goworker/goworker/goworkertest_test.charge
}
