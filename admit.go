package goworker

// admit decides, before a job's handler is called, whether it is to run here and now.
// err is what keeps it from running anyway. Nil: go on. It is called in the worker's
// goroutine.
func (w *workers) admit(t *task, d *Delivery, err error) *settlement {
	if instead := w.leave(t, err); instead != nil {
		return instead // whether it has expired is for those to say who know it
	}
	if instead := w.expired(t, d); instead != nil {
		return instead
	}
	w.unlock(d, err)
	return nil
}
