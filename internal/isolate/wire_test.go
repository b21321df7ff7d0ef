package isolate

import (
	"errors"
	"testing"

	"github.com/goworker/goworker/internal/failure"
)

// A cause comes out of the pipe as what handlers compare with.
func TestCauseOf(t *testing.T) {
	t.Parallel()
	for _, cause := range causes {
		if got := causeOf(cause.Error()); got != cause {
			t.Errorf("%v became %v", cause, got)
		}
	}
	if !errors.Is(causeOf(failure.ErrUnwanted.Error()), failure.ErrCancelled) {
		t.Error("the cause of a job that was cancelled by its id is not ErrCancelled")
	}
	if got := causeOf("another"); got.Error() != "another" {
		t.Error(got)
	}
}
