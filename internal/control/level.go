package control

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/resque/control"
)

// mostDebug is how long the log may be at another level.
const mostDebug = time.Hour

// usualDebug is how long it is without a word.
const usualDebug = 10 * time.Minute

var errLogger = errors.New("the program has its own logger, and only the program can change its level")

// log changes the level of the log for a while. A second change replaces the first, and the level before the first comes back.
func (m *Common) log(_ context.Context, c *Call) (any, error) {
	var args struct {
		Level string  `json:"level"`
		For   float64 `json:"for"`
	}
	if err := c.Decode(&args); err != nil {
		return nil, err
	}
	if m.level == nil {
		return nil, errLogger
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(args.Level)); err != nil || strings.ContainsAny(args.Level, "+-") {
		return nil, errors.New("the level must be debug, info, warn or error") // not error+100, which would silence the process
	}
	lasts := usualDebug
	if args.For != 0 {
		var err error
		if lasts, err = For(args.For, mostDebug); err != nil {
			return nil, err
		}
	}
	m.mu.Lock() // so that two changes at a time are one after the other
	defer m.mu.Unlock()
	was := m.level.Level()
	if err := c.Full(); level > m.lapse.Before(was) && err != nil { // else a program that only writes to Redis could silence the process
		return nil, err
	}
	m.level.Set(level)
	m.lapse.Changed(was, level, lasts, func(before, _ slog.Level) { m.level.Set(before) })
	return control.Level{Level: strings.ToLower(level.String()), Was: strings.ToLower(was.String()), For: lasts.Seconds()}, nil
}
