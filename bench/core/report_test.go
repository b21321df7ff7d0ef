package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestMedianAndPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, test := range []struct {
		name      string
		got, want float64
	}{
		{"median of one", median([]float64{7}), 7},
		{"median of an odd number", median([]float64{1, 2, 9}), 2},
		{"median of an even number", median([]float64{1, 2, 4, 9}), 3},
		{"p50 of 100", percentile(hundred, 50), 50},
		{"p99 of 100", percentile(hundred, 99), 99},
		{"p99 of 10 is the highest", percentile(hundred[:10], 99), 10},
		{"p0 is the lowest", percentile(hundred, 0), 1},
		{"round large", round(123456.7), 123457},
		{"round to four digits", round(0.0123456), 0.01235},
		{"round zero", round(0), 0},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, test.got, test.want)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{
		0: "0", 0.0012: "0.0012", 0.25: "0.250", 8: "8.00", 44.25: "44.2", 999: "999.0", 1000: "1,000", 1234567: "1,234,567",
	} {
		if got := number(value); got != want {
			t.Errorf("number(%v) = %q, want %q", value, got, want)
		}
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]origin{
		`+1700000000.123456 [0 127.0.0.1:51234] "LPOP" "q"`:                          fromClient,
		`+1700000000.123456 [0 unix:/tmp/redis.sock] "PING"`:                         fromClient,
		`+1700000000.123456 [0 lua] "LPOP" "q"`:                                      fromScript,
		`+1700000000.123456 [9 lua] "RPUSH" "q" "[0 127.0.0.1:1] "`:                  fromScript,
		`+1700000000.123456 [0 127.0.0.1:51234] "ECHO" "bench-monitor-end"`:          fromRunner,
		`+1700000000.123456 [0 127.0.0.1:51234] "RPUSH" "q" "[0 lua] \"bench-mon\""`: fromClient,
		`+OK`: fromNobody,
		``:    fromNobody,
	} {
		if got := classify(line); got != want {
			t.Errorf("classify(%q) = %d, want %d", line, got, want)
		}
	}
}

func TestTableComparesWithGoworkerAndLimit(t *testing.T) {
	t.Parallel()
	var r results
	for _, value := range []float64{300, 100, 200} {
		r.add("ours", "noop", 25, "jobs_per_s", value)
	}
	r.add("limit", "noop", 25, "jobs_per_s", 400)
	r.add("goworker", "noop", 25, "jobs_per_s", 20)
	r.add("ours", "idle", 25, "idle_commands_per_s", 0)

	rows := r.rows()
	want := row{Contender: "ours", Work: "noop", Workers: 25, Figure: "jobs_per_s", Median: 200, Min: 100, Max: 300}
	if len(rows) != 4 || rows[0] != want {
		t.Fatalf("rows = %+v, want four, the first %+v", rows, want)
	}
	var out bytes.Buffer
	printTable(&out, rows)
	first := strings.Fields(strings.Split(out.String(), "\n")[1])
	if got := strings.Join(first, " "); got != "jobs_per_s 25 ours 200.0 100.0–300.0 10.0× 0.500×" {
		t.Errorf("first row of the table: %q", got)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args, complaint string
	}{
		{"", ""},
		{"-contenders=ours,limit -workers=25 -rounds=1 -only=drain", ""},
		{"-contenders=theirs", "theirs"},
		{"-workers=0", "0"},
		{"-workers=a", "a"},
		{"-rounds=0", "-rounds"},
		{"-only=sleep", "sleep"},
	} {
		_, err := parseOptions(strings.Fields(test.args))
		if (err != nil) != (test.complaint != "") || err != nil && !strings.Contains(err.Error(), test.complaint) {
			t.Errorf("parseOptions(%q) = %v, want an error about %q", test.args, err, test.complaint)
		}
	}
}
