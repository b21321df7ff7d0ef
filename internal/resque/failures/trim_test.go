package failures

import (
	"fmt"
	"testing"
	"time"
)

func TestTrimFailures(t *testing.T) {
	a := newAdmin(t)
	var all []string
	for i := range trimTogether + 10 {
		all = append(all, record(i, "q"))
	}
	a.fail(t, "failed", all...)
	for _, step := range []struct {
		most    int64
		removed int
		left    []string
	}{
		{trimTogether + 10, 0, all}, {trimTogether + 7, 3, all[3:]}, {2, trimTogether, all[len(all)-7:]},
		{2, 5, all[len(all)-2:]}, {2, 0, all[len(all)-2:]}, {0, 2, nil}, {0, 0, nil},
	} {
		if n, err := a.Trim(a.c, "failed", step.most); n != step.removed || err != nil {
			t.Errorf("to %d: removed %d, %v; want %d", step.most, n, err, step.removed)
		}
		a.wantList(t, "failed", step.left...)
	}
	a.Do(t, "SET", "resque:failed", "x")
	_, err := a.Trim(a.c, "failed", 1)
	wantError(t, err, "list failed", "WRONGTYPE")
}

func TestExpireFailures(t *testing.T) {
	a := newAdmin(t)
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	n := 0
	failed := func(text string) string {
		n++
		return fmt.Sprintf(`{"failed_at":%q,"payload":{"class":"J","args":[%d]},"queue":"q"}`, text, n)
	}
	zoned := failed("2026/11/21 10:00:00 XST") // two hours, or far more or less
	undated := []string{failed("yesterday"), "not JSON", `{"payload":{}}`, `{"failed_at":7,"error":"x"}`}
	young, hidden := failed("2026/11/21 12:00:00 UTC"), failed("2026/11/01 12:00:00 UTC")
	a.fail(t, "failed",
		failed("2026/11/21 11:59:59 UTC"), undated[0], undated[1], failed("2026-11-21T13:59:59+02:00"), undated[2],
		failed("2026/11/20 09:00:00"), failed("2026/11/20 09:59:59 XST"), undated[3],
		marked(t, failed("Sat Nov 21 2026 11:00:00 GMT+0000 (Coordinated Universal Time)")),
		zoned, failed("2026/11/21 11:00:00 UTC"), young, hidden)
	removed, next, err := a.Expire(a.c, "failed", at, 0)
	if removed != 5 || next != -1 || err != nil {
		t.Errorf("removed %d, %d, %v; want 5 and the end", removed, next, err)
	}
	left := []string{undated[0], undated[1], undated[2], undated[3], zoned}
	got := a.List(t, "LRANGE", "resque:failed", 0, -1)
	if len(got) != 8 || fmt.Sprint(got[:5]) != fmt.Sprint(left) || got[6] != young || got[7] != hidden {
		t.Errorf("left %q", got)
	}

	// Those that stay are passed over once a piece.
	a.Do(t, "DEL", "resque:failed")
	for i := range 3 * removeTogether {
		if i%2 == 0 {
			a.fail(t, "failed", failed("never"))
		} else {
			a.fail(t, "failed", failed("2020/01/01 00:00:00 UTC"))
		}
	}
	total, pieces := 0, 0
	for next = 0; next >= 0; pieces++ {
		var n int
		if n, next, err = a.Expire(a.c, "failed", at, next); err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if left := a.Int(t, "LLEN", "resque:failed"); total != 3*removeTogether/2 || left != 3*removeTogether/2 || pieces > 4 {
		t.Errorf("removed %d in %d pieces, left %d", total, pieces, left)
	}
}
