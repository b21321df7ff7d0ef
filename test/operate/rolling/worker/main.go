// Command worker is the program that the test of a rolled fleet deploys. It takes what example/worker takes, and answers probes and
// shows its metrics on the socket that $LISTEN names.
//
// Each of its jobs writes down its id, with the version of the program and the mark of its configuration file.
package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/config"
	"github.com/goworker/goworker/health"
	"github.com/goworker/goworker/metrics"
)

// version is set by the linker.
var version = "none"

// book is the section of the configuration file that is the program's own.
type book struct {
	Mark string
	Fail bool // whether jobs fail
}

func main() {
	log.SetPrefix(os.Getenv("INSTANCE") + " ")
	d := goworker.Default()
	var section config.Value[book]
	config.Section("book", &section)
	do := func(command string, args ...any) error {
		c, err := d.GetConn()
		if err != nil {
			return err
		}
		defer d.PutConn(c)
		_, err = c.Do(command, args...)
		return err
	}
	note := func(id string) error {
		now := section.Get()
		if now.Fail {
			return errors.New("the configuration says so")
		}
		return do("RPUSH", "book", id+" "+version+" "+now.Mark)
	}
	d.Register("Note", note)
	// It does not end sooner because the process is to stop: that is what the time of a stop is for.
	d.Register("Long", func(id string, ms int) error {
		if err := do("HINCRBY", "long", os.Getpid(), 1); err != nil {
			return err
		}
		time.Sleep(time.Duration(ms) * time.Millisecond)
		return errors.Join(do("HINCRBY", "long", os.Getpid(), -1), note(id))
	})
	if err := goworker.Init(); err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", health.Handler(d))
	mux.Handle("/metrics", metrics.Handler(d))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	d.AddPart(goworker.Part{
		Name: "http",
		Start: func(ctx context.Context) error {
			_ = os.Remove(os.Getenv("LISTEN")) // a process that was killed leaves it
			l, err := new(net.ListenConfig).Listen(ctx, "unix", os.Getenv("LISTEN"))
			if err != nil {
				return err
			}
			go func() { log.Print("the server has ended: ", server.Serve(l)) }()
			return nil
		},
		Stop: func(context.Context) error { return server.Close() },
	})
	if err := goworker.Work(); err != nil {
		log.Fatal(err)
	}
}
