package resque

import (
	"cmp"
	"strconv"
	"strings"
)

// CompareIDs compares two ids of entries of a stream, as "1795493214469-0". The one that Redis gave first is less.
func CompareIDs(a, b string) int {
	number := func(id string) (ms, n uint64) {
		first, second, _ := strings.Cut(id, "-")
		ms, _ = strconv.ParseUint(first, 10, 64)
		n, _ = strconv.ParseUint(second, 10, 64)
		return ms, n
	}
	ams, an := number(a)
	bms, bn := number(b)
	return cmp.Or(cmp.Compare(ams, bms), cmp.Compare(an, bn))
}
