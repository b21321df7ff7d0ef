package checks

import (
	"strconv"
	"strings"
)

// version is that of a Redis. Numbers that are missing are zero.
type version [3]int

func versionOf(text string) (v version) {
	for n, part := range strings.SplitN(text, ".", len(v)) {
		v[n], _ = strconv.Atoi(part)
	}
	return v
}

// before reports whether the version is known and older than another one.
func (v version) before(other version) bool {
	if v == (version{}) {
		return false
	}
	for n := range v {
		if v[n] != other[n] {
			return v[n] < other[n]
		}
	}
	return false
}
