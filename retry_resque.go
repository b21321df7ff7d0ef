package goworker

import (
	"fmt"
	"time"
)

// ResqueRetry makes Retry count as the Ruby plugin resque-retry does, so that Ruby and
// Go may run the same jobs in turns and neither retries more often than was agreed. Give
// Retry the limit and the delays that the Ruby class has:
//
//	goworker.Retry(6, goworker.ResqueDelays(), goworker.ResqueRetry{})
//
// The count is then not in the job's payload but in resque-retry's key of its class and
// arguments, which all equal jobs share. A retried run counts as processed and failed.
// Its job waits, for whole seconds, in resque-scheduler's schedule, where either
// scheduler finds it; a job that has more than class and arguments waits in goworker's
// own. A run's beginning costs a round trip to Redis, which runs that begin at the same
// time share.
type ResqueRetry struct {
	// Ruby34 is for applications on Ruby 3.4 or newer. There the key of jobs with a hash
	// among their arguments differs.
	Ruby34 bool

	// NoFailureKey leaves no record of a retried failure. By default its record is kept
	// while the job waits, where resque-retry's MultipleWithRetrySuppression keeps it and
	// resque-web's tab of retries shows it.
	NoFailureKey bool

	// ExpireAfter is the Ruby class's expire_retry_key_after, in whole seconds; a fraction
	// counts as one more. The count of a job that is to be retried expires that long after
	// the job is due again, so that the count of a job that never comes to its end does not
	// stay for ever. It must be longer than a job that is due waits for a worker and runs:
	// a count that has expired begins at 0 again. 0 sets no expiry and leaves one that Ruby
	// has set. A negative one makes Retry panic.
	ExpireAfter time.Duration
}

func (r ResqueRetry) retry(p *retryPolicy) error {
	p.once("how retries are counted", "ResqueRetry")
	if r.ExpireAfter < 0 {
		return fmt.Errorf("ResqueRetry's ExpireAfter is %s; give a time that is not negative, or leave it out", r.ExpireAfter)
	}
	p.ruby = &r
	return nil
}
