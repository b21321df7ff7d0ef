package argv

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits are the units of a size, in lower case. Those of bytes by thousands are as the disks' makers
// have them, those with an i are powers of 1024.
var sizeUnits = map[string]float64{
	"": 1, "b": 1,
	"k": 1e3, "kb": 1e3, "kib": 1 << 10,
	"m": 1e6, "mb": 1e6, "mib": 1 << 20,
	"g": 1e9, "gb": 1e9, "gib": 1 << 30,
}

// ParseSize reads a number of bytes: 512, 512k, 1.5MB, 64MiB.
func ParseSize(value string) (int, error) {
	value = strings.TrimSpace(value)
	end := len(strings.TrimRight(value, "bBkKmMgGiI "))
	number, unit := value[:end], strings.ToLower(strings.TrimSpace(value[end:]))
	n, err := strconv.ParseFloat(number, 64)
	each, known := sizeUnits[unit]
	bytes := n * each
	if err != nil || !known || strings.Trim(number, "0123456789.") != "" || bytes != math.Trunc(bytes) || bytes >= math.MaxInt {
		return 0, errSize
	}
	return int(bytes), nil
}

var errSize = fmt.Errorf("it takes a number of bytes, as in 65536, 512k (512,000), 64MB (64,000,000) or 64MiB (67,108,864)")

// FormatSize writes a number of bytes with the largest unit of which it is a multiple, as in 64MiB.
func FormatSize(bytes int) string {
	for _, u := range []struct {
		unit string
		of   int
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes > 0 && bytes%u.of == 0 {
			return strconv.Itoa(bytes/u.of) + u.unit
		}
	}
	return strconv.Itoa(bytes)
}

// Size is the value of a flag that holds a number of bytes, from one to Most. Without a Most it may be any number, and zero.
type Size struct {
	Bytes int
	Most  int
}

// Set takes a size.
func (s *Size) Set(value string) error {
	n, err := ParseSize(value)
	switch {
	case err != nil:
		return err
	case s.Most > 0 && (n < 1 || n > s.Most):
		return fmt.Errorf("it takes at least 1 byte and at most %s", FormatSize(s.Most))
	}
	s.Bytes = n
	return nil
}

func (s *Size) String() string { return FormatSize(s.Bytes) }

// Type is what the usage calls the value.
func (s *Size) Type() string { return "bytes" }
