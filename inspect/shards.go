package inspect

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The failures of several shards are read as if each continued the one before.

// listShards is List over shards.
func (l *FailureList) listShards(ctx context.Context, start, count int) ([]Failure, error) {
	sizes, total := make([]int, len(l.in.shards)), 0
	var errs []error
	for n, one := range l.in.shards {
		size, err := l.of(one).Count(ctx)
		errs = append(errs, one.about(err))
		sizes[n] = int(size)
		total += sizes[n]
	}
	if start < 0 {
		start = max(0, total+start)
	}
	if count < 0 || count > total-start {
		count = total - start
	}
	var all []Failure
	for n, one := range l.in.shards {
		if room := min(sizes[n]-start, count); room > 0 {
			found, err := l.of(one).List(ctx, start, room)
			errs = append(errs, one.about(err))
			all = append(all, found...)
			count -= room
		}
		start = max(0, start-sizes[n])
	}
	return all, errors.Join(errs...)
}

// onShard is a cursor that names the shard, and shardOf reads it.
func (i *Inspector) onShard(number int, after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(i.shards[number].mark() + "\x00" + after))
}

func (i *Inspector) shardOf(cursor string) (number int, after string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	shard, after, ok := strings.Cut(string(raw), "\x00")
	if err != nil || !ok {
		return 0, "", fmt.Errorf("goworker: %q is not where a walk over shards goes on: %w", cursor, ErrCursor)
	}
	number, err = i.marked(shard)
	return number, after, err
}

// searchShards is Search over shards. Its cursor names the shard.
func (l *FailureList) searchShards(ctx context.Context, filter FailureFilter, after string, count int) (found []Failure, next string, err error) {
	at, after, err := l.in.shardOf(after)
	if err != nil {
		return nil, "", err
	}
	for ; at < len(l.in.shards); at, after = at+1, "" {
		if len(found) == count {
			return found, l.in.onShard(at, after), nil
		}
		page, rest, err := l.of(l.in.shards[at]).Search(ctx, filter, after, count-len(found))
		found = append(found, page...)
		if err != nil {
			if at+1 < len(l.in.shards) { // a shard that is away hides no other
				next = l.in.onShard(at+1, "")
			}
			return found, next, l.in.shards[at].about(err)
		}
		if rest != "" {
			return found, l.in.onShard(at, rest), nil
		}
	}
	return found, "", nil
}

// mergeGroups adds the counts of groups.
func mergeGroups(a, b []FailureGroup) []FailureGroup {
	for _, g := range b {
		at := slices.IndexFunc(a, func(of FailureGroup) bool { return of.Class == g.Class && of.Exception == g.Exception })
		if at < 0 {
			a = append(a, g)
			continue
		}
		sum := &a[at]
		sum.Count += g.Count
		if sum.First.IsZero() || !g.First.IsZero() && g.First.Before(sum.First) {
			sum.First = g.First
		}
		if g.Last.After(sum.Last) {
			sum.Last = g.Last
		}
	}
	slices.SortStableFunc(a, func(x, y FailureGroup) int { return cmp.Compare(y.Count, x.Count) })
	return a
}

// mergeInfo adds the counts of shards.
func mergeInfo(a, b FleetInfo) FleetInfo {
	a.Pending, a.Processed, a.Failed, a.Expired = a.Pending+b.Pending, a.Processed+b.Processed, a.Failed+b.Failed, a.Expired+b.Expired
	a.Stalled += b.Stalled
	a.Workers, a.Working = a.Workers+b.Workers, a.Working+b.Working
	a.Servers = append(a.Servers, b.Servers...)
	a.Environment = cmp.Or(a.Environment, b.Environment)
	if a.QueueSizes == nil {
		a.QueueSizes = make(map[string]int64)
	}
	for queue, size := range b.QueueSizes {
		a.QueueSizes[queue] += size
	}
	a.Queues = len(a.QueueSizes)
	return a
}
