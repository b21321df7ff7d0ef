package main

import (
	"slices"
	"strings"
	"testing"
)

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

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args, complaint string
	}{
		{"", ""},
		{"-core", ""},
		{"-quick -contenders=ours,limit -rounds=1 -only=noop,idle", ""},
		{"-contenders=theirs", "theirs"},
		{"-rounds=-1", "-rounds"},
		{"-trial=0s", "-trial"},
		{"-only=dance", "dance"},
	} {
		_, err := parseOptions(strings.Fields(test.args))
		if (err != nil) != (test.complaint != "") || err != nil && !strings.Contains(err.Error(), test.complaint) {
			t.Errorf("parseOptions(%q) = %v, want an error about %q", test.args, err, test.complaint)
		}
	}
}

func TestWhatNeedsMuchMemoryRunsOnlyWhenAskedFor(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{"": false, "-contenders=ours": false, "-only=schedule": false, "-only=ten-million": true} {
		opts, err := parseOptions(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(opts.works, func(w work) bool { return w.apart }); got != want {
			t.Errorf("parseOptions(%q) runs ten million jobs: %v, want %v", args, got, want)
		}
	}
}
