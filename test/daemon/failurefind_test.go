package daemon

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
)

func TestFailuresFound(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{goworker.FailureRedis, goworker.FailureRedisMultiQueue} {
		d, server := newAdminDaemon(t, goworker.WorkerSettings{FailureBackend: backend})
		list := func(queue string) string {
			if backend == goworker.FailureRedis {
				return "resque:failed"
			}
			server.Do(t, "SADD", "resque:failed_queues", queue+"_failed")
			return "resque:" + queue + "_failed"
		}
		for i, queue := range []string{"a", "a", "b", "b"} {
			server.Do(t, "RPUSH", list(queue), failureText(i, queue))
		}
		all := d.Failures()
		found, next, err := all.Search(goworker.FailureFilter{Queue: "a"}, "", 1)
		if err != nil || len(found) != 1 || next == "" || string(found[0].Raw) != failureText(1, "a") {
			t.Fatalf("%s: %+v, %q, %v", backend, found, next, err)
		}
		server.Do(t, "LPOP", list("a")) // the first of them
		rest, next, err := all.Search(goworker.FailureFilter{Queue: "a"}, next, 1)
		if err != nil || next != "" || len(rest) > 1 || len(rest) == 1 && rest[0].ID != found[0].ID { // it may come twice
			t.Errorf("%s: then %+v, %q, %v", backend, rest, next, err)
		}
		id := found[0].ID
		if n, err := all.RetryID(id); n != 1 || err != nil {
			t.Errorf("%s: retried %d, %v", backend, n, err)
		}
		if n, err := all.RetryID(id); n != 0 || !errors.Is(err, goworker.ErrRetried) {
			t.Errorf("%s: retried again %d, %v", backend, n, err)
		}
		f, err := all.Get(id)
		if err != nil || f.RetriedAt == "" || f.ID != id {
			t.Errorf("%s: got %+v, %v", backend, f, err)
		}
		if err := all.Retry(f); err != nil {
			t.Errorf("%s: on purpose: %v", backend, err)
		}
		if n, err := all.RetryWhere(goworker.FailureFilter{Queue: "a", Retried: true}); n != 0 && n != 1 || err != nil { // within one second the two look alike
			t.Errorf("%s: retried where retried %d, %v", backend, n, err)
		}
		if got := server.List(t, "LRANGE", "resque:queue:a", 0, 1); !slices.Equal(got, []string{`{"class":"J","args":[1],"id":"x"}`, `{"class":"J","args":[1],"id":"x"}`}) {
			t.Errorf("%s: queue %q", backend, got)
		}
		if n, err := all.RetryWhere(goworker.FailureFilter{Class: "J", Until: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}); n != 2 || err != nil {
			t.Errorf("%s: retried where %d, %v; want 2", backend, n, err)
		}
		groups, err := all.Groups(goworker.FailureFilter{Retried: true})
		if err != nil || len(groups) != 1 || groups[0].Count != 3 || groups[0].Class != "J" || groups[0].Last.IsZero() {
			t.Errorf("%s: groups %+v, %v", backend, groups, err)
		}
		if n, err := all.RemoveWhere(goworker.FailureFilter{Queue: "b", Text: "IT BROKE"}); n != 2 || err != nil {
			t.Errorf("%s: removed where %d, %v; want 2", backend, n, err)
		}
		if n, err := all.In("a").RemoveID(id, "nonsense"); backend == goworker.FailureRedisMultiQueue && n != 1 || !errors.Is(err, goworker.ErrNoFailure) {
			t.Errorf("%s: removed %d, %v", backend, n, err)
		}
		_, _ = all.RemoveID(id)
		if _, err := all.Get(id); !errors.Is(err, goworker.ErrNoFailure) {
			t.Errorf("%s: got what was removed: %v", backend, err)
		}
		if n, err := all.Count(); n != 0 || err != nil {
			t.Errorf("%s: %d left, %v", backend, n, err)
		}
		now := time.Now()
		for want, filter := range map[string]goworker.FailureFilter{
			"both Retried and Unretried": {Retried: true, Unretried: true},
			"is not before its Until":    {Since: now, Until: now},
		} {
			_, _, searched := all.Search(filter, "", 1)
			_, grouped := all.Groups(filter)
			_, retried := all.RetryWhere(filter)
			_, removed := all.RemoveWhere(filter)
			for _, err := range []error{searched, grouped, retried, removed} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: the error %v does not say %q", backend, err, want)
				}
			}
		}
		if _, _, err := all.Search(goworker.FailureFilter{}, "", 0); err == nil || !strings.Contains(err.Error(), "at least 1") {
			t.Errorf("%s: a search for none: %v", backend, err)
		}
	}
}
