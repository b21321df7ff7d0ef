// Package webhook knows how events reach the deliverers of webhooks: the keys, the scripts and the bytes.
//
// A webhook has a stream, in which processes write how jobs ended, with the commit of the job. Its deliverers are one consumer group
// with one consumer, so Redis gives each entry to one of them. A deliverer resets the idle time of an entry while it has the entry, and
// any of them claims an entry that was idle for too long. A deliverer deletes an entry after its delivery, so the stream holds the
// entries that are not delivered yet.
package webhook

import (
	"embed"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/pattern"
	"github.com/goworker/goworker/internal/resque"
)

//go:embed scripts
var scriptFiles embed.FS

var (
	post         = resque.LoadVerb(scriptFiles, "post")
	takeScript   = resque.LoadScript(scriptFiles, "take")
	readScript   = resque.LoadScript(scriptFiles, "read")
	restScript   = resque.LoadScript(scriptFiles, "rest")
	wrongScript  = resque.LoadScript(scriptFiles, "wrong")
	leadScript   = resque.LoadScript(scriptFiles, "lead")
	noticeScript = resque.LoadScript(scriptFiles, "notice")
)

// Scripts returns the scripts of this package by name, as they are sent to Redis.
func Scripts() map[string]string { return resque.ScriptsOf(scriptFiles) }

const (
	// Announced is for how long processes write for a webhook after its last deliverer has ended. Renewed is how often a deliverer extends
	// that.
	Announced = 24 * time.Hour
	Renewed   = 10 * time.Minute

	// Kept is how long the keys of a webhook stay after its last deliverer has ended.
	Kept = Announced + time.Hour

	// MostWaiting is about how many entries a stream keeps.
	MostWaiting = 10_000

	// MostEvent is how many bytes an event has at most, or a notice. Those of processes have less.
	MostEvent = 16 << 10

	// MostArgs is how many bytes of arguments an entry has at most. If a job has more, its entry has none.
	MostArgs = 4 << 10

	// mostAnnounced is how many bytes an announcement has at most.
	mostAnnounced = 300

	// MostWebhooks is how many webhooks are announced at most.
	MostWebhooks = 8
)

// Notice is the prefix of the fields of the notice that announce webhooks. The name of the webhook follows.
const Notice = "webhook:"

var nameForm = pattern.New(`^[A-Za-z0-9_-]{1,32}$`)

// IsName reports whether a text may be the name of a webhook.
func IsName(name string) bool { return nameForm.MatchString(name) }

// Store is resque's Store with the words of webhooks.
type Store struct{ resque.Store }

// New returns the Store of webhooks in a namespace.
func New(s resque.Store) Store { return Store{s} }

// HookKey is the stream of a webhook: the fields "n", the number of the entry, "e", an event or a notice, and "a", the arguments of
// the job.
func (s Store) HookKey(name string) resque.Key { return s.StreamKey("webhook:" + name) }

// HookStateKey is the hash of a webhook that has what its deliverers share: "written" and "read", the numbers of the last entries,
// "cut", how many are missing in all, "said", how many of these
// were reported, "next", when a delivery may begin, "rest", until when which receiver wants none, "lease", who looks for what is wrong,
// and a field for each thing that is wrong.
func (s Store) HookStateKey(name string) resque.Key { return s.HashKey("webhook:" + name + ":state") }

// Announcement is what the deliverers of a webhook ask processes to write.
type Announcement struct {
	Until     int64 // in ms by Redis's clock
	Kinds     []string
	Arguments bool // of the jobs
}

// Value is the announcement as a field of the notice.
func (a Announcement) Value() string {
	words := []string{strconv.FormatInt(a.Until, 10), strings.Join(a.Kinds, ",")}
	if a.Arguments {
		words = append(words, "args")
	}
	return strings.Join(words, " ")
}

// ParseAnnouncement reads a field of the notice.
func ParseAnnouncement(value string) (a Announcement, ok bool) {
	if len(value) > mostAnnounced {
		return a, false
	}
	words := strings.Split(value, " ")
	if len(words) < 2 {
		return a, false
	}
	var err error
	a.Until, err = strconv.ParseInt(words[0], 10, 64)
	a.Kinds = strings.Split(words[1], ",")
	a.Arguments = slices.Contains(words[2:], "args")
	return a, err == nil
}

// Post returns what writes an event for a webhook with the commit of its job. Redis may refuse it, and the job ends all the same.
func (s Store) Post(name string, event, args []byte) resque.Effect {
	// The stream is not proven by a read, which workers need no permission for: what Redis refuses there is soft.
	return post.Effect([]resque.Key{s.AnyKey("webhook:" + name), s.HookStateKey(name)}, MostWaiting, event, args).Soft()
}

// Prove finds out whether Redis lets this user write for a webhook. It changes nothing but for how long its keys stay.
func (s Store) Prove(c redis.Conn, name string) error {
	b := resque.Batch{Conn: c}
	b.Send("PEXPIRE", s.HookKey(name).String(), Kept.Milliseconds())
	b.Send("PEXPIRE", s.HookStateKey(name).String(), Kept.Milliseconds())
	if _, err := all(&b); err != nil {
		return s.explain("trying to write for", name, err)
	}
	return nil
}

// all returns the first error of the replies.
func all(b *resque.Batch) ([]any, error) {
	replies, err := b.Receive()
	for _, reply := range replies {
		if refused, bad := reply.(redis.Error); bad && err == nil {
			err = refused
		}
	}
	return replies, err
}
