package mask

import (
	"strings"
	"testing"
)

// Of a job that was cut off anywhere, no masked value shows, and what shows is whole.
func TestCut(t *testing.T) {
	t.Parallel()
	m := New(Rules{Args: map[string][]string{"ChargeCard": {"0.number"}, "Mailer": {"0"}}})
	for _, job := range []string{
		`{"class":"ChargeCard","args":[{"number":"hidden-1","note":"seen","more":[1,2,{"a":"b\"c"}]},"x"],"queue":"q"}`,
		`{"args":[{"number":"hidden-1","note":"seen"}],"class":"ChargeCard","queue":"q"}`,
		`{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"arguments":["hidden-1"],"job_class":"Mailer"}],"x":[1]}`,
		`{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"Mailer","arguments":["hidden-1"]}],"x":[1]}`,
	} {
		record := `{"failed_at":"now","error":"hidden-1 failed","payload":` + job + `,"exception":"E","backtrace":["at hidden-1","b"]}`
		for failure, text := range map[bool]string{false: job, true: record} {
			shown := 0
			for at := range len(text) {
				got, ok := m.Cut([]byte(text[:at]), failure, 2000)
				if strings.Contains(got, "hidden") {
					t.Fatalf("%s\nshows %s", text[:at], got)
				}
				if ok {
					shown++
				}
				if ok != strings.HasSuffix(got, "…") {
					t.Errorf("%q, %v", got, ok)
				}
			}
			if shown == 0 {
				t.Errorf("nothing of %s shows", text)
			}
		}
	}
	if got, ok := m.Cut([]byte(`{"class":"Plain","args":["a","b`), false, 100); got != `{"class":"Plain","args":["a"]}…` || !ok {
		t.Errorf("%q, %v", got, ok)
	}
	for _, text := range []string{"", "plain text", "[1,2", `"x`, "\x81\xa5class"} {
		if got, ok := m.Cut([]byte(text), false, 100); ok {
			t.Errorf("%q shows %q", text, got)
		}
	}
	if got, ok := New(Rules{Level: Show}).Cut([]byte(`{"a":"b`), false, 100); got != `{"a":"b…` || !ok {
		t.Errorf("%q, %v", got, ok)
	}
}
