package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
)

// statusWithin bounds the command that shows the status.
const statusWithin = 30 * time.Second

// open opens the embedded Redis, and keeps its address for other programs.
func (d *demo) open(ctx context.Context, uri string, opts goworker.DialOptions) (goworker.Dialer, error) {
	opened, err := embedded.Open(ctx, uri, opts)
	if server, ok := opened.(*embedded.Server); ok {
		d.uri = "redis://" + server.Addr() + "/"
	}
	return opened, err
}

// status runs goworker status, as a program of its own, on the demo's Redis while the worker is there, and returns what to print. An
// embedded Redis ends with the demo, so an operator could not look at it afterwards.
func (d *demo) status(ctx context.Context) string {
	if d.command == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	status := exec.CommandContext(ctx, d.command, "status", "--namespace", d.Namespace())
	status.Env = append(os.Environ(), "REDIS_URL="+d.uri)
	out, err := status.CombinedOutput()
	text := "\n$ goworker status\n" + strings.TrimRight(string(out), "\n") + "\n"
	if err != nil {
		text += fmt.Sprintln("goworker status:", err)
	}
	return text + "\n"
}
