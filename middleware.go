package goworker

// Middleware wraps a handler in another, as in net/http:
//
//	func logged(next goworker.Handler) goworker.Handler {
//		return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
//			start := time.Now()
//			err := next.Perform(ctx, d)
//			slog.InfoContext(ctx, "job", "class", d.Class, "took", time.Since(start), "err", err)
//			return err
//		})
//	}
//
// It is called once for each class, not once for each job; the handler it
// returns is used by many workers at the same time. Given several, the first is
// the outermost. It wraps only classes that have a handler: a job of an unknown
// class fails without passing it. A panic of the handler unwinds through it.
type Middleware func(Handler) Handler

// chain wraps h so that mw[0] is the outermost.
func chain(h Handler, mw []Middleware) Handler {
	for i := len(mw) - 1; i >= 0; i-- {
		h = mw[i](h)
	}
	return h
}
