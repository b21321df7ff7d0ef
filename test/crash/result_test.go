package crash

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// resultJob is a job with a document, and starts that.
func (f *fleet) resultJob(class, id string) string {
	f.t.Helper()
	f.redis.Do(f.t, "HSET", "resque:go:result:"+id, "state", "pending", "class", class)
	return fmt.Sprintf(`{"class":%q,"args":[%q],"result":600000,"id":%q}`, class, id, id)
}

// document returns a field of the document of a job.
func (f *fleet) document(id, field string) string {
	f.t.Helper()
	return f.redis.Text(f.t, "HGET", "resque:go:result:"+id, field)
}

// The document of a job whose process is killed says that it waits again, and lists the run that was lost. A process
// that stood still meanwhile writes nothing: neither a late progress nor an end.
func TestResultsOutliveAKill(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	victim := f.start("-concurrency=2")
	watcher := f.start("-queues=rare", "-concurrency=1")
	f.push(f.resultJob("Hold", "a"), f.resultJob("Hold", "b"))
	for _, id := range []string{"a", "b"} {
		f.eventually(soon, "it runs", func() bool { return f.document(id, "state") == "running" })
	}
	f.redis.Do(t, "DEL", "resque:go:result:b") // forgotten
	dead := victim.id()
	victim.signal(syscall.SIGSTOP)
	f.eventually(recovery, "it is back", func() bool { return f.document("a", "state") == "pending" })
	if try := f.document("a", "t1"); f.document("a", "tries") != "1" || !strings.Contains(try, `"state":"lost"`) || !strings.Contains(try, dead) || f.document("a", "ended") != "" {
		t.Errorf("the document is %q", f.redis.List(t, "HGETALL", "resque:go:result:a"))
	}
	heir := f.start("-concurrency=2")
	f.eventually(soon, "it runs again", func() bool { return f.document("a", "state") == "running" })
	victim.signal(syscall.SIGCONT)
	f.open(victim)
	f.eventually(soon, "the zombie is back under another name", func() bool { return victim.id() != dead })
	f.renewed(2, heir)
	if f.document("a", "state") != "running" || f.document("a", "process") != heir.id() {
		t.Errorf("a zombie wrote %q", f.redis.List(t, "HGETALL", "resque:go:result:a"))
	}
	f.open(heir)
	f.eventually(soon, "it is done", func() bool { return f.document("a", "state") == "done" })
	if f.document("a", "tries") != "1" || f.document("a", "attempt") != "1" || f.redis.Int(t, "PTTL", "resque:go:result:a") > 600_000 {
		t.Errorf("the document is %q", f.redis.List(t, "HGETALL", "resque:go:result:a"))
	}
	if f.redis.Int(t, "EXISTS", "resque:go:result:b") != 0 {
		t.Error("a document that was forgotten is there again")
	}
	for _, p := range []*process{victim, watcher, heir} {
		p.stop()
	}
}

// The document of a job that kills its processes says in the end that it has failed, and lists the runs.
func TestResultOfPoison(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	watcher := f.start("-queues=rare", "-concurrency=1")
	f.push(f.resultJob("Die", "poison"))
	p := f.launch("-concurrency=1")
	f.eventually(4*recovery, "it is filed", func() bool {
		select {
		case <-p.exited:
			p = f.launch("-concurrency=1")
		default:
		}
		return f.document("poison", "state") == "failed"
	})
	tries := f.redis.Int(t, "HGET", "resque:go:result:poison", "tries")
	last := f.document("poison", fmt.Sprint("t", tries))
	if tries < 2 || !strings.Contains(last, `"state":"lost"`) || !strings.Contains(last, "Resque::DirtyExit") || f.document("poison", "exception") != "Resque::DirtyExit" || f.document("poison", "ended") == "" {
		t.Errorf("the document is %q", f.redis.List(t, "HGETALL", "resque:go:result:poison"))
	}
	p.stop()
	watcher.stop()
}
