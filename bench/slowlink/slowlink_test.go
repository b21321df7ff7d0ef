package slowlink

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.Copy(conn, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func TestLinkDelaysAndLosesNothing(t *testing.T) {
	t.Parallel()
	const delay = 5 * time.Millisecond
	link, err := Start(echo(t), delay)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	conn, err := net.Dial("tcp", link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	sent := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	start := time.Now()
	go func() {
		conn.Write(sent)
		conn.(*net.TCPConn).CloseWrite()
	}()
	first := make([]byte, 1)
	if _, err := io.ReadFull(conn, first); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 2*delay {
		t.Errorf("the first byte was back after %s, before %s", took, 2*delay)
	}
	rest, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(append(first, rest...), sent) {
		t.Errorf("got %d bytes of %d back, or not the same: %v", 1+len(rest), len(sent), err)
	}
}

func TestCloseCutsConnections(t *testing.T) {
	t.Parallel()
	link, err := Start(echo(t), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	link.Close()
	if _, err := io.ReadAll(conn); err == nil {
		return
	} else if opErr, ok := err.(net.Error); ok && opErr.Timeout() {
		t.Error("the connection is still open")
	}
}
