package outcome

import "context"

// Dropping reports whether Unwanted may drop jobs without a field of a feature.
func (s *Set) Dropping() bool {
	for i := range s.features {
		if f := &s.features[i]; f.Drops && f.Live != nil && f.Live() != 0 {
			return true
		}
	}
	return false
}

// Unwanted reads a job that was taken for no worker, such as one for a client, and asks the features that drop jobs whether it
// is still wanted. If it is not, o says why. No feature settles it: that is for its end.
func (s *Set) Unwanted(ctx context.Context, j *Job) (o Outcome, dropped bool) {
	s.read(j)
	for i := range s.features {
		f := &s.features[i]
		if !f.Drops || f.Open == nil || f.Field != "" && j.Parsed.Field(f.Field) == nil {
			continue
		}
		if p := f.Open(j); p != nil {
			if o, dropped = p.Admit(ctx, j); dropped {
				return o, true
			}
		}
	}
	return Outcome{}, false
}
