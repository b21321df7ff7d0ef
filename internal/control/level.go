package control

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/resque/control"
)

// MostDebug is how long the log may be at another level.
const MostDebug = time.Hour

// UsualDebug is how long it is without a word.
const UsualDebug = 10 * time.Minute

var errLogger = errors.New("the program has its own logger, and only the program can change its level")

// ParseLogLevel returns the level of the log of a word.
func ParseLogLevel(word string) (level slog.Level, err error) {
	if level.UnmarshalText([]byte(word)) != nil || strings.ContainsAny(word, "+-") { // as error+100, which would silence the process
		return level, errors.New("the level must be debug, info, warn or error")
	}
	return level, nil
}

// SetLevel changes the level of the log for good, and ends a change for a while.
func (m *Common) SetLevel(level slog.Level) error {
	if m.level == nil {
		return errLogger
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lapse.Stop()
	m.level.Set(level)
	return nil
}

// log changes the level of the log for a while. A second change replaces the first. Then the level before the first one returns.
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
	level, err := ParseLogLevel(args.Level)
	if err != nil {
		return nil, err
	}
	lasts := UsualDebug
	if args.For != 0 {
		if lasts, err = For(args.For, MostDebug); err != nil {
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
