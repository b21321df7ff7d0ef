package prefix

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestOf(t *testing.T) {
	t.Parallel()
	sentinel := New("it is not there")
	for _, tt := range []struct {
		err            error
		public, record string
	}{
		{errors.New("redis: nothing listens"), "goworker: nothing listens", "redis: nothing listens"},
		{errors.New("goworker: it is closed"), "goworker: it is closed", "goworker: it is closed"},
		{fmt.Errorf("shard a: %w", errors.New("goworker: it is closed")), "goworker: shard a: it is closed", "shard a: it is closed"},
		{fmt.Errorf("goworker: shard a: %w", sentinel), "goworker: shard a: it is not there", "goworker: shard a: it is not there"},
		{Errorf("shard a: %w", sentinel), "goworker: shard a: it is not there", "goworker: shard a: it is not there"},
		{sentinel, "goworker: it is not there", "it is not there"},
		{errors.Join(io.EOF, sentinel), "goworker: EOF\ngoworker: it is not there", "goworker: EOF\ngoworker: it is not there"},
	} {
		err := Of(tt.err)
		if err.Error() != tt.public || Of(err).Error() != tt.public {
			t.Errorf("%q becomes %q, and then %q", tt.err, err, Of(err))
		}
		if got := Record(err); got != tt.record {
			t.Errorf("the record of %q is %q", tt.err, got)
		}
	}
	if Of(nil) != nil {
		t.Error("no error becomes one")
	}
	if Of(sentinel) != sentinel {
		t.Error("an error that has the name is another error afterwards")
	}
	if err := Of(Of(errors.Join(io.EOF, Errorf("x: %w", sentinel)))); !errors.Is(err, io.EOF) || !errors.Is(err, sentinel) {
		t.Errorf("%v hides what it wraps", err)
	}
}
