package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// Jobs that lie on several Redises are run once each, and each side's processor time is counted.
func TestOverShards(t *testing.T) {
	b := &bench{ctx: context.Background(), dir: t.TempDir(), started: time.Now()}
	var err error
	if b.opts, err = parseOptions([]string{"-quick"}); err != nil {
		t.Fatal(err)
	}
	t.Chdir("..")
	c := contenderNamed("ours")
	if err := c.build(b.ctx, b.dir); err != nil {
		t.Fatal(err)
	}
	c.variant = "shards"
	f, err := b.overShards(c, 2, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, figure := range []string{"worker_cpu_us_per_job", "redis_cpu_us_per_job", "commands_per_job", "bytes_per_job"} {
		if f[figure] <= 0 {
			t.Errorf("%s is %v", figure, f[figure])
		}
	}
}

// A run of all parts measures shards, and -only=shards nothing else.
func TestShardsArePart(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{"": true, "-only=shards": true, "-only=noop": false} {
		opts, err := parseOptions(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(opts.groups, shards); got != want {
			t.Errorf("parseOptions(%q) measures shards: %v, want %v", args, got, want)
		}
	}
}
