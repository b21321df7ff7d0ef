package drain

import (
	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque/groups"
)

// groups makes a job of each group, before its time.
func (d *drain) groups() error {
	for _, k := range d.keys["GroupKey"] {
		if d.DryRun {
			d.Groups++
			continue
		}
		if err := d.do(func(c redis.Conn) error {
			all, err := groups.New(d.store).Flush(c, true, []string{k.Part})
			for _, g := range all {
				if g.Err != nil {
					d.groupsLeft = true
					d.leave(k.Name, 0, g.Err.Error())
				} else if g.Items > 0 {
					d.Groups++
				}
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
