package resque

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWorkers(t *testing.T) {
	a := newAdmin(t)
	at := time.Date(2026, 11, 21, 2, 41, 26, 0, time.UTC)
	entries := []struct {
		want                           Worker
		work, started, heartbeat, p, f string
	}{
		{want: Worker{ID: "h"}},
		{want: Worker{ID: "h:1", PID: "1"}},
		{want: Worker{ID: "h:1:", PID: "1"}},
		{
			want:    Worker{ID: "node:1+2:a,b", PID: "1+2", Queues: []string{"a", "b"}, Started: time.Unix(at.Unix(), 0), Working: &Working{Queue: "a", RunAt: at, Payload: json.RawMessage(`{"class":"N","queue":"a","args":[1]}`), Class: "N"}},
			started: fmt.Sprint(at.Unix()),
			work:    `{"run_at":"Sat Nov 21 2026 02:41:26 GMT+0000 (Coordinated Universal Time)","queue":"a","payload":{"class":"N","queue":"a","args":[1]},"worker":"node:1+2"}`,
		},
		{
			want:      Worker{ID: "ruby:7:a:b,*", PID: "7", Queues: []string{"a:b", "*"}, Started: at, Heartbeat: at, Processed: 12, Failed: 3, Working: &Working{Queue: "q", RunAt: at, Payload: json.RawMessage(`{"class":"J","args":[]}`), Class: "J"}},
			work:      `{"queue":"q","run_at":"2026-11-21T02:41:26Z","payload":{"class":"J","args":[]}}`,
			started:   "2026-11-21 02:41:26 +0000",
			heartbeat: "2026-11-21T11:41:26+09:00",
			p:         "12", f: "3",
		},
		{want: Worker{ID: "x:1:a", PID: "1", Queues: []string{"a"}, Working: &Working{}}, work: `not JSON`, started: "garbage", heartbeat: "garbage", p: "garbage", f: "1.5"},
		{want: Worker{ID: "x:1:b", PID: "1", Queues: []string{"b"}, Working: &Working{}}, work: `{}`, heartbeat: "-"},
		{want: Worker{ID: "x:1:c", PID: "1", Queues: []string{"c"}, Working: &Working{Payload: json.RawMessage("null")}}, work: `{"queue":5,"run_at":null,"payload":null}`},
		{want: Worker{ID: "x:1:d", PID: "1", Queues: []string{"d"}, Working: &Working{Queue: "q"}}, work: `{"queue":"q"}`},
		{want: Worker{ID: "x:1:e", PID: "1", Queues: []string{"e"}, Working: &Working{}}, work: "\xff"},
	}
	var want []Worker
	for _, e := range entries {
		id := e.want.ID
		a.Do(t, "SADD", "resque:workers", id)
		for key, value := range map[string]string{
			"worker:" + id: e.work, "worker:" + id + ":started": e.started, "stat:processed:" + id: e.p, "stat:failed:" + id: e.f,
		} {
			if value != "" {
				a.Do(t, "SET", "resque:"+key, value)
			}
		}
		if e.heartbeat != "" {
			a.Do(t, "HSET", "resque:workers:heartbeat", id, e.heartbeat)
		}
		e.want.Host = map[byte]string{'h': "h", 'n': "node", 'r': "ruby", 'x': "x"}[id[0]]
		want = append(want, e.want)
	}
	a.Do(t, "SADD", "resque:workers", "z:1:q")
	a.Do(t, "LPUSH", "resque:worker:z:1:q", "a key of another type")
	want = append(want, Worker{ID: "z:1:q", Host: "z", PID: "1", Queues: []string{"q"}})

	monitor := a.Monitor(t)
	got, err := a.Workers(a.c)
	if err != nil {
		t.Fatal(err)
	}
	sameTime := cmp.Comparer(func(x, y time.Time) bool { return x.Equal(y) })
	if diff := cmp.Diff(want, got, sameTime); diff != "" {
		t.Errorf("workers (-want +got):\n%s", diff)
	}
	if n := len(monitor.Commands()); n != 3 {
		t.Errorf("%d commands for %d workers; want 3: %q", n, len(got), monitor.Commands())
	}

	a.Do(t, "SET", "resque:workers:heartbeat", "x")
	_, err = a.Workers(a.c)
	wantError(t, err, "heartbeats", "WRONGTYPE")
	a.Do(t, "SET", "resque:workers", "x")
	_, err = a.Workers(a.c)
	wantError(t, err, "set of workers", "WRONGTYPE")
}

func TestNoWorkers(t *testing.T) {
	a := newAdmin(t)
	if got, err := a.Workers(a.c); len(got) != 0 || err != nil {
		t.Errorf("%v, %v; want none", got, err)
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 11, 21, 2, 41, 26, 0, time.UTC)
	for _, text := range []string{
		"2026-11-21T02:41:26Z", "2026-11-21T11:41:26+09:00", "2026-11-21 02:41:26 +0000", "2026-11-21 02:41:26 UTC",
		"2026-11-21 11:41:26 +0900 JST m=+0.000312", "2026-11-21 02:41:26 +0000 UTC", "2026/11/21 02:41:26 UTC",
		"Sat Nov 21 2026 02:41:26 GMT+0000 (Coordinated Universal Time)", "Sat Nov 21 02:41:26 UTC 2026",
		fmt.Sprint(want.Unix()),
	} {
		if got := ParseTime(text); !got.Equal(want) {
			t.Errorf("%q is %v; want %v", text, got, want)
		}
	}
	if got := ParseTime("2026-11-21T02:41:26.25Z"); !got.Equal(want.Add(time.Second / 4)) {
		t.Errorf("with a fraction: %v", got)
	}
	for _, text := range []string{"", "garbage", "-", "1.5", "2026-11-21", "(", " m="} {
		if got := ParseTime(text); !got.IsZero() {
			t.Errorf("%q is %v; want none", text, got)
		}
	}
}
