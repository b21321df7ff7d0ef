package isolate

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
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

// The answers that are written without an encoder are those that it would write, and come out of the pipe as they were.
func TestFrequentAnswers(t *testing.T) {
	t.Parallel()
	for _, a := range []answer{
		{Ready: true}, {Outcome: new(childOutcome)}, {Outcome: new(childOutcome), Kept: true},
		{Outcome: &childOutcome{Result: json.RawMessage("1")}, Kept: true}, {Outcome: &childOutcome{Err: &Error{Text: "no"}}}, {Said: json.RawMessage("{}")}, {Memory: 7},
	} {
		want, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		sent, err := a.frame()
		if err != nil {
			t.Fatal(err)
		}
		got, err := next(bytes.NewReader(sent), maxAnswer)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("sent is %s, want %s: %v", got, want, err)
		}
		var back answer
		if err := back.parse(got); err != nil || !reflect.DeepEqual(back, a) {
			t.Errorf("%s comes back as %+v: %v", got, back, err)
		}
	}
}
