package resque

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// These are what renewals write and read of the ages of queues. Where Redis refuses a command, refused hears why.

// AddTaken has a renewal add to how many jobs were taken from queues. refused hears why Redis did not.
func (s Store) AddTaken(c *Cargo, taken map[string]int64, refused func(error)) {
	heard := func(err error) {
		if err != nil {
			refused(err)
		}
	}
	for queue, n := range taken {
		c.Write(heard, "HINCRBY", hashKey(s.KeyOfTaken()), queue, n)
	}
	if len(taken) > 0 {
		c.Write(heard, "EXPIRE", hashKey(s.KeyOfTaken()), depthsStay)
	}
}

// ReadTaken has a renewal read of queues how many jobs were taken, and how many are there. An answer that Redis refuses is
// left out.
func (s Store) ReadTaken(c *Cargo, names []string, heard func(queue string, taken, length int64)) {
	if len(names) == 0 {
		return
	}
	var counts []string
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = name
	}
	c.Read(func(reply any, err error) { counts, _ = redis.Strings(reply, err) }, "HMGET", hashKey(s.KeyOfTaken()), args...)
	for i, name := range names {
		c.Read(func(reply any, err error) {
			length, err := redis.Int64(reply, err)
			if err == nil && i < len(counts) {
				taken, _ := strconv.ParseInt(counts[i], 10, 64) // "" is a queue that no process has taken from
				heard(name, taken, length)
			}
		}, "LLEN", listKey(s.KeyOfQueue(name)))
	}
}

// ReadWaiting has a renewal read of queues how many jobs wait, and what the keeper of the fleet knows of them. heard is called for
// each queue whose length Redis says. What is not known of it is a Depth of the time zero.
func (s Store) ReadWaiting(c *Cargo, names []string, heard func(length int64, d Depth)) {
	var depths []string
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = name
	}
	c.Read(func(reply any, err error) { depths, _ = redis.Strings(reply, err) }, "HMGET", hashKey(s.KeyOfDepths()), args...)
	for i, name := range names {
		c.Read(func(reply any, err error) {
			length, err := redis.Int64(reply, err)
			if err != nil {
				return
			}
			var d Depth
			if i < len(depths) {
				d, _ = ParseDepth(depths[i])
			}
			heard(length, d)
		}, "LLEN", listKey(s.KeyOfQueue(name)))
	}
}

// ReadIdle has a renewal read whether queues have jobs, and whether the key is there that pauses the fleet. heard gets whether Redis has said of
// all that it is not, and, if they are wanted, the names of queues that Resque knows.
func (s Store) ReadIdle(c *Cargo, names []string, list bool, heard func(idle bool, listed []string)) {
	idle := true
	none := func(reply any, err error) {
		n, err := redis.Int(reply, err)
		idle = idle && err == nil && n == 0
	}
	for _, name := range names {
		c.Read(none, "EXISTS", listKey(s.KeyOfQueue(name)))
	}
	var listed []string
	if list {
		c.Read(func(reply any, err error) {
			listed, err = redis.Strings(reply, err)
			idle = idle && err == nil
		}, "SMEMBERS", setKey(s.KeyOfQueues()))
	}
	c.Read(func(reply any, err error) {
		none(reply, err)
		heard(idle, listed)
	}, "EXISTS", textKey(s.pauseAll()))
}

// ReadNames has a renewal read a page of the names of queues: own are goworker's own. cursor is
// what the page before said, at first "0", and the last page says "0".
func (s Store) ReadNames(c *Cargo, own bool, cursor string, count int, heard func(names []string, cursor string), refused func(error)) {
	key := setKey(s.KeyOfQueues())
	if own {
		key = setKey(s.ownQueues())
	}
	c.Read(func(reply any, err error) {
		names, next, err := page(reply, err)
		if err != nil {
			refused(err)
			return
		}
		heard(names, next)
	}, "SSCAN", key, cursor, "COUNT", count)
}

// page reads the answer of a scan.
func page(reply any, err error) (items []string, cursor string, _ error) {
	pair, err := redis.Values(reply, err)
	if err != nil {
		return nil, "", err
	}
	if len(pair) != 2 {
		return nil, "", ErrAnswer
	}
	if cursor, err = redis.String(pair[0], nil); err == nil {
		items, err = redis.Strings(pair[1], nil)
	}
	return items, cursor, err
}

// ReadForeign has a renewal read a page of the workers that are registered, and hands on which queues those ask that are not
// goworker's: names and patterns.
func (s Store) ReadForeign(c *Cargo, cursor string, count int, heard func(lists []string, cursor string), refused func(error)) {
	c.Read(func(reply any, err error) {
		ids, next, err := page(reply, err)
		if err != nil {
			refused(err)
			return
		}
		var lists []string
		for _, id := range ids {
			if list, foreign := foreignQueues(id); foreign {
				lists = append(lists, list...)
			}
		}
		slices.Sort(lists)
		heard(slices.Compact(lists), next)
	}, "SSCAN", setKey(s.workers()), cursor, "COUNT", count)
}

// fullList is how long the list of queues in an id or a record is known to be whole.
const fullList = 512

