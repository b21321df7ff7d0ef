package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
	delayedjobs "github.com/goworker/goworker/internal/resque/delayed"
	"github.com/goworker/goworker/internal/resque/delayedwire"
	"github.com/goworker/goworker/internal/resque/failures"
	"github.com/goworker/goworker/internal/resque/groups"
	"github.com/goworker/goworker/internal/resque/history"
	"github.com/goworker/goworker/internal/resque/leases"
	"github.com/goworker/goworker/internal/resque/operations"
	"github.com/goworker/goworker/internal/resque/webhook"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// phase is how far a call gets before its trap springs.
type phase int

const (
	beforeRequest phase = iota // Redis has not heard of it
	beforeReply                // it ran, and nothing of the reply is delivered
	midReply                   // half of the reply is
	afterReply                 // all of it is
	late                       // Redis hears of it when deliver is called, and the process never of the reply
)

var phases = []string{"before the request", "before the reply", "in the middle of the reply", "after the reply"}

// trap waits for the n-th call of a script. At its phase it does what spring does (it
// may kill the caller) and breaks the connection.
type trap struct {
	script string
	nth    int
	at     phase
	spring func()
	sprung chan struct{}
	caught bool // by a call that is on its way, or that sprang it; under the wire's lock

	request []byte // of a late call, and what was sent with it; valid after sprung
}

// deliver has Redis hear a late call, and returns what it answered first.
func (t *trap) deliver(a *arena) string {
	c, err := net.Dial("tcp", a.redis.Addr)
	if err != nil {
		a.Fatalf("%v", err)
	}
	defer c.Close()
	// What Redis has not read when the connection ends is lost: the PING's answer shows that it has.
	if _, err := c.Write(append(bytes.Clone(t.request), "PING end-of-late-call\r\n"...)); err != nil {
		a.Fatalf("%v", err)
	}
	r := bufio.NewReader(c)
	var first string
	for {
		raw, err := readValue(r, nil)
		if err != nil {
			a.Fatalf("a late call was not answered: %v", err)
		}
		if first == "" {
			first = strings.Join(strings.Fields(string(raw[:min(len(raw), 40)])), " ")
		}
		if bytes.Contains(raw, []byte("end-of-late-call")) {
			return first
		}
	}
}

func (t *trap) fire() {
	t.spring()
	close(t.sprung)
}

// wire is a proxy between one process and Redis that knows the protocol and tells the
// product's scripts apart.
type wire struct {
	listener net.Listener

	mu       sync.Mutex
	upstream string
	names    map[string]string // of scripts, by hash, by text and by first line
	calls    map[string]int
	traps    []*trap
	open     map[net.Conn]bool // nil while the process is cut off
}

// wire starts a proxy in front of the arena's Redis.
func (a *arena) wire() *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		a.Fatalf("%v", err)
	}
	w := &wire{listener: l, upstream: a.redis.Addr, names: a.loadScripts(), calls: map[string]int{}, open: map[net.Conn]bool{}}
	a.proxies = append(a.proxies, func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.serve(c)
		}
	}()
	return w
}

// loadScripts has Redis load the product's scripts, so that each call is one command, and
// returns their names by hash and by text.
func (a *arena) loadScripts() map[string]string {
	names := map[string]string{}
	for name, text := range a.scripts() {
		hash, err := redis.String(a.ask("SCRIPT", "LOAD", text))
		if err != nil {
			a.Fatalf("%s: %v", name, err)
		}
		name = countedAs(name)
		first, _, _ := strings.Cut(text, "\n")
		names[hash], names[text] = name, name
		if name != "delay" && name != "lock" && name != "replace" {
			names[first] = name
		}
	}
	return names
}

// countedAs is the name by which the calls of a script are counted: with verbs it is the same script, and the short way does the same.
func countedAs(name string) string {
	name, _, _ = strings.Cut(name, "+")
	switch name {
	case "brief", "briefqueues":
		return "exchange"
	case "takeown":
		return "take"
	}
	return name
}

// scripts are the product's, by name. The push of jobs that a verb puts into their places goes by its verb.
func (a *arena) scripts() map[string]string {
	scripts := resque.Scripts()
	maps.Copy(scripts, failures.Scripts())
	maps.Copy(scripts, delayedjobs.Scripts())
	for name, text := range leases.Scripts() {
		scripts["lease-"+name] = text
	}
	for name, text := range workflows.Scripts() {
		scripts["workflow-"+name] = text
	}
	for name, text := range history.Scripts() {
		scripts["history-"+name] = text
	}
	for name, text := range groups.Scripts() {
		scripts["groups-"+name] = text
	}
	for name, text := range operations.Scripts() {
		scripts["operation-"+name] = text
	}
	for name, text := range control.Scripts() {
		scripts["control-"+name] = text
	}
	for name, text := range webhook.Scripts() {
		scripts["webhook-"+name] = text
	}
	for name, text := range delayedwire.Scripts() {
		scripts["delayed-"+name] = text
	}
	for name, text := range scripts { // an exchange that commits ends with effects is a boundary as commit.lua is
		if name == "ends" || strings.HasPrefix(name, "ends+") {
			scripts["commit+"+name] = text
			delete(scripts, name)
		}
	}
	for _, verb := range []string{"delay", "lock", "replace"} {
		scripts[verb] = scripts["push+"+verb]
		delete(scripts, "push+"+verb)
	}
	return scripts
}

