package inspect_test

import (
	"fmt"
	"strings"
	"testing"
)

// Peek shows the jobs of a place in a queue from either end, reads about a mebibyte, and takes nothing.
func TestPeek(t *testing.T) {
	i, server, _ := setup(t)
	for n := range 100 {
		server.Do(t, "RPUSH", "resque:queue:mail", fmt.Sprintf(`{"class":"A","args":[%d]}`, n))
	}
	for range 8 {
		server.Do(t, "RPUSH", "resque:queue:large", `{"class":"A","args":["`+strings.Repeat("x", 300<<10)+`"]}`)
	}
	for _, tt := range []struct {
		skip, count int
		tail        bool
		want        []int
	}{
		{0, 3, false, []int{0, 1, 2}}, {97, 10, false, []int{97, 98, 99}}, {100, 10, false, nil}, {0, 3, true, []int{99, 98, 97}}, {98, 10, true, []int{1, 0}}, {100, 1, true, nil},
		{10, 1, true, []int{89}},
	} {
		jobs, full, err := i.Peek(t.Context(), "mail", tt.skip, tt.count, tt.tail)
		var got []int
		for _, j := range jobs {
			var n int
			fmt.Sscan(string(j.Args[0]), &n)
			got = append(got, n)
		}
		if err != nil || full || fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%+v: %v, %v, %v", tt, got, full, err)
		}
	}
	jobs, full, err := i.Peek(t.Context(), "large", 0, 8, false)
	if err != nil || !full || len(jobs) < 3 || len(jobs) > 7 {
		t.Errorf("of large jobs %d, %v, %v", len(jobs), full, err)
	}
	if all, _, err := i.Peek(t.Context(), "large", len(jobs), 8, false); err != nil || len(all)+len(jobs) != 8 {
		t.Errorf("the rest are %d, %v", len(all), err)
	}
	if n := server.Int(t, "LLEN", "resque:queue:mail"); n != 100 {
		t.Errorf("%d jobs are left", n)
	}
	for _, bad := range []func() error{
		func() error { _, _, err := i.Peek(t.Context(), "", 0, 1, false); return err },
		func() error { _, _, err := i.Peek(t.Context(), "mail", -1, 1, false); return err },
		func() error { _, _, err := i.Peek(t.Context(), "mail", 0, 1001, false); return err },
	} {
		if bad() == nil {
			t.Error("it is taken")
		}
	}
}

// Cancelled lists what was cancelled and has not ended, by whatever name.
func TestCancelledList(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "ZADD", "resque:go:cancelled", 1_900_000_000_000, "j:a:b", 1_900_000_002_000, "t:web-1:722:be04:7", 1_900_000_001_000, "p:0123", 1_900_000_000_001, "t:odd")
	jobs, more, err := i.Cancelled(t.Context(), 4)
	var said []string
	for _, j := range jobs {
		said = append(said, fmt.Sprintf("%s|%s|%s %d|%d", j.ID, j.Place, j.Process, j.Ticket, j.Until.UnixMilli()))
	}
	want := []string{"||web-1:722:be04 7|1900000002000", "|0123| 0|1900000001000", "|| 0|1900000000001", "a:b|| 0|1900000000000"}
	if err != nil || more || strings.Join(said, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, %v, %v", said, more, err)
	}
	if jobs, more, err := i.Cancelled(t.Context(), 2); err != nil || !more || len(jobs) != 2 {
		t.Errorf("of two: %d, %v, %v", len(jobs), more, err)
	}
	if _, _, err := i.Cancelled(t.Context(), 0); err == nil {
		t.Error("a count of 0 is taken")
	}
	server.Do(t, "SET", "resque:go:cancelled", "x")
	if _, _, err := i.Cancelled(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "go:cancelled") {
		t.Errorf("of another type: %v", err)
	}
}
