package goworkertest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// tb stands for the *testing.T that an example does not have.
type tb struct {
	testing.TB
	ctx     context.Context
	cancel  context.CancelFunc
	cleanup []func()
}

// newT returns a stand-in for a test's t. Its end does what the end of a test does.
func newT() *tb {
	t := new(tb)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

func (t *tb) Helper()                           {}
func (t *tb) Context() context.Context          { return t.ctx }
func (t *tb) Cleanup(f func())                  { t.cleanup = append(t.cleanup, f) }
func (t *tb) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (t *tb) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (t *tb) end() {
	t.cancel()
	for _, f := range slices.Backward(t.cleanup) {
		f()
	}
}
