//go:build !unix

package usage

import "time"

// Processor returns 0: it is not known here how long the process has used a processor.
func Processor() time.Duration { return 0 }