func (w *wire) uri() string { return "-uri=redis://" + w.listener.Addr().String() }

// set lays a trap; calls count from here on.
func (w *wire) set(script string, nth int, at phase, spring func()) *trap {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &trap{script: script, nth: w.calls[script] + nth, at: at, spring: spring, sprung: make(chan struct{})}
	w.traps = append(w.traps, t)
	return t
}

// caught counts a call and returns the trap it walks into, if any.
func (w *wire) caught(script string) *trap {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[script]++
	for _, t := range w.traps {
		if t.script == script && t.nth <= w.calls[script] && !t.caught {
			t.caught = true
			return t
		}
	}
	return nil
}

// release lays a trap again whose call was lost with its connection, before the trap sprang.
func (w *wire) release(t *trap) {
	select {
	case <-t.sprung:
	default:
		w.mu.Lock()
		defer w.mu.Unlock()
		t.caught = false
	}
}

// called is how often a script was called.
func (w *wire) called(script string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[script]
}

// cut closes all connections of the process, and each new one until mend is called.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		_ = c.Close()
	}
	w.open = nil
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = map[net.Conn]bool{}
}

// redirect has all connections from now on reach another server.
func (w *wire) redirect(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.upstream = address
}

func (w *wire) server() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.upstream
}

// enter notes a connection, or reports that none is to be had.
func (w *wire) enter(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open != nil {
		w.open[c] = true
	}
	return w.open != nil
}

func (w *wire) left(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, c)
}

func (w *wire) serve(client net.Conn) {
	defer client.Close()
	if !w.enter(client) {
		return
	}
	defer w.left(client)
	server, err := net.Dial("tcp", w.server())
	if err != nil {
		return
	}
	waiting := make(chan call, 10_000) // for their replies
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		defer client.Close()
		defer server.Close()
		w.replies(client, server, waiting)
	}()
	var caught []*trap
	defer func() {
		_ = server.Close()
		<-answered
		for _, t := range caught {
			w.release(t)
		}
	}()
	r := bufio.NewReader(client)
	for {
		raw, err := readValue(r, nil)
		if err != nil {
			return
		}
		c := call{script: w.script(raw)}
		if c.script != "" {
			if c.trap = w.caught(c.script); c.trap != nil {
				caught = append(caught, c.trap)
			}
		}
		if c.trap != nil && c.trap.at == late {
			for err == nil && r.Buffered() > 0 {
				raw, err = readValue(r, raw)
			}
			c.trap.request = raw
			c.trap.fire()
			return
		}
		if c.trap != nil && c.trap.at == beforeRequest {
			c.trap.fire()
			return
		}
		waiting <- c
		if _, err := server.Write(raw); err != nil {
			return
		}
	}
}

// call is a command on its way.
type call struct {
	script string // "" where it is no script
	trap   *trap
}

func (w *wire) replies(client, server net.Conn, waiting chan call) {
	r := bufio.NewReader(server)
	for {
		raw, err := readValue(r, nil)
		if err != nil {
			return
		}
		var c call
		select {
		case c = <-waiting:
		default: // a message of a subscription
		}
		if c.trap != nil {
			part := map[phase]int{midReply: len(raw) / 2, afterReply: len(raw)}[c.trap.at]
			_, _ = client.Write(raw[:part])
			c.trap.fire()
			return
		}
		if _, err := client.Write(raw); err != nil {
			return
		}
	}
}

// script names the script that a command calls, "" where it calls another script or none.
func (w *wire) script(raw []byte) string {
	words := bulks(raw, 2)
	if len(words) < 2 {
		return ""
	}
	text := string(words[1])
	switch command := string(words[0]); {
	case strings.EqualFold(command, "EVALSHA"):
	case strings.EqualFold(command, "EVAL"):
		w.learn(text)
	default:
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.names[text]
}

// learn names a script that was joined with several verbs by its first line.
func (w *wire) learn(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, _, _ := strings.Cut(text, "\n")
	if name := w.names[first]; name != "" && w.names[text] == "" {
		w.names[text], w.names[redis.NewScript(-1, text).Hash()] = name, name
	}
}

// bulks returns the first n strings of a command.
func bulks(raw []byte, n int) (words [][]byte) {
	_, rest, _ := bytes.Cut(raw, []byte("\r\n"))
	for len(words) < n && len(rest) > 0 && rest[0] == '$' {
		head, body, _ := bytes.Cut(rest[1:], []byte("\r\n"))
		size, err := strconv.Atoi(string(head))
		if err != nil || size < 0 || size+2 > len(body) {
			break
		}
		words = append(words, body[:size])
		rest = body[size+2:]
	}
	return words
}

// readValue appends one value of the protocol, a command or a reply, as it stands.
func readValue(r *bufio.Reader, raw []byte) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	raw = append(raw, line...)
	if err != nil {
		return raw, err
	}
	if len(line) < 3 {
		return raw, fmt.Errorf("this is not Redis's protocol: %q", line)
	}
	n, _ := strconv.Atoi(string(line[1 : len(line)-2]))
	switch line[0] {
	case '$':
		if n >= 0 {
			at := len(raw)
			raw = append(raw, make([]byte, n+2)...)
			_, err = io.ReadFull(r, raw[at:])
		}
	case '*':
		for ; n > 0 && err == nil; n-- {
			raw, err = readValue(r, raw)
		}
	}
	return raw, err
}
