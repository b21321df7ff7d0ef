package resque

import (
	"slices"

	"github.com/gomodule/redigo/redis"
)

var (
	stretchesScript = script("stretches")
	hashesScript    = script("hashes")
)

// keysTogether is how many keys one call of these scripts reads.
const keysTogether = 500

// Stretch is a part of a list: the positions from First to Last.
type Stretch struct {
	Key         string
	First, Last int64
}

// StretchRead is what was read of a Stretch.
type StretchRead struct {
	Length   int64 // of the list
	Elements [][]byte
	Err      error // with which Redis refused the list
}

// ReadStretches reads the first ones of many stretches, in one round trip: about a MiB, and at most so many elements. It returns one answer at
// least. The last one may have fewer elements than its stretch, and has none if its elements are more than are left.
func (s Store) ReadStretches(c redis.Conn, most int, stretches []Stretch) ([]StretchRead, error) {
	if len(stretches) == 0 {
		return nil, nil
	}
	stretches = stretches[:min(len(stretches), keysTogether)]
	var a Call
	a.Arg(pageBytes, most)
	for _, one := range stretches {
		a.Key(one.Key)
		a.Arg(one.First, one.Last)
	}
	reply, err := redis.Values(a.Do(c, stretchesScript))
	if err != nil {
		return nil, err
	}
	if len(reply) == 0 || len(reply) > len(stretches) {
		return nil, ErrAnswer
	}
	all := make([]StretchRead, len(reply))
	for n, one := range reply {
		values, err := redis.Values(Answer(one))
		if err != nil {
			all[n].Err = err
			continue
		}
		if len(values) == 0 {
			return nil, ErrAnswer
		}
		if all[n].Length, err = redis.Int64(values[0], nil); err == nil {
			all[n].Elements, err = redis.ByteSlices(values[1:], nil)
		}
		if wanted := stretches[n].Last - stretches[n].First + 1; err != nil || int64(len(values)-1) > max(0, wanted) {
			return nil, ErrAnswer
		}
	}
	return all, nil
}

// lengths returns how many elements each of many lists has, in a command for 500 of them. A key of another type has none.
func lengths(c redis.Conn, keys []string) ([]int64, error) {
	all := make([]int64, 0, len(keys))
	b := Batch{Conn: c}
	for some := range slices.Chunk(keys, keysTogether) {
		var a Call
		a.Arg(1, 0)
		for _, key := range some {
			a.Key(key)
			a.Arg(0, -1)
		}
		b.Eval(stretchesScript, a)
	}
	replies, err := b.Receive()
	for _, reply := range replies {
		var rows []any
		if err == nil {
			rows, err = redis.Values(Answer(reply))
		}
		for _, row := range rows {
			var n int64
			v, refused := redis.Values(Answer(row))
			if refused == nil && len(v) == 1 {
				n, refused = redis.Int64(v[0], nil)
			}
			if refused != nil && !IsWrongType(refused) && err == nil {
				err = refused
			}
			all = append(all, n)
		}
	}
	if err == nil && len(all) != len(keys) {
		err = ErrAnswer
	}
	return all, err
}

// readHashes calls take for each of many hashes, in their order, with the values of some fields, or with all fields and values. A round trip
// reads about a MiB.
func readHashes(c redis.Conn, keys, fields []string, take func(i int, reply any, err error)) error {
	for done := 0; done < len(keys); {
		some := keys[done:min(len(keys), done+keysTogether)]
		var a Call
		a.Arg(pageBytes)
		for _, key := range some {
			a.Key(key)
		}
		for _, field := range fields {
			a.Arg(field)
		}
		reply, err := redis.Values(a.Do(c, hashesScript))
		if err != nil {
			return err
		}
		if len(reply) == 0 || len(reply) > len(some) {
			return ErrAnswer
		}
		for n, one := range reply {
			v, refused := Answer(one)
			take(done+n, v, refused)
		}
		done += len(reply)
	}
	return nil
}
