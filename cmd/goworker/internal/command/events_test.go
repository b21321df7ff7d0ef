package command

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/events"
	"github.com/goworker/goworker/internal/redistest"
)

// events prints what happens to jobs and processes until Ctrl-C, and no name in it moves the cursor.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lookup := func(name string) (string, bool) {
		uri, ok := map[string]string{"REDIS_URL": s.URI()}[name]
		return uri, ok
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := func(args ...string) (*output, chan int) {
		out, ended := new(output), make(chan int, 1)
		go func() { ended <- Run(ctx, args, lookup, out, &output{}) }()
		return out, ended
	}
	text, first := start("events", "--since=1m")
	lines, second := start("events", "--json", "--kind=failed", "--queue=ma*", "--class=Send*")

	d := goworker.New(goworker.WorkerSettings{URI: s.URI(), QueuesString: "mail,work", PollInterval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	defer d.Close()
	d.Register("SendEmail", func() error { return errors.New("dial tcp:\x1b[2J timeout") })
	running, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- d.Run(running) }()
	failed := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3} failed    mail      SendEmail  K3V9 \d+\.\d\ds  dial tcp:\\u001b\[2J timeout$`)
	redistest.Eventually(t, time.Minute, "a failure is printed", func() bool {
		s.Do(t, "RPUSH", "resque:queue:work", `{"class":"SendEmail","args":[]}`)
		s.Do(t, "RPUSH", "resque:queue:mail", `{"class":"SendEmail","args":[],"id":"K3V9"}`)
		time.Sleep(50 * time.Millisecond)
		return failed.MatchString(text.String()) && strings.Contains(lines.String(), `"id":"K3V9"`)
	})
	stop()
	<-stopped
	redistest.Eventually(t, time.Minute, "the process leaves", func() bool {
		return strings.Contains(text.String(), " offline ") && strings.Contains(text.String(), " online ")
	})
	cancel()
	for _, ended := range []chan int{first, second} {
		if code := <-ended; code != exitInterrupted {
			t.Errorf("it ends with %d", code)
		}
	}
	if out := lines.String(); strings.Contains(out, `"work"`) || strings.Contains(out, "online") || !strings.Contains(out, `"cursor":"`) {
		t.Errorf("events that the filter leaves out are printed too:\n%s", out)
	}
	if code, out, errs := on(t, s, 80, "events", "--kind=fialed"); code != exitUsage || out != "" || !strings.Contains(errs, `"fialed" is no kind of event; there are failed,`) {
		t.Errorf("%d %s %s", code, out, errs)
	}
	for _, blank := range []string{"--kind=", "--queue=", "--class= ", "--id=", "--queue=a,"} { // as of a variable of a shell that is empty
		if code, out, errs := on(t, s, 80, "events", blank); code != exitUsage || out != "" || errs == "" {
			t.Errorf("%s: %d %s %s", blank, code, out, errs)
		}
	}
}

// An event of which only the number is known has its queue and class, and how many packs are missing stands behind the process.
func TestEventsThatAreCounted(t *testing.T) {
	t.Parallel()
	o, at := new(operator), time.Date(2026, 11, 24, 12, 4, 31, 204e6, time.Local)
	for _, one := range []struct {
		event events.Event
		want  string
	}{
		{events.Event{Kind: events.Done, Queue: "mail", Class: "SendEmail", Count: 1842, P95: 4 * time.Millisecond}, "done      mail      ×1,842 SendEmail p95 4ms"},
		{events.Event{Kind: events.Started, Process: "web-1", Count: 12}, "started             ×12"},
		{events.Event{Kind: events.Missed, Process: "web-1", Count: 12, Text: "packs of events did not arrive"}, "missed    web-1  12 packs of events did not arrive"},
	} {
		one.event.At = at
		if got := o.eventLine(one.event); got != "12:04:31.204 "+one.want+"\n" {
			t.Errorf("%q, not %q", got, one.want)
		}
	}
}
