package drain

import (
	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// own moves the jobs of goworker's own queues to the queues of the same names that Ruby reads, as JSON. It comes behind the steps
// that put jobs into these queues.
func (d *drain) own() error {
	if !d.DryRun { // the steps before may have made some
		if err := d.scan(); err != nil {
			return err
		}
	}
	for _, k := range d.keys["ownQueue"] {
		if err := d.ownQueue(k); err != nil {
			return err
		}
	}
	return nil
}

func (d *drain) ownQueue(k resque.OwnKey) error {
	queue := d.store.OwnQueueOf(k)
	stays, broken := 0, 0
	next, largest, idle := firstPiece, 1, 0
	for done := false; !done; {
		err := d.do(func(c redis.Conn) error {
			raws, err := d.store.Peek(c, queue, stays, next)
			if done = len(raws) == 0; err != nil || done {
				return err
			}
			var move []resque.OwnJob
			var jobs [][]byte
			for _, raw := range raws {
				largest = max(largest, len(raw))
				if _, err := payload.Parse(raw); err != nil {
					broken++
					stays++
					continue
				}
				move = append(move, resque.OwnJob{Raw: raw, JSON: payload.JSON(raw)})
				jobs = append(jobs, raw)
			}
			next = piece(largest)
			if d.DryRun {
				d.Own += len(move)
				stays += len(move)
			} else if len(move) > 0 {
				n, err := d.store.DrainOwn(c, queue, move)
				d.Own += n
				if err == nil {
					err = idles(&idle, n, k.Name)
				}
				if err != nil {
					return err
				}
			}
			d.ignore(jobs)
			return nil
		})
		if resque.IsWrongType(err) {
			d.leave(k.Name, 0, err.Error())
			return nil
		}
		if err != nil {
			return err
		}
	}
	if broken > 0 {
		d.leave(k.Name, broken, "items that are no jobs, which end a Ruby worker; look at them with LRANGE, then DEL the key")
	}
	return nil
}
