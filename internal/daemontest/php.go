package daemontest

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	PhpWaiting  = `{"status":1,"updated":NOW,"started":1795229105,"result":null}`
	PhpRunning  = `{"status":2,"updated":NOW,"started":1795229105,"result":null}`
	PhpFailed   = `{"status":3,"updated":NOW,"started":1795229105,"result":null}`
	PhpComplete = `{"status":4,"updated":NOW,"started":1795229105,"result":null}`

	OldPHPWaiting  = `{"status":1,"updated":NOW,"started":1795229105}`
	OldPHPRunning  = `{"status":2,"updated":NOW}`
	OldPHPFailed   = `{"status":3,"updated":NOW}`
	OldPHPComplete = `{"status":4,"updated":NOW}`

	// Seed stands where PHP wrote its first status, so that a test sees which ones are new.
	Seed = "as PHP wrote it"
)

func PHPKey(id string) string { return "resque:job:" + id + ":status" }

// Track does what PHP does when it enqueues a job that it tracks.
func (b *Bundle) Track(ids ...string) {
	b.T.Helper()
	for _, id := range ids {
		b.Redis.Do(b.T, "SET", PHPKey(id), Seed)
	}
}

var UpdatedAt = regexp.MustCompile(`"updated":(\d+)`)

// Status returns php-resque's status of a job. NOW stands in it for a time that is Redis's.
func (b *Bundle) Status(id string) string {
	b.T.Helper()
	return UpdatedAt.ReplaceAllStringFunc(b.Redis.Text(b.T, "GET", PHPKey(id)), func(field string) string {
		now, _ := strconv.Atoi(b.Redis.List(b.T, "TIME")[0])
		at, _ := strconv.Atoi(strings.TrimPrefix(field, `"updated":`))
		if at > now+1 || at < now-int(2*Soon/time.Second) {
			return field
		}
		return `"updated":NOW`
	})
}

// Becomes waits for a status.
func (b *Bundle) Becomes(id, want string) {
	b.T.Helper()
	defer func() {
		if b.T.Failed() {
			b.T.Logf("the status of %s is %s, want %s", id, b.Status(id), want)
		}
	}()
	b.Eventually("the status of "+id, func() bool { return b.Status(id) == want })
}

// Expires checks whether the status of a job stays for a day, or for as long as PHP likes.
func (b *Bundle) Expires(id string, after bool) {
	b.T.Helper()
	const day = 24 * 60 * 60
	switch ttl := b.Redis.Int(b.T, "TTL", PHPKey(id)); {
	case after && (ttl > day || ttl < day-int(2*Soon/time.Second)):
		b.T.Errorf("the status of %s expires in %d s, want a day", id, ttl)
	case !after && ttl != -1:
		b.T.Errorf("the status of %s expires in %d s, want never", id, ttl)
	}
}

// WorkersTold is how many workers have a job that Resque's tools see.
func (b *Bundle) WorkersTold() (n int) {
	b.T.Helper()
	for _, id := range b.Redis.List(b.T, "SMEMBERS", "resque:workers") {
		n += b.Redis.Int(b.T, "EXISTS", "resque:worker:"+id)
	}
	return n
}
