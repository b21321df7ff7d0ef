package resque

import "slices"

// FailedList is the name of the list all failures go to, unless each queue has
// its own.
const FailedList = "failed"

// FailureListOf is the name of the list that failures of a queue go to where
// each queue has its own.
func FailureListOf(queue string) string { return queue + "_failed" }

// FailureLists returns the names of all failure lists, sorted: those of the set, and the
// common one.
func FailureLists(names []string) []string {
	names = append(names, FailedList)
	slices.Sort(names)
	return slices.Compact(names)
}
