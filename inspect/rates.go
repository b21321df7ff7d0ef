package inspect

// Rates returns what happened since an earlier Sample of the same Resque.
func (s Sample) Rates(before Sample) Rates {
	r := Rates{For: s.At.Sub(before.At), Queues: make(map[string]QueueRates, len(s.Queues))}
	if r.For <= 0 {
		return r
	}
	return r
}
