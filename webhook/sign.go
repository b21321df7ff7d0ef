package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/prefix"
)

// The header fields of a delivery over HTTP.
const (
	// DeliveryHeader has the id of the delivery. It is the same in each attempt.
	DeliveryHeader = "Goworker-Delivery"

	// SignatureHeader has the time of the attempt and its signature: t=1732420800,v1=5257a8…
	SignatureHeader = "Goworker-Signature"
)

// Errors of Verify.
var (
	ErrSignature = prefix.New("the signature of the delivery is not that of its key")
	ErrTime      = prefix.New("the delivery was signed too long ago, or its sender's clock is wrong")
)

// Verify checks a delivery that was received: its header SignatureHeader and the bytes of its body. It returns nil, ErrTime if the
// time of the signature differs by more than tolerance from this machine's, or ErrSignature. With tolerance 0 Verify accepts any time.
// The comparison takes the same time for any wrong signature.
//
// The signature is the HMAC of SHA-256, in hexadecimal digits, over the seconds t as the header has them, a full stop and the
// body. If there are several v1, as while a key changes, one of them has to be right.
func Verify(header string, body, key []byte, tolerance time.Duration) error {
	return verify(header, body, key, tolerance, clock.System.Now())
}

func verify(header string, body, key []byte, tolerance time.Duration, now time.Time) error {
	var at string
	var signatures []string
	for field := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(field), "="); name {
		case "t":
			at = value
		case "v1":
			signatures = append(signatures, value)
		}
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || len(key) == 0 {
		return ErrSignature
	}
	right := false
	for _, s := range signatures {
		if mac, err := hex.DecodeString(s); err == nil && hmac.Equal(mac, sum(at, body, key)) {
			right = true
		}
	}
	if !right {
		return ErrSignature
	}
	if off := now.Sub(time.Unix(seconds, 0)).Abs(); tolerance > 0 && off > tolerance {
		return ErrTime
	}
	return nil
}

// sign returns the value of SignatureHeader.
func sign(now time.Time, body, key []byte) string {
	at := strconv.FormatInt(now.Unix(), 10)
	return "t=" + at + ",v1=" + hex.EncodeToString(sum(at, body, key))
}

func sum(at string, body, key []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(at + "."))
	h.Write(body)
	return h.Sum(nil)
}
