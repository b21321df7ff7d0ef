package logging

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
)

// TestOutageNamesItsCause: an outage is one line, and one more where its first error hides what only an operator can mend.
func TestOutageNamesItsCause(t *testing.T) {
	t.Parallel()
	wrong := fmt.Errorf("asking: %w", redis.Error("WRONGPASS invalid username-password pair"))
	loading := redis.Error("LOADING Redis is loading the dataset in memory")
	for _, tc := range []struct {
		name   string
		errors []error
		want   int
	}{
		{"a broken connection", []error{io.EOF, io.EOF, io.EOF}, 1},
		{"a restart", []error{io.EOF, loading, loading}, 1},
		{"another password", []error{io.EOF, wrong, wrong}, 2},
		{"another password from the start", []error{wrong, io.EOF, wrong}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			o := NewOutages(slog.New(slog.NewTextHandler(&log, nil)), clock.System)
			for range 2 { // the second outage is like the first
				log.Reset()
				for _, err := range tc.errors {
					o.Fail("poller", err)
				}
				text := log.String()
				o.OK("poller")
				if n := strings.Count(text, "unavailable"); n != tc.want || tc.want == 2 && !strings.Contains(text, "WRONGPASS") {
					t.Errorf("%d lines, not %d:\n%s", n, tc.want, text)
				}
			}
		})
	}
}
