package recurring

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// What Ruby reads, and what is read back.
func TestRecurringJSON(t *testing.T) {
	t.Parallel()
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]Recurring{
		`{"class":"Echo","cron":"0 3 * * *","queue":"low","args":["a"],"description":"d"}`: {Class: "Echo", Cron: "0 3 * * *", Queue: "low", Args: []any{"a"}, Description: "d"},
		`{"every":["90s",{"first_in":"1.500s"}],"queue":"low"}`:                            {Every: 90 * time.Second, FirstIn: 1500 * time.Millisecond, Queue: "low"},
		`{"cron":"0 3 * jan mon Asia/Tokyo","queue":"low"}`:                                {Cron: "0 3 * jan mon", Location: tokyo, Queue: "low"},
		`{"cron":"0 3 * * * Europe/Berlin","queue":"low"}`:                                 {Cron: "0 3 * * * Europe/Berlin", Location: tokyo, Queue: "low"},
		`{"every":"3600s","queue":"low","rails_env":"staging, production","tick_arg":true,"missed":"all","grace":"5s"}`: {
			Every: time.Hour, Queue: "low", Environments: []string{"staging", "production"}, TickArg: true, Missed: MissedAll, Grace: 5 * time.Second},
		`{}`: {},
	} {
		text, err := json.Marshal(r)
		if err != nil || string(text) != want {
			t.Errorf("%s, %v; want %s", text, err, want)
			continue
		}
		var back Recurring
		if err := json.Unmarshal(text, &back); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if again, err := json.Marshal(back); err != nil || string(again) != want {
			t.Errorf("read and written again: %s, %v; want %s", again, err, want)
		}
	}
}

func TestRecurringFromRuby(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		`[1,{"x":2}]`:   `{"class":"C","args":[1,{"x":2}]}`,
		`{"b":1,"a":2}`: `{"class":"C","args":[{"b":1,"a":2}]}`,
		`"one"`:         `{"class":"C","args":["one"]}`,
		`1.50`:          `{"class":"C","args":[1.50]}`,
		`null`:          `{"class":"C","args":[]}`,
		`[]`:            `{"class":"C","args":[]}`,
		`[[1]]`:         `{"class":"C","args":[[1]]}`,
		`false`:         `{"class":"C","args":[]}`,
		`[false]`:       `{"class":"C","args":[false]}`,
	} {
		d, err := Read("n", `{"class":"C","every":"1h","queue":"q","args":`+args+`}`)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		if got, err := d.Payload(0, time.Time{}); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", args, got, err, want)
		}
	}
	for text, says := range map[string]string{
		`{"every":"1h"}`:                                            "no queue",
		`{"queue":"q"}`:                                             "neither a Cron",
		`{"queue":"q","every":"every hour"}`:                        "no period",
		`{"queue":"q","every":[]}`:                                  "neither a Cron",
		`{"queue":"q","Every":"1h","CRON":"@daily"}`:                "neither a Cron",
		`{"QUEUE":"q","every":"1h"}`:                                "no queue",
		`{"queue":"q","every":["1h","2h"]}`:                         "options",
		`{"queue":"q","every":["1h",{"first_at":"x"}]}`:             "first_at",
		`{"queue":"q","every":["1h",{"first_in":"x"}]}`:             "first_in",
		`{"queue":"q","cron":{"a":1}}`:                              "neither a text nor a number",
		`{"queue":"q","cron":"* * * *"}`:                            "4 fields",
		`{"queue":true,"cron":"@daily"}`:                            "its queue is wrong",
		`{"queue":"q","cron":"@daily","custom_job_class":"Status"}`: "only Ruby",
		`{"queue":"q","cron":"@daily","rails_env":1}`:               "environments",
		`{"queue":"q","cron":"@daily","missed":"never"}`:            "Missed",
		`{"queue":"q","cron":"@daily","fugit":1.1}`:                 "quote the version",
		`{"queue":"q","every":"1h","fugit":"newest"}`:               "no version of fugit",
		`[]`: "no entry",
		``:   "no entry",
	} {
		if _, err := Read("nightly", text); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "nightly") {
			t.Errorf("%s: error %v; want nightly and %q in it", text, err, says)
		}
	}
	d, err := Read("n", `{"class":"C","Class":"X","every":"1h","Every":"2h","cron":"","queue":5,"QUEUE":"x","description":{}}`)
	if err != nil || d.Class != "C" || d.Every != time.Hour || d.Queue != "5" {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := Read("Nightly", `{"queue":"q","every":3600,"cron":null}`); err != nil || d.Class != "Nightly" || d.Every != time.Hour {
		t.Errorf("%+v, %v", d, err)
	}
}

