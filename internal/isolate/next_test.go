package isolate

import (
	"bytes"
	"reflect"
	"testing"
	"time"
)

// Whatever the next job has comes out of the pipe, except for what the child knows. A field that is added to Request must be in one of
// the two.
func TestNextJob(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"Daemon": true, "Memory": true, "Keep": true, "Config": true, "Said": true}
	timeout := 90 * time.Second
	full := Request{
		Queue: "low", Payload: []byte("{\"class\":\"A\",\"args\":[\"\xff\x00\"]}"), ID: "id", Attempt: 3, Retries: -1, Recovered: 2, Worker: "host:1-2:low",
		Process: "host:1:ab", Ticket: 1 << 60, ReservedAt: time.Now().Round(0), UseNumber: true, Timeout: &timeout, Last: true,
	}
	all := reflect.ValueOf(full)
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		if all.Field(i).IsZero() != known[name] {
			t.Errorf("this test gives no %s, or the child knows it", name)
			continue
		}
		var one Request
		reflect.ValueOf(&one).Elem().Field(i).Set(all.Field(i))
		for _, r := range []Request{one, full} {
			sent, err := (&command{Next: &r}).frame()
			if err != nil {
				t.Fatal(err)
			}
			data, err := next(bytes.NewReader(sent), maxRequest)
			if err != nil {
				t.Fatal(err)
			}
			var c command
			if err := c.parse(data); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got, want := reflect.ValueOf(*c.Next).Field(i), all.Field(i); name == "ReservedAt" && !got.Interface().(time.Time).Equal(full.ReservedAt) ||
				name != "ReservedAt" && !known[name] && !reflect.DeepEqual(got.Interface(), want.Interface()) {
				t.Errorf("%s came as %v, want %v", name, got, want)
			}
			if c.Cancel != "" || c.Stack || c.End {
				t.Errorf("a job came as %+v", c)
			}
		}
	}
}

// A message that was cut off, or says that it is longer, is an error and no job.
func FuzzNextJob(f *testing.F) {
	sent, err := (&command{Next: &Request{Queue: "low", Payload: []byte("{}"), Ticket: 7}}).frame()
	if err != nil {
		f.Fatal(err)
	}
	for n := range len(sent) - 4 {
		f.Add(sent[4 : 4+n])
	}
	f.Add([]byte{nextJob, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var c command
		if err := c.parse(data); err != nil || c.Next == nil {
			return
		}
		again, err := c.frame()
		if err != nil {
			t.Fatal(err)
		}
		var d command
		if err := d.parse(again[4:]); err != nil || !reflect.DeepEqual(c, d) && data[0] == nextJob {
			t.Errorf("%+v came back as %+v: %v", c, d, err)
		}
	})
}
