package httpjob

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
)

// alphabet is Crockford's base 32.
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// digits are the values of its letters, and noDigit of all other bytes.
var digits = func() (values [256]byte) {
	for c := range values {
		values[c] = noDigit
	}
	for value := range alphabet {
		values[alphabet[value]] = byte(value)
	}
	return values
}()

const noDigit = 255

const (
	idLength = 26

	// Version is the digit in front of an id whose publisher asked for one.
	Version = '1'

	// MaxID is how many bytes an id that a producer chose has at most.
	MaxID = 128
)

// NewID returns the id of a job that is published at a time, in ms, and is due some seconds later. It is a ULID: 48 bits
// of time, 48 random bits, and the delay in place of the other random bits, its lowest byte first.
func NewID(ms int64, delay uint32) string {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never returns an error
	high := uint64(ms)<<16 | uint64(binary.BigEndian.Uint16(random[:2]))
	low := uint64(binary.BigEndian.Uint32(random[2:]))<<32 | uint64(bits.ReverseBytes32(delay))
	var id [idLength]byte
	for i := idLength - 1; i >= 0; i-- {
		id[i] = alphabet[low&31]
		low = low>>5 | high<<59
		high >>= 5
	}
	return string(id[:])
}

// Versioned reports whether the publisher of a job asked for a version in its id.
func Versioned(id string) bool { return len(id) == idLength+1 && id[0] == Version }

// ParseID returns when a job was published, in ms, and its delay in seconds. It is false for an id that NewID has not
// made. A version digit in front is passed over.
func ParseID(id string) (ms int64, delay uint32, ok bool) {
	if Versioned(id) {
		id = id[1:]
	}
	if len(id) != idLength || id[0] > '7' {
		return 0, 0, false
	}
	var high, low uint64
	for i := range idLength {
		digit := digits[id[i]]
		if digit == noDigit {
			return 0, 0, false
		}
		high = high<<5 | low>>59
		low = low<<5 | uint64(digit)
	}
	return int64(high >> 16), bits.ReverseBytes32(uint32(low)), true
}

// FirstDue returns when the job was first due, in ms, as its id says.
func FirstDue(id string) (ms int64, ok bool) {
	ms, delay, ok := ParseID(id)
	return ms + int64(delay)*1000, ok
}

// Elapsed returns how many ms ago a job was published, as its id says; 0 for an id that says nothing or is ahead.
func Elapsed(id string, now int64) int64 {
	ms, _, ok := ParseID(id)
	if !ok {
		return 0
	}
	return max(0, now-ms)
}

// TTL returns how many seconds a job may still wait, rounded to the nearest one; 0 for ever.
func TTL(expiresAt, now int64) int64 {
	if expiresAt == 0 {
		return 0
	}
	return (max(0, expiresAt-now) + 500) / 1000
}

// CheckID returns why an id that a producer chose cannot be a job's.
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("the id of the job is empty; give one, or leave it out to have one made up")
	case len(id) > MaxID:
		return fmt.Errorf("the id of the job has %d bytes, and %d are allowed; give a shorter one", len(id), MaxID)
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.:", c) >= 0:
		default:
			return fmt.Errorf("the id %q of the job has a character that is not allowed; use letters, digits and . : - _", id)
		}
	}
	return nil
}
