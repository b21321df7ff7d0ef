package gateway

import (
	"errors"
	"fmt"

	"github.com/goworker/goworker/internal/resque/leases"
)

var (
	// ErrStopping is returned for a call that comes after Stop.
	ErrStopping = errors.New("this server stops and takes no more requests; ask another")

	// ErrNotFoundInTime is returned when a job was not found within what a search may cost, or while its queue
	// rests from the search before.
	ErrNotFoundInTime = errors.New("the job was not found within what a search may read; name its lease, or try again later")

	// ErrResting is the ErrNotFoundInTime of a search that was not made, because the queue rests from the one before, or
	// is being searched.
	ErrResting = fmt.Errorf("the queue rests from another search: %w", ErrNotFoundInTime)

	// ErrReserved is returned when a job cannot be changed because a consumer has it.
	ErrReserved = errors.New("a consumer has the job; force the cancel, or wait until its lease ends")

	// ErrExists is returned when a reserved job has the id that a client chose.
	ErrExists = errors.New("a job of this id is reserved in this queue; choose another id")

	// ErrNoJob is returned when there is no such job.
	ErrNoJob = errors.New("there is no such job")
)

// FullError is returned when a queue has no room.
type FullError = leases.FullError

// PublicationError is returned when a job of several cannot be published. Nothing was published.
type PublicationError struct {
	N   int // which one, from 0
	Err error
}

func (e *PublicationError) Error() string {
	return fmt.Sprintf("job %d of the request cannot be published: %s; nothing was published", e.N+1, e.Err)
}

func (e *PublicationError) Unwrap() error { return e.Err }
