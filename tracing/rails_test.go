package tracing_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

var railsSnippet = regexp.MustCompile("(?s)```ruby\n(module TracedPush.*?)```")

// TestRails runs the lines that the page shows to Rails applications, and links a run to the span that they put into the payload.
func TestRails(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	snippet := railsSnippet.FindSubmatch(page)
	if snippet == nil {
		t.Fatal("the page has no snippet for Rails")
	}
	b := setup(t)
	b.Daemon.Register("SendEmail", func(string) {})
	ruby := exec.CommandContext(t.Context(), "ruby", "-I../test/docs/standin", "-rresque", "-e", `
		module OpenTelemetry
			def self.propagation = self
			def self.inject(carrier) = carrier.update("traceparent" => "`+request+`", "baggage" => "a=b")
		end
		`+string(snippet[1])+`
		class SendEmail
			@queue = :work
		end
		Resque.enqueue(SendEmail, "ada@example.com")`)
	ruby.Env = append(os.Environ(), "REDIS_URL="+b.Redis.URI())
	if out, err := ruby.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, want := b.Queue("work"), `{"class":"SendEmail","args":["ada@example.com"],"meta":{"traceparent":"`+request+`"}}`; len(got) != 1 || got[0] != want {
		t.Errorf("the queue has %q, want %s", got, want)
	}
	b.Start()
	b.linked(b.run("SendEmail", 1), "enqueued "+request[36:52])
}
