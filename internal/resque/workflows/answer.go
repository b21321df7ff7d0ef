package workflows

import (
	"fmt"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// answer is what a script that joins the state machine returns: a status, and what belongs to it.
type answer []string

// at returns a value of the answer, or "".
func (a answer) at(i int) string {
	if i < len(a) {
		return a[i]
	}
	return ""
}

// do runs a script. What Redis refuses is an error that names the key.
func do(c redis.Conn, script *resque.Script, call *resque.Call) (answer, error) {
	a, err := redis.Strings(call.Do(c, script))
	switch {
	case err != nil:
		return nil, resque.Explain(err)
	case len(a) == 0:
		return nil, resque.ErrAnswer
	case a[0] == "refused":
		e := answer(a)
		return nil, fmt.Errorf("key %s: %w", e.at(2), resque.Explain(redis.Error(e.at(1))))
	}
	return a, nil
}

// added reads the answer of reserve.lua or add.lua, which has so many values if all went well.
func (a answer) added(of Adder, values int) (d Added, err error) {
	var errN error
	err = map[string]error{"gone": ErrNoWorkflow, "ended": ErrEnded, "late": ErrAdderEnded, "changed": ErrChangedSequence}[a[0]]
	if err != nil {
		return d, fmt.Errorf("adding to workflow %s: %w", of.Workflow, err)
	}
	if a[0] == "behind" {
		err, values = fmt.Errorf("adding to workflow %s: %w", of.Workflow, ErrBehind), 4
	}
	if len(a) < values {
		return d, resque.ErrAnswer
	}
	d.State, d.Hash = a[1], a[3]
	for i, n := range map[int]*int{2: &d.Count, 4: &d.First, 5: &d.FirstJoin, 6: &d.FirstScope} {
		if i >= values {
			continue
		}
		if *n, errN = strconv.Atoi(a[i]); errN != nil {
			return d, resque.ErrAnswer
		}
	}
	return d, err
}
