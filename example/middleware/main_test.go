package main

import (
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

func TestReport(t *testing.T) {
	d := goworker.New(goworker.WorkerSettings{})
	register(d)
	result := goworkertest.Work(t, d, goworker.NewJob("reports", "Report", "2026-10"))
	if text := goworkertest.ValueOf[string](t, result); text != "2026-10 from archive" {
		t.Errorf("the report is %q; does the middleware pass the database?", text)
	}
	goworkertest.Work(t, d, goworker.NewJob("reports", "Report", "October")).RequireFailed(t, nil)
}
