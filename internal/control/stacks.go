package control

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/pattern"
	"github.com/goworker/goworker/internal/resque/control"
)

const (
	mostStacks  = 1 << 20          // bytes of stacks
	stacksEvery = 10 * time.Second // the runtime stops the whole program while it writes the stacks
)

// stacks returns the stacks of all goroutines, equal ones once.
func (m *Common) stacks(context.Context, *Call) (any, error) {
	m.mu.Lock()
	now := m.clock.Now()
	if left := stacksEvery - now.Sub(m.stacked); !m.stacked.IsZero() && left > 0 {
		m.mu.Unlock()
		return nil, fmt.Errorf("its stacks were shown a moment ago; try again in %s", left.Round(time.Second))
	}
	m.stacked = now
	m.mu.Unlock()
	text := make([]byte, mostStacks)
	n := runtime.Stack(text, true)
	return fold(string(text[:n]), n == len(text)), nil
}

// These patterns match what differs between the stacks of goroutines that do the same.
var (
	goroutineLine = pattern.New(`^goroutine \d+ \[([^\],]*)(?:, \d+ minutes)?(?:, locked to thread)?\]:$`)
	addresses     = pattern.New(`\(0x[0-9a-f?]+[^)]*\)|\([^()]*0x[0-9a-f]+[^()]*\)|\{0x[^}]*\}`)
	offsets       = pattern.New(` \+0x[0-9a-f]+$`)
	madeBy        = pattern.New(` in goroutine \d+$`)
)

// fold counts equal goroutines. cut says that the text does not have all of them: its last one may be incomplete.
func fold(text string, cut bool) control.Stacks {
	s := control.Stacks{Cut: cut}
	counts := make(map[control.Stack]int)
	for one := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(one, "\n")
		head := goroutineLine.FindStringSubmatch(lines[0])
		if head == nil {
			continue
		}
		for i, line := range lines {
			lines[i] = madeBy.ReplaceAllString(offsets.ReplaceAllString(addresses.ReplaceAllString(line, "(…)"), ""), "")
		}
		counts[control.Stack{State: head[1], Stack: strings.Join(lines[1:], "\n")}]++
		s.Goroutines++
	}
	for one, count := range counts {
		one.Count = count
		s.Stacks = append(s.Stacks, one)
	}
	slices.SortFunc(s.Stacks, func(a, b control.Stack) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Stack, b.Stack), cmp.Compare(a.State, b.State))
	})
	return s
}
