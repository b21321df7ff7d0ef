package payload

import (
	"errors"

	"github.com/goworker/goworker/internal/msgpack"
)

// JSON returns the JSON of a job. Bytes that are an item of a MessagePack queue become JSON; all others, and an item that
// cannot be read, are returned as they are.
func JSON(raw []byte) []byte {
	if !msgpack.Is(raw) {
		return raw
	}
	text, err := msgpack.AppendPayload(nil, raw)
	if err != nil {
		return raw
	}
	return text
}

// Pack appends the item of a job to dst. It reports false, and returns dst as it was, for a job that would not come back
// byte for byte: it stays JSON, which MessagePack queues hold too. So does a job with a priority, which scripts know by
// its first bytes.
func Pack(dst, raw []byte) (item []byte, ok bool) { return msgpack.AppendItem(dst, raw) }

// parseItem is Parse of an item.
func parseItem(raw []byte) (Payload, error) {
	text, err := msgpack.AppendPayload(make([]byte, 0, 2*len(raw)+64), raw)
	if err != nil {
		wrong := new(msgpack.Error)
		errors.As(err, &wrong)
		return Payload{}, &Error{Reason: wrong.Reason, packed: true}
	}
	p, err := Parse(text)
	p.Text = text
	return p, err
}

// PackedError says that a job in MessagePack lies where Ruby's workers read.
type PackedError struct {
	Queue string
}

func (e *PackedError) Error() string {
	return "the payload is MessagePack, and queue " + e.Queue + " holds JSON, which Ruby's workers read; push the job as JSON, or to the queue msgpack:" + e.Queue
}

// Exception is that of an Error.
func (e *PackedError) Exception() string { return "Resque::Helpers::DecodeException" }
