package outcome

import "context"

// joined is the policy of a feature that a handler has asked for.
type joined struct {
	feature string
	Policy
}

// Continuer is the policy of a joined feature that adds to Job.Fields once it is decided that the job runs again.
type Continuer interface {
	Continue(j *Job)
}

type jobKey struct{}

// JobOf returns the job whose handler ctx belongs to, nil if there is none. Only what its taker has set, and what was parsed,
// may be read.
func JobOf(ctx context.Context) *Job {
	j, _ := ctx.Value(jobKey{}).(*Job)
	return j
}

// Join has a feature take part in the job whose handler calls it with its context. So a feature that only some runs need
// costs the others nothing. The policy settles behind all others. Called again it returns the same one. It returns nil
// outside a handler, after the handler has returned, and if the job cannot have the feature.
func Join(ctx context.Context, feature string) Policy {
	j := JobOf(ctx)
	if j == nil {
		return nil
	}
	c := &j.context
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != running {
		return nil
	}
	for _, own := range j.joined {
		if own.feature == feature {
			return own.Policy
		}
	}
	for _, f := range j.set.features {
		if f.Name != feature || f.Join == nil {
			continue
		}
		if p := f.Join(j); p != nil {
			j.joined = append(j.joined, joined{feature, p})
			return p
		}
	}
	return nil
}
