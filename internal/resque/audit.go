package resque

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

var auditScript = script("audit")

// MostAudited is how many changes the audit keeps.
const MostAudited = 10_000

func (s Store) audit() string { return s.ns + "go:audit" }

// AuditKey is the list of the changes that operators made, for scripts that make one and note it in the same step.
func (s Store) AuditKey() string { return s.audit() }

// Audit notes a change that an operator made, as JSON. The last 10,000 are kept, the newest first: some 3 MB. It is a list and no
// stream, because an older release pushes to a list, and trims that to 1,000 with each change of its own.
func (s Store) Audit(c redis.Conn, entry []byte) error {
	var a Call
	a.Key(s.audit())
	a.Arg(entry, MostAudited)
	if _, err := a.Do(c, auditScript); err != nil {
		return fmt.Errorf("writing the change into the audit, key %s: %w", s.audit(), explainIn(scriptText("audit"), err))
	}
	return nil
}

// TryAudit returns the error that Audit would return.
func (s Store) TryAudit(c redis.Conn) error { return s.Audit(c, nil) }

// User returns the name of the connection's user in Redis; "?" if Redis does not say it.
func User(c redis.Conn) string {
	name, err := redis.String(c.Do("ACL", "WHOAMI"))
	if err != nil {
		return "?"
	}
	return name
}

// Audited returns the newest changes.
func (s Store) Audited(c redis.Conn, most int) ([][]byte, error) {
	entries, err := redis.ByteSlices(c.Do("LRANGE", s.audit(), 0, min(most, MostAudited)-1))
	if err != nil {
		return nil, fmt.Errorf("reading the audit: %w", Explain(err))
	}
	return entries, nil
}
