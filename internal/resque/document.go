package resque

// The keys of what becomes of a job, by its id. The feature that writes them is internal/feature/results.

// KeyOfResult is the document of a job: the hash that says what becomes of it.
func (s Store) KeyOfResult(id string) string { return s.ns + "go:result:" + id }

// KeyOfProgress is how far a job says that it is, as JSON.
func (s Store) KeyOfProgress(id string) string { return s.ns + "go:progress:" + id }

// KeyOfJobLogs is the list of the log lines of a job that were captured.
func (s Store) KeyOfJobLogs(id string) string { return s.ns + "go:logs:" + id }
