package profile_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/control/profile"
	"github.com/goworker/goworker/embedded"
)

// A program adds the verb, and an operator takes a profile of what its memory holds.
func Example() {
	dir, err := os.MkdirTemp("", "profile")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	key := filepath.Join(dir, "control.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	d := goworker.New(goworker.WorkerSettings{
		URI: "embedded:", QueuesString: "media", Control: goworker.ControlFull, ControlKeyFile: key,
		AllowNoHandlers: true, Logger: slog.New(slog.DiscardHandler), DisableSignals: true,
	})
	d.RegisterDialer("embedded", embedded.Open)
	defer d.Close()
	d.AddVerb(profile.Verb()) // the one line that a program needs

	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	ready, ended := make(chan struct{}), make(chan error, 1)
	d.OnReady(func() { close(ready) })
	go func() { ended <- d.Run(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		fmt.Println(err)
	}

	c := control.New(d, control.KeyFile(key))
	args := control.Args(map[string]string{"kind": "heap"})
	for reply, err := range c.Do(ctx, control.Profile, control.To("*"), args, control.Timeout(time.Minute)) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		var p control.ProfileAnswer
		if err := reply.Decode(&p); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(p.Kind, len(p.Profile) > 0) // write p.Profile to a file, and read it with go tool pprof
	}
	stop()
	<-ended
	// Output: heap true
}
