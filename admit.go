package goworker

// admit decides, before a job's handler is called, whether it is to run here and now.
// err is what keeps it from running anyway. Nil: go on. It is called in the worker's
// goroutine.
func (w *workers) admit(t *task, d *Delivery, err error) *ending {
	if left := w.leave(t, d, err); left != nil {
		return left // whether it has expired is for the processes that know it
	}
	if expired := w.expired(t, d); expired != nil {
		return expired
	}
	w.unlock(d, err)
	return nil
}
