package control

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A verb of the program that panics or ends its goroutine answers with an error: its caller does not wait for nothing.
func TestVerbThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]func(){
		"the verb odd panicked: no":                           func() { panic("no") },
		"the verb odd ended its goroutine and did not return": runtime.Goexit,
	} {
		answered := make(chan error, 1)
		go func() {
			_, err := do(t.Context(), Verb{Name: "odd", Do: func(context.Context, *Call) (any, error) { f(); return nil, nil }}, nil)
			answered <- err
		}()
		select {
		case err := <-answered:
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("the answer is %v, want %q", err, want)
			}
		case <-time.After(time.Minute):
			t.Errorf("no answer, want %q", want)
		}
	}
}
