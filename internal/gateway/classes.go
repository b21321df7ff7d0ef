package gateway

import "sync"

// mostHeld is how many held jobs are remembered before the older half is forgotten.
const mostHeld = 50_000

// classes remembers of which class the jobs are that this server has given to clients: an acknowledgement names a job by its queue
// and id, and nobody reads the payload. It is for the history, which names the classes that this server's settings name.
type classes struct {
	named map[string]string // each to itself; it never changes

	mu    sync.Mutex
	young map[held]string
	old   map[held]string // given before all of young
}

// held is a job that a client has.
type held struct{ queue, id string }

// newClasses returns a classes of these names.
func newClasses(names []string) *classes {
	c := &classes{named: make(map[string]string), young: make(map[held]string)}
	for _, name := range names {
		c.named[name] = name
	}
	return c
}

// gave remembers jobs that a client was given.
func (c *classes) gave(jobs []Job) {
	if len(c.named) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range jobs {
		name, ok := c.named[jobs[i].Parsed.Class]
		if !ok {
			continue
		}
		if len(c.young) >= mostHeld {
			c.old, c.young = c.young, make(map[held]string)
		}
		c.young[held{jobs[i].Queue, jobs[i].ID}] = name
	}
}

// done returns the class of a job that has ended; "": it has no name, or another server gave the job to its client.
func (c *classes) done(queue, id string) (name string) {
	if len(c.named) == 0 {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := held{queue, id}
	name, ok := c.young[h]
	if !ok {
		name = c.old[h]
	}
	delete(c.young, h)
	delete(c.old, h)
	return name
}
