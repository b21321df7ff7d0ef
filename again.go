package goworker

// again decides, after a job has failed, whether it is to run another time. Nil: it
// failed for good. d is nil for a payload that is no job.
func (w *workers) again(t *task, d *Delivery, err error) *settlement {
	return nil
}
