package inspect

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
)

// The kinds of a LogEntry. Other programs may write further ones.
const (
	LogOnline  = "online"  // a process or an HTTP server came. More["app"] is the version of its program, where it has the setting AppVersion
	LogOffline = "offline" // it left
	LogLost    = "lost"    // it was found dead

	// A part of a process has failed. More["part"] is its name, Text why.
	LogPartRestarted = "part-restarted" // it is started again
	LogPartFailed    = "part-failed"    // it is not, so the process stops

	// The memory of a process is above its setting MaxRSS, so it stops. Text has both.
	LogMaxRSS = "max-rss"

	// What became of a rule of operators. More["rule"] is its name.
	LogRuleEnded    = "rule-ended"    // its time was over
	LogRuleRestored = "rule-restored" // a process of an older release had overwritten it

	// A version was deployed, as RecordDeploy said. More["app"] is the version, More["by"] who said so, Text is for people.
	LogDeploy = "deploy"

	// A delivery of a webhook has failed for good. More["webhook"] is its name, More["delivery"] the id, Text why.
	LogWebhookDead = "webhook-dead"
)

// LogEntry is something that happened to the fleet.
type LogEntry struct {
	ID      string
	At      time.Time // by Redis's clock
	Kind    string
	Process string
	Version string            // of goworker, in that process
	Text    string            // for people; "": there is no more to say
	More    map[string]string // further fields

	Shard string // of several, where it is
	shard int
}

// Log returns what happened to the fleet: which processes came, left and were lost. It returns at most count entries, the oldest
// first: those behind the place that a call before has returned as next, and with "" the newest ones. About 5,000 are kept.
func (i *Inspector) Log(ctx context.Context, after string, count int) (entries []LogEntry, next string, err error) {
	if count < 1 || count > history.MostLogged {
		return nil, "", fmt.Errorf("goworker: ask for 1 to %d entries of the log, not for %d", history.MostLogged, count)
	}
	all := i.all()
	places := make([]string, len(all))
	if after != "" {
		raw, err := base64.RawURLEncoding.DecodeString(after)
		if places = strings.Split(string(raw), " "); err != nil || len(places) != len(all) {
			return nil, "", fmt.Errorf("goworker: %q is not where the log goes on: %w", after, ErrCursor)
		}
	}
	number := 0
	err = i.each(func(one *Inspector) error {
		at := number
		number++
		return one.do(ctx, func(s resque.Store, c redis.Conn) error {
			lines, err := history.New(s).ReadLog(c, places[at], count)
			for _, l := range lines {
				e := LogEntry{ID: l.ID, At: l.At, Kind: l.Kind, Process: l.Text["process"], Version: l.Text["version"], Text: l.Text["text"], shard: at}
				for _, known := range []string{"process", "version", "text"} {
					delete(l.Text, known)
				}
				if e.More = l.Text; i.several() {
					e.Shard = one.name()
				}
				entries = append(entries, e)
			}
			return err
		})
	})
	slices.SortStableFunc(entries, func(a, b LogEntry) int { return a.At.Compare(b.At) })
	if len(entries) > count { // of several: the others come with the next call
		if after == "" {
			entries = entries[len(entries)-count:]
		} else {
			entries = entries[:count]
		}
	}
	for n := range places {
		for _, e := range slices.Backward(entries) {
			if e.shard == n {
				places[n] = e.ID
				break
			}
		}
		places[n] = cmp.Or(places[n], "0-0")
	}
	return entries, base64.RawURLEncoding.EncodeToString([]byte(strings.Join(places, " "))), err
}
