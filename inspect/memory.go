package inspect

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
)

// KeyFamily is keys for one purpose, and about how much memory they take.
type KeyFamily struct {
	Name string // as KeyRow.Family; "" of other programs' keys
	Keys int64  // that were seen

	Bytes    int64 // of those that were seen; -1: Redis does not say
	Estimate int64 // of all of them: where not all keys of the database were seen, as if the others were like these; -1: unknown
}

// FamilyReport says which keys take the memory of a Redis.
type FamilyReport struct {
	Families []KeyFamily // those with keys, the largest first
	Others   KeyFamily   // the keys of other programs; their bytes are unknown to a user who may use the namespace only
	Looked   int64       // keys that were seen
	Of       int64       // keys that the databases have; 0: Redis does not say
	Whole    bool        // all keys were seen
	Denied   []Denied
}

const (
	defaultMemoryBudget = 150 * time.Millisecond
	memoryStep          = 500  // keys of a step
	mostSized           = 2000 // queues whose lists are measured in any case
)

// MemoryByFamily returns what the keys of Resque and of goworker are and about how much memory they take. It measures the keys that are
// one of their kind, such as the list of failures, and the lists of up to 2,000 queues, and then walks through the others until the
// budget is over (0: 150 ms): SCAN returns them in no order, so those it sees stand for the rest. Whole says that it has seen all.
// A step looks at 500 keys in two round trips, and one is made in any case.
//
// MEMORY USAGE with five samples is an estimate for lists, sets and hashes of unequal elements. Without the rule +memory|usage keys are
// counted, and their bytes are unknown. Over shards each has its part of the budget, and the answers are sums.
func (i *Inspector) MemoryByFamily(ctx context.Context, budget time.Duration) (FamilyReport, error) {
	budget = cmp.Or(budget, defaultMemoryBudget)
	if i.several() {
		return over(i, mergeFamilies, func(one *Inspector) (FamilyReport, error) {
			return one.MemoryByFamily(ctx, max(budget/time.Duration(len(i.shards)), 1))
		})
	}
	return query(ctx, i, func(s resque.Store, c redis.Conn) (FamilyReport, error) {
		w := weigher{s: s, c: c, seen: make(map[string]*weighed), until: clock.System.Now().Add(budget)}
		err := w.run()
		return w.report, refusal(s, err)
	})
}

// weighed is what was measured of a family.
type weighed struct {
	keys         int64
	exact, found int64 // bytes of keys that were measured by name, and by the walk
	unknown      bool  // Redis did not say all of it
}

type weigher struct {
	s      resque.Store
	c      redis.Conn
	until  time.Time
	seen   map[string]*weighed // by family; "" has other programs' keys
	walked int64               // keys that the walk has seen, but for those of the lone ones
	report FamilyReport
}

func (w *weigher) run() error {
	lone, of, _, err := w.s.LoneKeys(w.c, mostSized)
	if err != nil {
		return err
	}
	var here []string
	rows, refused, err := w.s.KeyRows(w.c, lone)
	if err != nil {
		return err
	}
	w.report.Denied = deniedOf(refused)
	for _, row := range rows {
		if row.Type != "none" {
			here = append(here, row.Name)
		}
	}
	if err := w.weigh(here, func(key string) string { return of[key].Name }, true); err != nil {
		return err
	}
	cursor := "0"
	for {
		keys, next, err := w.s.ScanKeys(w.c, cursor, memoryStep)
		if err != nil {
			return err
		}
		keys = slices.DeleteFunc(keys, func(key string) bool { _, measured := of[key]; return measured })
		w.walked += int64(len(keys))
		if err := w.weigh(keys, func(key string) string { f, _ := w.s.FamilyOf(key); return f.Name }, false); err != nil {
			return err
		}
		if cursor = next; cursor == "0" || clock.System.Now().After(w.until) {
			break
		}
	}
	w.report.Looked, w.report.Whole = int64(len(here))+w.walked, cursor == "0"
	total, err := w.s.DatabaseSize(w.c)
	if err != nil {
		denied, ok := w.s.Denied(err)
		if !ok {
			return err
		}
		w.report.Denied = mergeDenied(w.report.Denied, deniedOf([]*resque.DeniedError{denied}))
	}
	w.report.Of = total
	w.sum(total - int64(len(here)))
	return nil
}

// weigh adds keys to their families.
func (w *weigher) weigh(keys []string, family func(key string) string, exact bool) error {
	sizes, refused, err := w.s.MemoryOf(w.c, keys)
	if err != nil {
		return err
	}
	for n, key := range keys {
		name := family(key)
		f := w.seen[name]
		if f == nil {
			f = new(weighed)
			w.seen[name] = f
		}
		f.keys++
		switch {
		case sizes[n] < 0:
			f.unknown = true
		case exact:
			f.exact += sizes[n]
		default:
			f.found += sizes[n]
		}
		if refused != nil && name != "" && sizes[n] < 0 {
			w.report.Denied = mergeDenied(w.report.Denied, deniedOf([]*resque.DeniedError{refused}))
		}
	}
	return nil
}

// sum makes the families of what was measured. rest is how many keys the database has beside the lone ones.
func (w *weigher) sum(rest int64) {
	for name, f := range w.seen {
		k := KeyFamily{Name: name, Keys: f.keys, Bytes: -1, Estimate: -1}
		if !f.unknown {
			k.Bytes = f.exact + f.found
			switch {
			case w.report.Whole:
				k.Estimate = k.Bytes
			case w.report.Of > 0 && w.walked > 0:
				k.Estimate = f.exact + int64(float64(f.found)*max(1, float64(rest)/float64(w.walked)))
			}
		}
		if name == "" {
			w.report.Others = k
		} else {
			w.report.Families = append(w.report.Families, k)
		}
	}
	sortFamilies(w.report.Families)
}

func sortFamilies(all []KeyFamily) {
	slices.SortFunc(all, func(a, b KeyFamily) int {
		return cmp.Or(cmp.Compare(b.Estimate, a.Estimate), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.Name, b.Name))
	})
}

func mergeFamilies(a, b FamilyReport) FamilyReport {
	add := func(x, y KeyFamily) KeyFamily {
		switch {
		case x.Keys == 0:
			return y
		case y.Keys == 0:
			return x
		}
		return KeyFamily{x.Name, x.Keys + y.Keys, plusKnown(x.Bytes, y.Bytes), plusKnown(x.Estimate, y.Estimate)}
	}
	for _, f := range b.Families {
		at := slices.IndexFunc(a.Families, func(of KeyFamily) bool { return of.Name == f.Name })
		if at < 0 {
			a.Families = append(a.Families, f)
		} else {
			a.Families[at] = add(a.Families[at], f)
		}
	}
	sortFamilies(a.Families)
	a.Others = add(a.Others, b.Others)
	a.Looked, a.Of, a.Whole = a.Looked+b.Looked, a.Of+b.Of, a.Whole && b.Whole
	a.Denied = mergeDenied(a.Denied, b.Denied)
	return a
}

// plusKnown adds two numbers, of which -1 is unknown.
func plusKnown(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}
