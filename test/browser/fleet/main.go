// Fleet is what the journeys of the browser walk through: a Redis of its own, two goworker processes with handlers that are quick, slow
// and broken, what Ruby's workers leave in Redis, leases over HTTP, and the dashboard. It prints where it is as one line of JSON, and ends when
// its standard input does.
//
// The controls are requests to another address: POST /push?queue=mail&class=SendMail&n=10, /work?n=5, /mend, /break, /rest, /follow,
// /redis/stop and /redis/start.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/httpapi"
)

// places is where everything is.
type places struct {
	Dashboard string `json:"dashboard"`
	Admin     string `json:"admin"`  // a token
	Viewer    string `json:"viewer"` // a token
	Control   string `json:"control"`
	Redis     string `json:"redis"`
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the address of the dashboard")
	flag.Parse()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := run(ctx, *listen); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen string) (err error) {
	dir, err := os.MkdirTemp("", "goworker-browser-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	redis := &redisServer{dir: dir}
	if err := redis.start(ctx); err != nil {
		return err
	}
	defer redis.stop()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("a key of thirty-two bytes or more"), 0o600); err != nil {
		return err
	}

	f := &fleet{redis: redis, key: key, rested: make(chan struct{}), followed: make(chan struct{})}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	failed := make(chan error, 8)
	begin := func(part func(ctx context.Context) error) {
		running.Go(func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				failed <- err
			}
		})
	}
	defer func() {
		stop()
		running.Wait()
	}()
	for _, d := range []*goworker.Daemon{f.daemon("web-1", "payments,mail,images,reports,imports,steps"), f.daemon("web-2", "mail,images,steps")} {
		defer d.Close()
		begin(d.Run)
		f.daemons = append(f.daemons, d)
	}
	if f.client, err = goworker.NewClient(goworker.WorkerSettings{URI: redis.uri(), LogLevel: "error"}); err != nil {
		return err
	}
	defer f.client.Close()
	api, err := httpapi.New(f.client, httpapi.Settings{Open: true, QuietAccess: true, Namespaces: map[string]httpapi.Namespace{"shop": {}}})
	if err != nil {
		return err
	}
	serve := func(address string, h http.Handler) (string, error) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return "", err
		}
		server := &http.Server{Handler: h}
		begin(func(ctx context.Context) error {
			context.AfterFunc(ctx, func() { _ = server.Close() })
			return server.Serve(l)
		})
		return "http://" + l.Addr().String(), nil
	}
	begin(api.Run)
	web, err := serve("127.0.0.1:0", api)
	if err != nil {
		return err
	}
	if err := f.seed(ctx, web); err != nil {
		return err
	}

	at := places{Admin: dashboard.NewToken(), Viewer: dashboard.NewToken(), Redis: redis.address()}
	gate, err := dashboard.NewTokenGate(at.Admin, dashboard.User{Name: "ann", Role: dashboard.Admin})
	if err != nil {
		return err
	}
	viewers, err := dashboard.BearerTokens(map[string]dashboard.User{at.Viewer: {Name: "bob", Role: dashboard.Viewer}})
	if err != nil {
		return err
	}
	pages, err := dashboard.New(f.client, dashboard.Options{
		Token: gate, User: viewers, Environment: "shop", Columns: []string{"meta.tenant"},
		Control: control.New(f.client, control.Face("dashboard"), control.KeyFile(key)),
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	defer pages.Shutdown(context.WithoutCancel(ctx))
	if at.Dashboard, err = serve(listen, pages); err != nil {
		return err
	}
	if at.Control, err = serve("127.0.0.1:0", f.controls()); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(at); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return errors.Join(errors.New("a part has ended"), err)
	}
}
