package main

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"time"
)

// monitor counts commands by their sender. Redis's own counters do not tell a
// client's command from one inside a script; MONITOR does. It slows the server,
// so nothing is timed while it listens.
type monitor struct {
	conn net.Conn
	done chan commandCount
}

type commandCount struct{ sent, inner int64 }

func (s *server) monitor() (*monitor, error) {
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte("*1\r\n$7\r\nMONITOR\r\n")); err != nil {
		conn.Close()
		return nil, err
	}
	lines := bufio.NewReaderSize(conn, 1<<20)
	if _, err := lines.ReadSlice('\n'); err != nil { // +OK
		conn.Close()
		return nil, err
	}
	m := &monitor{conn: conn, done: make(chan commandCount, 1)}
	go m.read(lines)
	return m, nil
}

// monitorEnd is a command of the runner's that closes the count: everything
// before it on the stream has been counted.
const monitorEnd = "bench-monitor-end"

func (m *monitor) read(lines *bufio.Reader) {
	var count commandCount
	defer func() { m.done <- count }()
	for {
		line, isPrefix, err := lines.ReadLine()
		if err != nil {
			return
		}
		switch classify(string(line[:min(len(line), 200)])) {
		case fromClient:
			count.sent++
		case fromScript:
			count.inner++
		case fromRunner:
			return
		}
		for isPrefix && err == nil { // the rest of a very long command
			_, isPrefix, err = lines.ReadLine()
		}
	}
}

type origin int

const (
	fromNobody origin = iota
	fromClient
	fromScript
	fromRunner
)

// classify reads a line such as
//
//	+1700000000.123456 [0 127.0.0.1:51234] "LPOP" "queue"
//	+1700000000.123456 [0 lua] "LPOP" "queue"
func classify(line string) origin {
	_, rest, ok := strings.Cut(line, " [")
	if !ok {
		return fromNobody
	}
	who, command, ok := strings.Cut(rest, "] ")
	switch {
	case !ok:
		return fromNobody
	case command == `"ECHO" "`+monitorEnd+`"`:
		return fromRunner
	case strings.HasSuffix(who, " lua"):
		return fromScript
	default:
		return fromClient
	}
}

// stopMonitor ends the count and returns it.
func (s *server) stopMonitor(m *monitor) (commandCount, error) {
	defer m.conn.Close()
	if _, err := s.conn.Do("ECHO", monitorEnd); err != nil {
		return commandCount{}, err
	}
	select {
	case count := <-m.done:
		return count, nil
	case <-time.After(30 * time.Second):
		return commandCount{}, errors.New("MONITOR fell more than 30 s behind")
	}
}
