package resque

import "slices"

// NewHash is a hash that begins with the push of a job, in the same step.
type NewHash struct {
	Keys   []string // that of the hash, then others. If there are others, all are removed first
	TTL    int64    // ms
	Fields []any    // fields and values: texts and whole numbers
}

// effects are the hash as rows.
func (h *NewHash) effects() (effects []Effect) {
	if len(h.Keys) > 1 {
		for _, key := range h.Keys {
			effects = append(effects, effect("DEL", anyKey(key))) // a few kilobytes: not worth a thread of Redis's, or a permission
		}
	}
	key := hashKey(h.Keys[0])
	return append(effects, effect("HSET", key, h.Fields...), effect("PEXPIRE", key, h.TTL))
}

// newHashes are those of a Bulk.
type newHashes struct {
	next   []NewHash   // of the job that is being written
	groups []hashGroup // of jobs without guards
}

// hashGroup is hashes that differ by their keys only. They belong to the jobs of one unit.
type hashGroup struct {
	NewHash
	unit  int // counted from 1
	each  int // how many keys each has
	count int
}

// Begin adds a hash to the job that Encode began. Those of many jobs with the same fields, class and queue in one
// call cost little more than the two commands that each needs.
func (b *Bulk) Begin(h NewHash) {
	if b.hashes == nil {
		b.hashes = new(newHashes)
	}
	b.hashes.next = append(b.hashes.next, h)
}

// guarded has the hashes of a guarded job written with it.
func (n *newHashes) guarded(g []Guarded) []Guarded {
	for i := range n.next {
		g = append(g, Guarded{Effects: n.next[i].effects()})
	}
	n.next = n.next[:0]
	return g
}

// put puts the hashes of a job of a unit, counted from 1, into groups.
func (n *newHashes) put(unit int) {
	for _, h := range n.next {
		if last := len(n.groups) - 1; last >= 0 {
			g := &n.groups[last]
			if g.unit == unit && g.each == len(h.Keys) && g.TTL == h.TTL && slices.Equal(g.Fields, h.Fields) {
				g.Keys, g.count = append(g.Keys, h.Keys...), g.count+1
				continue
			}
		}
		n.groups = append(n.groups, hashGroup{h, unit, len(h.Keys), 1})
	}
	n.next = n.next[:0]
}

// rows appends the rows of the hashes of a unit, counted from 1.
func (n *newHashes) rows(c *rowCall, unit int) {
	for i := range n.groups {
		g := &n.groups[i]
		if g.unit != unit {
			continue
		}
		for keys := range slices.Chunk(g.Keys, g.each) {
			h := NewHash{keys, g.TTL, g.Fields}
			for _, e := range h.effects() {
				c.row(e, nil)
			}
		}
	}
}

// args returns what a call of plain jobs says of hashes: their keys, and the values in front of all others.
func (n *newHashes) args() (keys, values []any) {
	values = make([]any, 3, 3+16*len(n.groups))
	for i := range n.groups {
		g := &n.groups[i]
		for _, key := range g.Keys {
			keys = append(keys, key)
		}
		values = append(values, g.each, g.count, g.TTL, len(g.Fields))
		values = append(values, g.Fields...)
	}
	values[0], values[1], values[2] = "#", len(keys), len(values)-3
	return keys, values
}
