package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
)

// FailureLine is a failure in a file: a line of JSON that Failure.Line writes and ParseFailureLine reads.
type FailureLine struct {
	List   string // where it lies: failed, or the list of a queue, mail_failed
	Shard  int    // of several Redises, the number of the one where it lies
	Record []byte // as it is in Redis, byte for byte
}

// failureLine is its form. A record that is no JSON of one line is Base64.
type failureLine struct {
	List   string          `json:"list"`
	Shard  int             `json:"shard,omitempty"`
	Record json.RawMessage `json:"record,omitempty"`
	Base64 []byte          `json:"base64,omitempty"`
}

// Line returns the failure as a line of JSON, without a line break. Import puts it back as it was.
func (f Failure) Line() []byte {
	l := failureLine{List: f.record.List, Shard: f.shard}
	head, _ := json.Marshal(l)
	if !utf8.Valid(f.Raw) || !json.Valid(f.Raw) || bytes.ContainsAny(f.Raw, "\r\n") || len(bytes.TrimSpace(f.Raw)) != len(f.Raw) {
		l.Base64 = f.Raw
		line, _ := json.Marshal(l)
		return line
	}
	line := slices.Concat(head[:len(head)-1], []byte(`,"record":`), f.Raw) // json.Marshal would rewrite the record
	return append(line, '}')
}

// ParseFailureLine reads a line that Failure.Line wrote.
func ParseFailureLine(line []byte) (FailureLine, error) {
	var l failureLine
	if err := json.Unmarshal(line, &l); err != nil {
		return FailureLine{}, fmt.Errorf("it is no line of an export: %w", err)
	}
	record := []byte(l.Record)
	if len(l.Base64) > 0 {
		record = l.Base64
	}
	switch {
	case len(record) == 0:
		return FailureLine{}, errors.New(`it has no "record", and no "base64"`)
	case l.List != resque.FailedList && (!strings.HasSuffix(l.List, resque.FailureListOf("")) || strings.HasPrefix(l.List, "queue:") || strings.HasPrefix(l.List, "go:")):
		return FailureLine{}, fmt.Errorf("its list %q is no list of failures", l.List)
	}
	return FailureLine{List: l.List, Shard: l.Shard, Record: record}, nil
}

// mostImported is how many records one step of Import writes, and mostImportedBytes how many bytes.
const (
	mostImported      = 500
	mostImportedBytes = 1 << 20
)

// Import puts failures back to the heads of their lists, each before the one before, and returns how many. So failures that are given as Search
// returns them, the newest first, have their old order again, before those that came since. It does not look whether they are there already. Those of a shard that is not among these go to the first. After an error the first so many are in their lists, and the
// next piece of at most 500 may be too.
func (l *FailureList) Import(ctx context.Context, lines ...FailureLine) (imported int, err error) {
	if err := l.in.usable(); err != nil {
		return 0, err
	}
	byList := make(map[*Inspector]int)
	defer func() {
		for one, n := range byList {
			err = one.record(ctx, "Failures.Import", fmt.Sprintf("%d failures", n), int64(n), err)
		}
	}()
	for imported < len(lines) {
		piece := lines[imported:]
		to, size := piece[0], 0
		for n, line := range piece {
			if size += len(line.Record); n > 0 && (line.List != to.List || line.Shard != to.Shard || n >= mostImported || size > mostImportedBytes) {
				piece = piece[:n]
				break
			}
		}
		one := l.in.all()[0]
		if to.Shard > 0 && to.Shard < len(l.in.shards) {
			one = l.in.shards[to.Shard]
		}
		records := make([][]byte, len(piece))
		for n, line := range piece {
			records[n] = line.Record
		}
		err := one.do(ctx, func(s resque.Store, c redis.Conn) error { return failures.New(s).Prepend(c, to.List, records) })
		if err != nil {
			if l.in.several() {
				err = one.about(err)
			}
			return imported, prefix.Errorf("importing failures: %w", err)
		}
		imported += len(piece)
		byList[one] += len(piece)
	}
	return imported, nil
}
