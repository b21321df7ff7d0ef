package inspect

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// documentWithin bounds the writing of what was done with jobs after the caller's context has ended.
const documentWithin = 2 * time.Second

// document writes into the documents of waiting jobs what was done with the jobs. It is no part of that step: the jobs are
// where they are, also if this fails, and an end of a job corrects its document.
func (i *Inspector) document(ctx context.Context, changes []resque.DocumentChange) error {
	if len(changes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), documentWithin)
	defer cancel()
	err := i.do(ctx, func(s resque.Store, c redis.Conn) error { return s.ChangeDocuments(c, changes) })
	if err != nil {
		err = prefix.Errorf("the jobs were changed, but their results do not say so: %w", err)
	}
	return err
}
