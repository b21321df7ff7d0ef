package main

import (
	"context"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
)

// serve is an HTTP server until TERM. Its only argument is -uri. With CHAOS_REPLICAS=n a publish waits for n replicas.
func serve(address string) error {
	replicas, _ := strconv.Atoi(os.Getenv("CHAOS_REPLICAS"))
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: strings.TrimPrefix(os.Args[1], "-uri="), LogLevel: "info", WaitReplicas: replicas})
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
