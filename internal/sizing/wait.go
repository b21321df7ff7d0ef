package sizing

import (
	"math"
	"time"
)

// late is the part of the jobs that may wait longer than a load says.
const late = 0.05

// Late is the part of the jobs that wait longer than a time, where so many workers serve what keeps busy of them busy in the mean: an
// M/M/c queue by Erlang's formula C. Handlers whose run times vary less than exponentially wait less. It is 1 where the work is
// more than the workers do.
func Late(workers int, busy float64, duration, wait time.Duration) float64 {
	c := float64(workers)
	switch {
	case busy >= c:
		return 1
	case busy == 0:
		return 0
	}
	b := 1.0 // of Erlang's formula B
	for n := 1.0; n <= c; n++ {
		b = busy * b / (n + busy*b)
	}
	return waits(b, c, busy, duration, wait)
}

// waits is Late by Erlang's formula B.
func waits(b, c, busy float64, duration, wait time.Duration) float64 {
	if duration == 0 {
		return 0
	}
	return b / (1 - (busy/c)*(1-b)) * math.Exp(-(c-busy)*wait.Seconds()/duration.Seconds())
}

// Workers is the least number of workers with which 95 of a hundred jobs wait no longer than a time.
func Workers(busy float64, duration, wait time.Duration) int {
	b := 1.0
	for n := 1.0; ; n++ {
		b = busy * b / (n + busy*b)
		if n > busy && waits(b, n, busy, duration, wait) <= late {
			return int(n)
		}
	}
}