// foreignQueues returns the queues of a worker id, host:pid:queues, unless it is goworker's: there the host ends with
// ".go" and the pid has the number of the worker behind.
func foreignQueues(id string) (list []string, foreign bool) {
	parts := strings.SplitN(id, ":", 3)
	if len(parts) == 3 && strings.HasSuffix(parts[0], GoHost) && strings.Contains(parts[1], "-") {
		return nil, false
	}
	if len(parts) < 3 {
		return []string{"*"}, true // it may take from anywhere
	}
	return splitQueues(parts[2]), true
}

// splitQueues returns the names and patterns of a list. What a list leaves out may stand in another, so it is not looked at.
func splitQueues(list string) (names []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" && !strings.HasPrefix(name, "!") {
			names = append(names, name)
		}
	}
	return names
}

// ReadAsks has a renewal read from the record of a process which queues it asks, and its Duties. It hears false where there is no
// record or Redis refuses it: the process may be about to write it again.
func (s Store) ReadAsks(c *Cargo, process string, heard func(lists []string, duties int, ok bool)) {
	c.Read(func(reply any, err error) {
		f, _ := redis.Values(reply, err)
		if len(f) != 3 || f[0] == nil {
			heard(nil, 0, false)
			return
		}
		queues, _ := redis.String(f[1], nil)
		duties, _ := redis.Int(f[2], nil)
		lists := splitQueues(queues)
		if len(queues) > fullList {
			lists = []string{"*"} // it may have been cut off
		}
		heard(lists, duties, true)
	}, "HMGET", hashKey(s.process(process)), "epoch", "queues", "duties")
}

// ReadTakers has a renewal read how many jobs clients hold, and which servers have records.
func (s Store) ReadTakers(c *Cargo, now time.Time, heard func(leases int, takers []string)) {
	leases := 0
	c.Read(func(reply any, err error) { leases, _ = redis.Int(reply, err) }, "ZCARD", zsetKey(s.KeyOfLeases()))
	c.Read(func(reply any, err error) {
		takers, _ := redis.Strings(reply, err)
		heard(leases, takers)
	}, "ZRANGEBYSCORE", s.ZSetKey("takers"), now.UnixMilli(), "+inf", "LIMIT", 0, 100)
}

// ReadTakerDuties has a renewal read the Duties of a server. It hears false where there is no record or Redis refuses it.
func (s Store) ReadTakerDuties(c *Cargo, server string, heard func(duties int, ok bool)) {
	c.Read(func(reply any, err error) {
		f, _ := redis.Values(reply, err)
		if len(f) != 2 || f[0] == nil {
			heard(0, false)
			return
		}
		duties, _ := redis.Int(f[1], nil)
		heard(duties, true)
	}, "HMGET", s.HashKey("taker:"+server), "started", "duties")
}

// ReadHead has a renewal read the first two jobs of a queue. refused hears why Redis did not, or why they were left out.
func (s Store) ReadHead(c *Cargo, queue string, heard func(jobs [][]byte), refused func(error)) {
	c.Read(func(reply any, err error) {
		if jobs, err := redis.ByteSlices(reply, err); err == nil {
			heard(jobs)
		} else {
			refused(err)
		}
	}, "LRANGE", listKey(s.KeyOfQueue(queue)), 0, 1)
}

// ReadDepths has a renewal read what the keeper before has found out.
func (s Store) ReadDepths(c *Cargo, heard func(map[string]Depth)) {
	c.Read(func(reply any, err error) {
		all, _ := redis.StringMap(reply, err)
		heard(parseDepths(all))
	}, "HGETALL", hashKey(s.KeyOfDepths()))
}

// WriteDepths has a renewal write what the keeper has found out, and remove what it has forgotten.
func (s Store) WriteDepths(c *Cargo, depths map[string]Depth, forgotten []string, refused func(error)) {
	heard := func(err error) {
		if err != nil {
			refused(err)
		}
	}
	if len(depths) > 0 {
		fields := make([]any, 0, 2*len(depths))
		for queue, d := range depths {
			fields = append(fields, queue, d.String())
		}
		c.Write(heard, "HSET", hashKey(s.KeyOfDepths()), fields...)
		c.Write(heard, "EXPIRE", hashKey(s.KeyOfDepths()), depthsStay)
	}
	for names := range slices.Chunk(forgotten, 200) {
		args := make([]any, len(names))
		for i, name := range names {
			args[i] = name
		}
		c.Write(heard, "HDEL", hashKey(s.KeyOfDepths()), args...)
		c.Write(heard, "HDEL", hashKey(s.KeyOfTaken()), args...)
	}
}

// ReadTakenNames has a renewal read a page of the queues that go:taken has, and how many it has.
func (s Store) ReadTakenNames(c *Cargo, cursor string, count int, heard func(names []string, all int, cursor string), refused func(error)) {
	all := 0
	c.Read(func(reply any, err error) { all, _ = redis.Int(reply, err) }, "HLEN", hashKey(s.KeyOfTaken()))
	c.Read(func(reply any, err error) {
		pairs, next, err := page(reply, err)
		if err != nil {
			refused(err)
			return
		}
		var names []string
		for i := 0; i < len(pairs); i += 2 {
			names = append(names, pairs[i])
		}
		heard(names, all, next)
	}, "HSCAN", hashKey(s.KeyOfTaken()), cursor, "COUNT", count)
}
