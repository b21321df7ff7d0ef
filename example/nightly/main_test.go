package main

import (
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

// classes are those of the jobs that ended well, in their order.
func classes(results []*goworkertest.Result) (names string) {
	for _, r := range results {
		names += r.Class + " " + string(r.State) + ", "
	}
	return names
}

func TestReport(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{})
	register(d, func(string) []int { return []int{1, 2} }, func(text string) { t.Error(text) })
	r := goworkertest.New(t, d)
	receipt, err := r.Client().Start(t.Context(), report("2026-03-01"))
	if err != nil {
		t.Fatal(err)
	}
	ran := classes(r.Advance(time.Minute))
	if want := "Read retried, Read done, Sum done, Write done, Send done, "; ran != want {
		t.Fatalf("ran %s, want %s", ran, want)
	}
	text, err := goworker.Await[string](t.Context(), r.Client(), receipt.ID)
	if err != nil || text != "2026-03-01: 2 sales, 3 in all" {
		t.Errorf("sent %q, %v", text, err)
	}
}

func TestReportWithoutSales(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{})
	alert := ""
	register(d, func(string) []int { return nil }, func(text string) { alert = text })
	r := goworkertest.New(t, d)
	if _, err := r.Client().Start(t.Context(), report("2026-02-30")); err != nil {
		t.Fatal(err)
	}
	ran := classes(r.Advance(time.Minute))
	if want := "Read retried, Read discarded, Alert done, "; ran != want {
		t.Errorf("ran %s, want %s", ran, want)
	}
	if want := "no report of 2026-02-30: Read: there are no sales"; alert != want {
		t.Errorf("the alert is %q, want %q", alert, want)
	}
}

func TestNight(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{})
	register(d, func(string) []int { return []int{1} }, func(text string) { t.Error(text) })
	if err := d.ScheduleWorkflow("nightly", "0 3 * * * UTC", yesterday); err != nil {
		t.Fatal(err)
	}
	r := goworkertest.New(t, d, goworkertest.StartAt(time.Date(2026, 3, 2, 2, 0, 0, 0, time.UTC)))
	r.Advance(2 * time.Hour)
	if sent := r.ResultsOf("Send"); len(sent) != 1 || sent[0].At.Hour() != 3 {
		t.Errorf("sent %v", sent)
	}
}
