package main

import (
	"path/filepath"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

func TestSheet(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{})
	register(d, t.TempDir())
	r := goworkertest.New(t, d)
	out := filepath.Join(t.TempDir(), "sheet.png")
	receipt, err := r.Client().Start(t.Context(), sheet(3, out))
	if err != nil {
		t.Fatal(err)
	}
	ran := r.Drain()
	for _, result := range ran {
		result.RequireDone(t)
	}
	if n := len(ran); n != 3*5+1 || ran[n-1].Class != "Sheet" {
		t.Fatalf("%d jobs ran: %v", n, ran)
	}
	if made, err := goworker.Await[string](t.Context(), r.Client(), receipt.ID); err != nil || made != out {
		t.Fatalf("the workflow made %q, %v", made, err)
	}
	picture, err := load(out)
	if err != nil {
		t.Fatal(err)
	}
	// A strip is as wide as the three widths, and as high as the largest picture.
	if size := picture.Bounds().Size(); size.X != 48+96+192 || size.Y != 3*128 {
		t.Errorf("the sheet has the size %v", size)
	}
}
