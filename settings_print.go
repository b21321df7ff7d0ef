package goworker

import (
	"fmt"
	"log/slog"

	"github.com/goworker/goworker/internal/conn"
)

// Format prints the settings as fmt prints any struct, but for the password in
// URI. Encoding them otherwise, as JSON for instance, does not hide it.
func (s WorkerSettings) Format(state fmt.State, verb rune) {
	type settings WorkerSettings // without this method
	s.URI = conn.RedactURI(s.URI)
	_, _ = fmt.Fprintf(state, fmt.FormatString(state, verb), settings(s))
}

// LogValue is how slog logs the settings: printed, without the password in URI.
func (s WorkerSettings) LogValue() slog.Value {
	return slog.StringValue(fmt.Sprintf("%+v", s))
}
