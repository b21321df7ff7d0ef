package checks

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// userChecks are about what Redis lets its users do.
var userChecks = []*Check{{
	Number: 17, Name: "tracking-silent", Severity: Warning, Uses: Doctor, Title: "whether Redis notifies of changed keys",
	Sentence: "Redis does not notify a connection from here of changed keys ({why}): daemons only look at their queues each -interval",
	Remedy:   "connect to Redis directly, or through a proxy that passes messages; allow the command CLIENT",
	look:     tracking,
}, {
	Number: 18, Name: "tracking-full", Severity: Warning, Uses: Doctor, Title: "the table of keys that Redis notifies of",
	Bound:    Bound{0.95, "share"},
	Sentence: "Redis keeps {keys} keys to notify of and has room for {most}: it forgets some, and wakes workers for nothing",
	Remedy:   "raise tracking-table-max-keys; 0 is no limit",
	Command:  `redis-cli -u "$REDIS_URL" CONFIG SET tracking-table-max-keys 0`,
	look: func(l *look) error {
		info, err := info(l)
		if err != nil {
			return err
		}
		keys, _ := info.Number("tracking_total_keys")
		most, err := numberOf(l, "tracking-table-max-keys")
		if err == nil && most > 0 && float64(keys) >= l.check.Bound.Value*float64(most) {
			l.find(values{"keys": keys, "most": most})
		}
		return err
	},
}, {
	Number: 19, Name: "user-refused", Severity: Error, Uses: Doctor, Title: "what the workers' Redis user may do",
	Sentence: "the Redis user {user} may not run everything that workers need: {rules} is missing",
	Remedy:   "add the rules to that user, or all of the minimal ACL in docs/redis.md",
	Command:  `redis-cli -u "$REDIS_URL" ACL SETUSER {user} {each}`,
	look: func(l *look) error {
		return refusals(l, func(r resque.Refusals) []string { return r.Needs })
	},
}, {
	Number: 20, Name: "user-not-notified", Severity: Warning, Uses: Doctor, Title: "whether Redis may notify the workers' user of jobs and commands",
	Sentence: "the Redis user {user} lacks {rules}: its daemons learn late of new jobs or of operators' commands, or do not answer these",
	Remedy:   "add the rules to that user",
	Command:  `redis-cli -u "$REDIS_URL" ACL SETUSER {user} {each}`,
	look: func(l *look) error {
		return refusals(l, func(r resque.Refusals) []string {
			if len(r.Needs) > 0 {
				return nil // check 19 names it
			}
			return r.Nudge
		})
	},
}}

// tracking has a key of its own change, and waits for the message.
func tracking(l *look) error {
	if l.run.options.ReadOnly {
		return blind{why: "it would write a key of its own for a second"}
	}
	return l.run.door.Do(l, func(s resque.Store, wake redis.Conn) error {
		err := s.Tracks(l.conn, wake)
		var denied *resque.DeniedError
		switch {
		case err == nil, l.Err() != nil:
			return err
		case errors.As(err, &denied) && denied.Rule == "":
			l.find(values{"why": words("the server does not know CLIENT")})
			return nil
		case errors.As(err, &denied):
			return err
		case resque.Refuses(err):
			return blind{why: "Redis refuses writes now"}
		}
		l.find(values{"why": err.Error()})
		return nil
	})
}

// dryRun is the version of Redis that has ACL DRYRUN.
var dryRun = version{7, 0, 0}

// refusals finds the rules that the workers' users lack.
func refusals(l *look, which func(resque.Refusals) []string) error {
	all, err := read(l, "refusals", func() (all []resque.Refusals, err error) {
		info, err := info(l)
		if err != nil {
			return nil, err
		}
		if v := info.Text("redis_version"); versionOf(v).before(dryRun) {
			return nil, blind{why: "Redis " + v + " cannot say what another user may do, which 7.0 and newer can"}
		}
		users, asks, err := l.store.WorkerUsers(l.conn)
		if err != nil {
			return nil, err
		}
		for _, user := range users {
			r, err := l.store.RefusedTo(l.conn, user)
			if err != nil {
				return nil, err
			}
			if r.Reaches() { // else it is of another program: a worker without a key does not start
				all = append(all, r)
			}
		}
		if len(all) > 0 {
			return all, nil
		}
		f, err := fleetOf(l)
		if err != nil || !f.alive() {
			return nil, err
		}
		r, err := l.store.RefusedTo(l.conn, asks) // the workers have the same user
		return []resque.Refusals{r}, err
	})
	for _, r := range all {
		if rules := which(r); len(rules) > 0 {
			l.find(values{"user": r.User, "rules": words(strings.Join(rules, " ")), "each": arguments(rules)})
		}
	}
	return err
}
