package httpapi

import (
	"encoding/json"

	"github.com/goworker/goworker/internal/httpjob"
)

// Body is the body of a job that was published over HTTP, as a parameter of its handler:
//
//	goworker.Register("HTTPJob", func(ctx context.Context, body httpapi.Body) error { … })
//
// It has the bytes that the producer sent, whatever they are. As an argument of Enqueue it makes a job whose body an HTTP
// consumer gets.
type Body []byte

// UnmarshalJSON takes the body from the argument of a job.
func (b *Body) UnmarshalJSON(argument []byte) error {
	*b = append(Body{}, httpjob.Body([]json.RawMessage{argument})...)
	return nil
}

// MarshalJSON returns the argument for the body.
func (b Body) MarshalJSON() ([]byte, error) { return httpjob.AppendBytes(nil, b), nil }
