package main

import (
	"context"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/delayedbridge"
	"github.com/goworker/goworker/internal/redistest"
)

func TestSend(t *testing.T) {
	s := redistest.Start(t)
	goworker.SetSettings(goworker.WorkerSettings{URI: s.URI(), Queues: []string{goworker.MessagePack("mail")}, LogLevel: "error"})
	d := goworker.Default()
	defer d.Close()
	d.RegisterFunc(Send, goworker.As("main.Send"))
	d.AddPart(delayedbridge.Part(d, delayedbridge.Queue{Name: "mail"}))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	if err := delayedbridge.Enqueue(t.Context(), d.Client(), "mail", delayedbridge.GoTask("main.Send", "ann@example.com", 3)); err != nil {
		t.Error(err)
	}
	redistest.Eventually(t, time.Minute, "Python has its task", func() bool { return s.Int(t, "LLEN", "reports_noti") == 1 })
	if got, want := s.Text(t, "LPOP", "reports"), "\x93\xadapp.mail:sent\x91\xafann@example.com\x81\xa5pages\x03"; got != want {
		t.Errorf("Python's task is %q, want %q", got, want)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
