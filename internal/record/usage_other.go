//go:build !unix

package record

import "time"

// processor returns 0: it is not known here how long the process has used a processor.
func processor() time.Duration { return 0 }
