package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Rewriting starts a proxy for the server that changes what the server says: each bulk string of a reply is what rewrite
// makes of it. So a test sees a server of another version, or with replicas that it has not. It returns the proxy's
// address. The test's end stops it.
func (s *Server) Rewriting(t testing.TB, rewrite func(text string) string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: a proxy cannot listen: %v", err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open, ended := make(map[net.Conn]bool), false
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", s.Addr)
			mu.Lock()
			if err != nil || ended {
				_ = c.Close()
				mu.Unlock()
				continue
			}
			open[c], open[to] = true, true
			mu.Unlock()
			end := func() { _ = c.Close(); _ = to.Close() }
			wg.Go(func() { defer end(); _, _ = io.Copy(to, c) })
			wg.Go(func() { defer end(); _ = rewriteReplies(c, to, rewrite) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		ended = true
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// rewriteReplies passes replies on. An array is its length and its elements, each of which is passed by itself.
func rewriteReplies(to io.Writer, from io.Reader, rewrite func(string) string) error {
	r, out := bufio.NewReader(from), new(bytes.Buffer)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
		if line[0] != '$' || err != nil || n < 0 {
			out.Write(line)
		} else {
			text := make([]byte, n+2)
			if _, err := io.ReadFull(r, text); err != nil {
				return err
			}
			new := rewrite(string(text[:n]))
			fmt.Fprintf(out, "$%d\r\n%s\r\n", len(new), new)
		}
		if r.Buffered() == 0 {
			if _, err := out.WriteTo(to); err != nil {
				return err
			}
		}
	}
}
