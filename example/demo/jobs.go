package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker"
)

// shop is the program whose jobs these are.
type shop struct {
	bankUp atomic.Bool // whether South Bank can be reached
}

// register registers all classes but Audit: a producer enqueues that one although
// no worker knows it yet.
func (s *shop) register(d *goworker.Daemon) {
	d.Register("Ping", ping)
	d.Register("SendMail", sendMail)
	d.Register("Thumbnail", thumbnail, goworker.Timeout(time.Minute))
	d.Register("ChargeCard", s.chargeCard)
	d.Register("ImportRow", importRow)
}

// repair removes two of the reasons why jobs failed: the bank is up again, and
// the program that knows Audit is deployed.
func (s *shop) repair(d *goworker.Daemon) {
	s.bankUp.Store(true)
	d.Register("Audit", func(event string, user int64) error { return nil })
}

// ping does nothing, in the form goworker has always had.
func ping(queue string, args ...interface{}) error { return nil }

// Mail is an argument: a Hash in Ruby, an array in PHP, an object in Node.
type Mail struct {
	Subject string   `json:"subject"`
	Body    string   `json:"body"`
	CC      []string `json:"cc"`
}

// sendMail takes typed arguments and waits, as for a mail server.
func sendMail(ctx context.Context, to string, mail Mail) error {
	if !strings.Contains(to, "@") {
		return fmt.Errorf("%q is no mail address", to)
	}
	return pause(ctx, time.Millisecond, 3*time.Millisecond)
}

// Picture is a file and the size to make of it.
type Picture struct {
	File   string `json:"file"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// thumbnail is slow, and returns a result.
func thumbnail(ctx context.Context, p Picture) (string, error) {
	if err := pause(ctx, 15*time.Millisecond, 45*time.Millisecond); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s.%dx%d", p.File, p.Width, p.Height), nil
}

var errBankDown = errors.New("no answer from South Bank")

// chargeCard fails for one of the banks until that is up again.
func (s *shop) chargeCard(ctx context.Context, bank string, cents int64) error {
	if bank == "South Bank" && !s.bankUp.Load() {
		return errBankDown
	}
	return pause(ctx, time.Millisecond, 2*time.Millisecond)
}

// importRow has a bug: it panics when a row is too short.
func importRow(row string) error {
	fields := strings.Split(row, ";")
	_, err := strconv.Atoi(fields[2])
	return err
}

// pause waits for some time between the two, or until the job must stop.
func pause(ctx context.Context, least, most time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(least + rand.N(most-least)):
		return nil
	}
}
