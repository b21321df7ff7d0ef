package daemontest

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Gauge counts how many jobs run at a time, by key, and in what order they came.
type Gauge struct {
	Mu    sync.Mutex
	Now   map[string]int
	Most  map[string]int
	Order map[string][]int
	Done  atomic.Int64
}

func NewGauge() *Gauge {
	return &Gauge{Now: make(map[string]int), Most: make(map[string]int), Order: make(map[string][]int)}
}

func (g *Gauge) Run(key string, n int, d time.Duration) {
	g.Hold(key, n, func() { time.Sleep(d) })
}

func (g *Gauge) Hold(key string, n int, while func()) {
	g.Mu.Lock()
	g.Now[key]++
	g.Most[key] = max(g.Most[key], g.Now[key])
	g.Order[key] = append(g.Order[key], n)
	g.Mu.Unlock()
	while()
	g.Mu.Lock()
	g.Now[key]--
	g.Mu.Unlock()
	g.Done.Add(1)
}

func (g *Gauge) Mosts() map[string]int {
	g.Mu.Lock()
	defer g.Mu.Unlock()
	return maps.Clone(g.Most)
}

func TenantJob(class, tenant string, n int) string {
	return fmt.Sprintf(`{"class":%q,"args":[%q,%d]}`, class, tenant, n)
}

// NothingWaits checks that no job lies in a lane and nobody holds a slot.
func (b *Bundle) NothingWaits() {
	b.T.Helper()
	for _, key := range b.Redis.Keys(b.T) {
		for _, part := range []string{"go:lane:", "go:lanes:", "go:slots:", ":queue:"} {
			if strings.Contains(key, part) {
				b.T.Errorf("the key %s is left", key)
			}
		}
	}
}
