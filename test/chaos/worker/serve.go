package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
)

// serve is an HTTP server until TERM. Its only argument is -uri.
func serve(address string) error {
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: strings.TrimPrefix(os.Args[1], "-uri="), LogLevel: "info"})
	if err != nil {
		return err
	}
	defer client.Close()
	api, err := httpapi.New(client, httpapi.Settings{Open: true})
	if err != nil {
		return err
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	server := httpapi.Server{API: api, Listen: address}
	return server.Run(stop)
}
