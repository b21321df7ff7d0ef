package resque

import "github.com/gomodule/redigo/redis"

// Sorting is jobs of a queue that an exchange moves into their lanes before its Take: as many of them as are still at the queue's head.
type Sorting struct {
	Queue string
	Jobs  [][]byte // as they were read from the head
	Lanes []Lane   // of each
}

func (s Store) sendSorting(c redis.Conn, of *Sorting) error {
	if of == nil {
		return nil
	}
	return sortScript.SendHash(c, s.sortArgs(of.Queue, of.Jobs, of.Lanes).Args()...)
}

// receiveSorting returns how many jobs were moved: none where Redis refuses that or does not know the script. Sort says why.
func receiveSorting(c redis.Conn, of *Sorting) (moved int, err error) {
	if of == nil {
		return 0, nil
	}
	moved, err = redis.Int(c.Receive())
	if _, refused := err.(redis.Error); refused {
		return 0, nil
	}
	return moved, err
}
