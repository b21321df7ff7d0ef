package mistakes

import (
	"context"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// A key of the wrong type that is met at the start is named, with what to do: by the error if the daemon
// cannot work without that key, by the log if the others can go on.
func TestWrongTypeAtStart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		key  string
		ends bool
	}{
		{"workers", true},
		{"workers:heartbeat", true},
		{"go:processes", true},
		{"queue:work", false},
		{"queues", false},
	} {
		t.Run(tt.key, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
				if tt.key == "queues" {
					s.QueuesString = "*"
				}
			})
			b.Redis.Do(t, "SET", "resque:"+tt.key, "a text")
			if !tt.ends {
				b.Start()
				b.Eventually("the key is named", func() bool { return b.Log.Count("resque:"+tt.key) > 0 && b.Log.Count("rename or remove") > 0 })
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), daemontest.Soon)
			defer cancel()
			err := b.Daemon.Run(ctx)
			b.Daemon.Close()
			if err == nil || !strings.Contains(err.Error(), "the key resque:"+tt.key+" ") || !strings.Contains(err.Error(), "rename or remove it") {
				t.Errorf("Run returned %v, want the key and what to do", err)
			}
			for _, noise := range []string{"script:", "@user_script", "unregistering", "starting lease"} {
				if err != nil && strings.Contains(err.Error(), noise) {
					t.Errorf("Run returned %v, with %q", err, noise)
				}
			}
		})
	}
}

// A user who lacks a permission is given the rule and the page.
func TestMissingPermissionAtStart(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	s := redistest.Start(t)
	for _, tt := range []struct {
		rules string
		want  []string
	}{
		{"+@all -eval -evalsha", []string{"+eval +evalsha", "docs/redis.md"}},
		{"+@all -zadd", []string{"+zadd", "docs/redis.md"}},
		{"+@all -lpop", []string{"+lpop", "docs/redis.md"}},
		{"+@all -keys", []string{"~resque:*", "docs/redis.md"}},
	} {
		keys := "~resque:*"
		if strings.HasSuffix(tt.rules, "-keys") {
			keys = "~other:*"
		}
		rules := append([]string{"SETUSER", "limited", "reset", "on", ">secret", keys, "&*"}, strings.Fields(tt.rules)...)
		args := make([]any, len(rules))
		for i, r := range rules {
			args[i] = r
		}
		s.Do(t, "ACL", args...)
		d := goworker.New(goworker.WorkerSettings{URI: "redis://limited:secret@" + s.Addr, QueuesString: "work", Logger: daemontest.Quiet, AllowNoHandlers: true})
		ctx, cancel := context.WithTimeout(t.Context(), daemontest.Soon)
		err := d.Run(ctx)
		cancel()
		d.Close()
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("with %s Run returned %v, want %q", tt.rules, err, want)
			}
		}
	}
}
