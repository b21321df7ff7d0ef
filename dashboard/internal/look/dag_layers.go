package look

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A graph is laid out in layers: a step stands right of all that it waits for. Steps that are alike (the same name,
// the same steps before and after) become one box, and what is too much for a picture is folded into a box that says
// how many it holds.

const (
	alike     = 4   // as many steps of one name become a box
	layerMost = 12  // boxes of a layer
	layersMax = 40  // layers of a picture
	routesMax = 300 // edges of a picture; nobody can follow more
	pointsMax = 400 // points of all edges; those beyond run straight
)

// box is a step or several as the picture shows them.
type box struct {
	step    Step
	members []int // indexes of the steps
	layer   int
	order   float64 // place within its layer
	dummy   bool    // a point that an edge passes through on its way over a layer

	x, y, w, h float64
}

// graph is a laid-out picture: its boxes, and of each drawn edge the boxes it passes, the points included.
type graph struct {
	boxes  []*box
	layers [][]*box
	routes [][]*box
}

// layered puts steps into boxes, boxes into layers, and orders each layer so that few edges cross.
func layered(steps []Step, edges []Edge) *graph {
	after := links(len(steps), edges)
	layer := depths(after)
	g := &graph{}
	of := make([]*box, len(steps))
	g.merge(steps, after, layer, of)
	g.fold(of)
	g.route(after, of)
	g.arrange()
	return g
}

// links returns the steps after each step, sorted and each once. Edges to nowhere and to the step itself are left out.
func links(n int, edges []Edge) [][]int {
	after := make([][]int, n)
	for _, e := range edges {
		if e.From >= 0 && e.From < n && e.To >= 0 && e.To < n && e.From != e.To {
			after[e.From] = append(after[e.From], e.To)
		}
	}
	for i := range after {
		slices.Sort(after[i])
		after[i] = slices.Compact(after[i])
	}
	return after
}

// depths returns for each step the length of the longest way to it. Steps of a circle, which no workflow has, stay
// where the walk found them.
func depths(after [][]int) []int {
	layer, before := make([]int, len(after)), make([]int, len(after))
	for _, all := range after {
		for _, to := range all {
			before[to]++
		}
	}
	var ready []int
	for i, n := range before {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		for _, to := range after[i] {
			layer[to] = max(layer[to], layer[i]+1)
			if before[to]--; before[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
	return layer
}

// merge makes a box of each step, or one of several that are alike.
func (g *graph) merge(steps []Step, after [][]int, layer []int, of []*box) {
	before := make([][]int, len(steps))
	for i, all := range after {
		for _, to := range all {
			before[to] = append(before[to], i)
		}
	}
	same := make(map[string][]int)
	var keys []string
	for i, s := range steps {
		key := fmt.Sprintf("%d\x00%s\x00%v\x00%v", layer[i], s.Name, before[i], after[i])
		if same[key] == nil {
			keys = append(keys, key)
		}
		same[key] = append(same[key], i)
	}
	for _, key := range keys {
		members := same[key]
		if len(members) < alike {
			for _, i := range members {
				g.add(steps, []int{i}, layer[i], of)
			}
			continue
		}
		g.add(steps, members, layer[members[0]], of)
	}
}

func (g *graph) add(steps []Step, members []int, layer int, of []*box) {
	b := &box{step: steps[members[0]], members: members, layer: layer}
	if len(members) > 1 {
		b.step = together(steps, members)
	}
	g.boxes = append(g.boxes, b)
	for _, i := range members {
		of[i] = b
	}
}

// worst are states in the order in which the one of a box with several is chosen.
var worst = []string{"failed", "stalled", "running", "retrying", "delayed", "waiting", "cancelled"}

// together is one step for several.
func together(steps []Step, members []int) Step {
	first := steps[members[0]]
	all := Step{Name: first.Name, Href: first.Href, State: first.State}
	at := len(worst)
	for _, i := range members {
		s := steps[i]
		n := max(1, s.Count)
		all.Count += n
		switch {
		case s.Count > 1:
			all.Done += s.Done
			all.Failed += s.Failed
		case s.State == "done":
			all.Done++
		case s.State == "failed":
			all.Failed++
		}
		if w := slices.Index(worst, s.State); w >= 0 && w < at {
			at, all.State = w, s.State
		}
	}
	return all
}

// fold makes a layer no higher than layerMost and the picture no wider than layersMax: the boxes beyond become one.
func (g *graph) fold(of []*box) {
	layers := make(map[int][]*box)
	deepest := 0
	for _, b := range g.boxes {
		b.layer = min(b.layer, layersMax-1)
		layers[b.layer] = append(layers[b.layer], b)
		deepest = max(deepest, b.layer)
	}
	g.boxes = nil
	for l := 0; l <= deepest; l++ {
		all := layers[l]
		if len(all) > layerMost {
			byWorst := slices.Clone(all)
			slices.SortStableFunc(byWorst, func(a, b *box) int { return cmp.Compare(rank(a.step.State), rank(b.step.State)) })
			keep, rest := byWorst[:layerMost-1], byWorst[layerMost-1:]
			var members []int
			var inner []Step
			for _, b := range rest {
				members = append(members, b.members...)
				inner = append(inner, b.step)
			}
			indexes := make([]int, len(inner))
			for i := range indexes {
				indexes[i] = i
			}
			more := &box{step: together(inner, indexes), members: members, layer: l}
			more.step.Name, more.step.Href = "and "+Plural(len(members), "more step", "more steps"), ""
			for _, i := range members {
				of[i] = more
			}
			all = append(slices.DeleteFunc(slices.Clone(all), func(b *box) bool { return !slices.Contains(keep, b) }), more)
		}
		g.layers = append(g.layers, all)
		g.boxes = append(g.boxes, all...)
	}
}

func rank(state string) int {
	if at := slices.Index(worst, state); at >= 0 {
		return at
	}
	return len(worst)
}

// route makes the edges between boxes. One that passes a layer gets a point there, so that no line runs through a box.
func (g *graph) route(after [][]int, of []*box) {
	type pair struct{ from, to *box }
	seen := make(map[pair]bool)
	points := 0
	for i, all := range after {
		for _, j := range all {
			p := pair{of[i], of[j]}
			if p.from == p.to || seen[p] || p.to.layer <= p.from.layer || len(g.routes) == routesMax {
				continue
			}
			seen[p] = true
			way := []*box{p.from}
			for l := p.from.layer + 1; l < p.to.layer && points < pointsMax; l++ {
				points++
				point := &box{dummy: true, layer: l}
				g.layers[l] = append(g.layers[l], point)
				way = append(way, point)
			}
			g.routes = append(g.routes, append(way, p.to))
		}
	}
}

// arrange moves each box towards the middle of its neighbours, back and forth, and keeps the order that follows.
func (g *graph) arrange() {
	before, after := make(map[*box][]*box), make(map[*box][]*box)
	for _, way := range g.routes {
		for i := 1; i < len(way); i++ {
			before[way[i]] = append(before[way[i]], way[i-1])
			after[way[i-1]] = append(after[way[i-1]], way[i])
		}
	}
	for _, layer := range g.layers {
		place(layer)
	}
	for range 4 {
		for i := range g.layers {
			sortBy(g.layers[i], before)
		}
		for i := len(g.layers) - 1; i >= 0; i-- {
			sortBy(g.layers[i], after)
		}
	}
}

func sortBy(layer []*box, near map[*box][]*box) {
	middle := make(map[*box]float64, len(layer))
	for _, b := range layer {
		middle[b] = b.order
		if n := near[b]; len(n) > 0 {
			sum := 0.0
			for _, o := range n {
				sum += o.order
			}
			middle[b] = sum / float64(len(n))
		}
	}
	slices.SortStableFunc(layer, func(a, b *box) int { return cmp.Compare(middle[a], middle[b]) })
	place(layer)
}

// place gives the boxes of a layer their places, as far from the middle of the picture as they are.
func place(layer []*box) {
	for i, b := range layer {
		b.order = float64(i) - float64(len(layer)-1)/2
	}
}

// title is the name of a box with its number.
func (b *box) title() string {
	name := b.step.Name
	if strings.TrimSpace(name) == "" {
		name = "step"
	}
	if b.step.Count > 1 && !strings.HasPrefix(name, "and ") {
		name += " × " + Whole(b.step.Count)
	}
	return name
}
