package goworker

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

// A producer as docs/security.md has it can enqueue, and cannot read a job, take
// one, or touch anything else.
func TestProducerACL(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := regexp.MustCompile("`(~resque:queue[^`]*)`[^`]*`Enqueue` also `([^`]*)`").FindSubmatch(page)
	if rules == nil {
		t.Fatal("docs/security.md shows no producer")
	}
	s := redistest.Start(t)
	args := []any{"SETUSER", "producer", "on", ">pw"}
	for _, rule := range strings.Fields(string(rules[1]) + " " + string(rules[2])) {
		args = append(args, rule)
	}
	s.Do(t, "ACL", args...)
	d := New(WorkerSettings{URI: "redis://producer:pw@" + s.Addr, Logger: quiet})
	defer d.Close()
	if err := d.Enqueue(&Job{"q", Payload{"C", nil}}); err != nil {
		t.Fatal(err)
	}
	c, err := d.GetConn()
	if err != nil {
		t.Fatal(err)
	}
	defer d.PutConn(c)
	for _, command := range [][]any{{"LPOP", "resque:queue:q"}, {"LRANGE", "resque:queue:q", 0, -1}, {"DEL", "resque:queue:q"}, {"RPUSH", "resque:failed", "x"}, {"KEYS", "*"}, {"GET", "x"}} {
		if _, err := c.Do(command[0].(string), command[1:]...); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%v: %v", command, err)
		}
	}
}