// A first_in of 0 is at once, and stays so when it is written.
func TestRecurringFirstIn(t *testing.T) {
	t.Parallel()
	for option, want := range map[string]time.Duration{`0`: time.Millisecond, `"0s"`: time.Millisecond, `"0.5s"`: 500 * time.Millisecond, `"5m"`: 5 * time.Minute, `null`: 0} {
		d, err := Read("n", `{"queue":"q","every":["1h",{"first_in":`+option+`}]}`)
		for range 2 {
			if err != nil || d.FirstIn != want {
				t.Errorf("first_in %s: %+v, %v; want %v", option, d, err, want)
				break
			}
			text, _ := json.Marshal(d.Recurring)
			d, err = Read("n", string(text))
		}
	}
}

func TestRecurringEnvironments(t *testing.T) {
	t.Parallel()
	for fields, here := range map[string]bool{
		``:                                       true,
		`,"rails_env":null`:                      true,
		`,"rails_env":"test production"`:         true,
		`,"env":["production"]`:                  true,
		`,"rails_env":null,"env":"test"`:         false,
		`,"rails_env":"test","env":"production"`: false,
		`,"rails_env":""`:                        false,
		`,"rails_env":"","env":"production"`:     false,
		`,"env":[]`:                              false,
		`,"env":", "`:                            false,
	} {
		d, err := Read("n", `{"every":"1h","queue":"q"`+fields+`}`)
		if err != nil || d.CountsIn("production") != here {
			t.Errorf("%s: %v; want %v", fields, err, here)
			continue
		}
		text, err := json.Marshal(d.Recurring)
		if err != nil {
			t.Errorf("%s: %v", fields, err)
			continue
		}
		if d, err = Read("n", string(text)); err != nil || d.CountsIn("production") != here {
			t.Errorf("%s, written as %s: %v; want %v", fields, text, err, here)
		}
	}
}

func FuzzRecurring(f *testing.F) {
	f.Add(`{"class":"C","every":["1h",{"first_in":"5m"}],"queue":"q","args":[1,{"x":2}],"rails_env":"a, b","grace":"90s"}`)
	f.Add(`{"cron":"0 3 13 * mon%2& Asia/Tokyo","queue":"q","fugit":"1.11","args":false}`)
	f.Add(`{"cron":"0 3 L * mon#1 Asia/Tokyo","queue":"q","args":{"a":1},"tick_arg":true,"missed":"all"}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Read("n", text)
		if err != nil {
			return
		}
		if _, err := d.Payload(0, time.Time{}); err != nil {
			t.Fatalf("%s was taken, but gives no job: %v", text, err)
		}
		again, err := json.Marshal(d.Recurring)
		if err == nil {
			_, err = Read("n", string(again))
		}
		if err != nil {
			t.Fatalf("%s cannot be read again from %s: %v", text, again, err)
		}
		written, err := d.Persistent()
		if err != nil {
			return // Ruby could not read it
		}
		other, err := Read("n", string(written))
		if err != nil {
			t.Fatalf("%s is written as %s: %v", text, written, err)
		}
		if last, err := other.Persistent(); err != nil || string(last) != string(written) {
			t.Fatalf("%s is written as %s and then as %s, %v", text, written, last, err)
		}
	})
}
