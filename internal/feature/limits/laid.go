package limits

import (
	"errors"
	"slices"
	"strings"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
	"github.com/goworker/goworker/internal/setting"
)

// Wrong says what is wrong with a limit of a configuration file.
func Wrong(l setting.ClassLimit) error {
	if _, ok := resque.NumbersOf(isRate(l), l.Numbers); !ok {
		return errors.New("a limit is how many jobs run at a time, as in 3, or how many start, as in 5/s, 100/m or 100/m:10 with ten at once")
	}
	if l.Key == "" {
		return nil
	}
	_, _, err := control.ParseKey(l.Key)
	return err
}

func isRate(l setting.ClassLimit) bool { return strings.Contains(l.Numbers, "/") }

// laid is a limit of a configuration file by itself.
func laid(l setting.ClassLimit) Limit {
	of := Limit{Kind: resque.LimitRunning}
	if isRate(l) {
		of.Kind = resque.LimitStarts
	}
	of.Spec, _ = resque.NumbersOf(isRate(l), l.Numbers)
	each, burst, _ := resque.ParseNumbers(of.Spec)
	if isRate(l) {
		of.Rate, of.Burst = each, burst
	}
	if index, path, err := control.ParseKey(l.Key); l.Key != "" && err == nil {
		of.Key = Arg(index, path)
	}
	return of
}

// Lay lays limits over those that a class was registered with. One replaces the numbers of the class's limit that counts the same
// thing, with a key or without one; the name stays, and the program's key too unless the file says where it is. Others are added.
func Lay(class string, registered Of, over []setting.ClassLimit) Of {
	all := slices.Clone(registered)
	used := make([]bool, len(all))
	for _, l := range over {
		limit := laid(l)
		at := -1
		for i, of := range all[:len(used)] {
			if at < 0 && !used[i] && counts(of.Kind) == limit.Kind && (of.Key != nil) == (limit.Key != nil) {
				at = i
			}
		}
		if at < 0 {
			all = append(all, limit)
			continue
		}
		used[at] = true
		all[at].Spec, all[at].Rate, all[at].Burst = limit.Spec, limit.Rate, limit.Burst
		if limit.Key != nil {
			all[at].Key = limit.Key
		}
	}
	return Named(class, all)
}

// counts is the kind of limit that counts the same thing in the fleet.
func counts(kind resque.LimitKind) resque.LimitKind {
	switch kind {
	case resque.LimitRunningHere:
		return resque.LimitRunning
	case resque.LimitStartsHere:
		return resque.LimitStarts
	}
	return kind
}
