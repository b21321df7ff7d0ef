//go:build !unix

package goworker

import "os"

// There are no such signals here. Pause, Resume and CancelJobs do what they do.
var sigCancel, sigPause, sigResume os.Signal
