package resque

func (s Store) stats() string { return s.ns + "go:stats" }

// ExpiredCount counts, with a commit, a job that was dropped because its time was over.
// It cannot be repeated.
func (s Store) ExpiredCount() Effect { return effect("HINCRBY", s.stats(), expiredField, 1) }

// expiredField of the hash of our own counts.
const expiredField = "expired"

// ExpiresAt is the field of a payload that says when the job is not to be run any more.
func ExpiresAt(ms int64) Field { return NumberField("expires_at", ms) }
