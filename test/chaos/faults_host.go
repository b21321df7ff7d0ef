package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// clocks has Redis's clock jump by minutes and hours, both ways.
func clocks(opts options) result {
	return without(withClock(opts, "clock", func(a *arena, set func(by time.Duration)) {
		for range 3 {
			a.start()
		}
		a.produce(load{rate: 300, longest: 30})
		for _, by := range []time.Duration{10 * time.Minute, -10 * time.Minute, 0, -time.Hour, 2 * time.Hour, 0} {
			time.Sleep(a.between(2*time.Second, 3*time.Second))
			set(by)
			a.inject()
			a.healed()
		}
		a.noneReaped()
	}))
}

// withClock runs body with a Redis whose clock it sets: how far it is ahead.
func withClock(opts options, name string, body func(a *arena, set func(by time.Duration))) result {
	dir, err := os.MkdirTemp(opts.dir, "clock-")
	if err != nil {
		return skipped(err.Error())
	}
	defer os.RemoveAll(dir)
	library, wrong, program := filepath.Join(dir, "clock.so"), filepath.Join(dir, "wrong"), filepath.Join(dir, "redis-server")
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", library, "clock/clock.c").CombinedOutput(); err != nil {
		return skipped(fmt.Sprintf("the clock was not compiled: %v %s", err, out))
	}
	file, err := os.Create(wrong)
	if err != nil {
		return skipped(err.Error())
	}
	defer file.Close()
	set := func(by time.Duration) {
		_, _ = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(by/time.Second))), 0)
	}
	set(0)
	redis := cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server")
	text := fmt.Sprintf("#!/bin/sh\nexport LD_PRELOAD=%s CHAOS_CLOCK=%s\nexec %s \"$@\"\n", library, wrong, redis)
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		return skipped(err.Error())
	}
	return containOn(opts, name, program, nil, func(a *arena) { body(a, set) })
}

// diskFull fills the disk under the append-only file, and makes room again. Redis
// refuses writes meanwhile; with appendfsync always it would end itself.
func diskFull(opts options) result {
	disk, err := os.MkdirTemp(opts.dir, "disk-")
	if err != nil {
		return skipped(err.Error())
	}
	defer os.Remove(disk)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=8m", "chaos", disk).CombinedOutput(); err != nil {
		return skipped(fmt.Sprintf("no small file system could be mounted here: %s", out))
	}
	defer func() { _ = exec.Command("umount", "-l", disk).Run() }()
	args := []string{"--dir", disk, "--appendonly", "yes", "--appendfsync", "everysec"}
	return without(contain(opts, "disk-full", args, func(a *arena) {
		a.start()
		a.start()
		a.produce(load{rate: 300, longest: 10})
		ballast := filepath.Join(disk, "ballast")
		for range 2 {
			time.Sleep(time.Second)
			a.outage(func() {
				_ = exec.Command("dd", "if=/dev/zero", "of="+ballast, "bs=4k").Run()
				time.Sleep(4 * time.Second)
				_ = os.Remove(ballast)
				a.must("SET", "resque:connection_test_key", "ok")
			})
		}
		time.Sleep(time.Second)
	}))
}
