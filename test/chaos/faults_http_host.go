package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// httpConnections cuts the connections of servers, one at a time: no try is used up.
func httpConnections(opts options) result {
	return contain(opts, "http-connections", nil, func(a *arena) {
		w := a.wired()
		w.produce(4, opts.rate())
		for i := range opts.times(20, 200) {
			time.Sleep(a.between(0, 200*time.Millisecond))
			w.wires[i%2].cutOne(a.intn)
			a.inject()
		}
		w.finish(webLoss{whole: true})
	})
}

// cutOne closes one connection of the process.
func (w *wire) cutOne(intn func(int) int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) == 0 {
		return
	}
	n := intn(len(w.open))
	for c := range w.open {
		if n--; n < 0 {
			_ = c.Close()
			return
		}
	}
}

// httpFreeze stops one of two servers for longer than leases last, and has it go on.
func httpFreeze(opts options) result {
	return contain(opts, "http-freeze", durable, func(a *arena) {
		w := a.web()
		w.produce(4, opts.rate())
		for i := range opts.times(1, 8) {
			time.Sleep(a.between(500*time.Millisecond, time.Second))
			p := w.server(i % 2)
			p.signal(syscall.SIGSTOP)
			time.Sleep(webTTR + a.between(500*time.Millisecond, 2*time.Second))
			p.signal(syscall.SIGCONT)
			a.inject()
		}
		w.finish(webLoss{})
	})
}

// httpClocks has two servers whose clocks are an hour apart, and jobs with a delay and a TTL.
func httpClocks(opts options) result {
	if opts.short {
		return skipped("Go's standard library is compiled for this, which takes a minute")
	}
	program, err := opts.wrongClock()
	if err != nil {
		return skipped(err.Error())
	}
	return contain(opts, "http-clocks", durable, func(a *arena) {
		w := a.newWeb(2)
		w.program, w.query = program, "&delay_ms=300&ttl_ms=60000"
		w.setting = func(i int) string { return fmt.Sprint("CHAOS_AHEAD=", 1800-3600*i) }
		w.open()
		w.produce(4, opts.rate())
		w.killSome(20)
		w.finish(webLoss{})
	})
}

// wrongClock builds a worker whose clock is ahead by as many seconds as CHAOS_AHEAD says: its time.Now is another one.
func (o options) wrongClock() (program string, err error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	file := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	const call = "sec, nsec, mono := runtimeNow()\n"
	changed := strings.ReplaceAll(string(text), call, call+"\tsec += ahead\n")
	if changed == string(text) {
		return "", fmt.Errorf("time.Now of this Go is another one than was expected; change wrongClock")
	}
	changed += "\nvar ahead = func() int64 {\n\ttext, _ := syscall.Getenv(\"CHAOS_AHEAD\")\n\tn, _ := atoi(text)\n\treturn int64(n)\n}()\n"
	changed = strings.Replace(changed, "import (\n", "import (\n\t\"syscall\"\n", 1)
	copied, overlay := filepath.Join(o.dir, "time.go.txt"), filepath.Join(o.dir, "overlay.json")
	program = filepath.Join(o.dir, "wrong-clock")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{file: copied}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(copied, []byte(changed), 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", program, "./worker").CombinedOutput(); err != nil {
		return "", fmt.Errorf("the worker with another clock was not built: %w\n%s", err, out)
	}
	return program, nil
}

// httpClock has Redis's clock jump by an hour, both ways. No lease ends at once: what a consumer has it keeps for its time.
func httpClock(opts options) result {
	return withClock(opts, "http-clock", func(a *arena, set func(time.Duration)) {
		w := a.web()
		w.produce(4, opts.rate())
		for _, by := range []time.Duration{time.Hour, 0, -time.Hour, 2 * time.Hour}[:opts.times(1, 4)] {
			time.Sleep(2 * time.Second) // both servers have compared the clocks
			set(by)
			a.inject()
			time.Sleep(2 * webTTR)
		}
		w.finish(webLoss{clock: true})
	})
}
