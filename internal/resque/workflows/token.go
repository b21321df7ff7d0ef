package workflows

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
)

// secretLetters is how many letters the secret of a token has.
const secretLetters = 16

// NewSecret returns the secret of a token: 16 random letters and digits.
func NewSecret() string {
	var random [secretLetters * 5 / 8]byte
	_, _ = rand.Read(random[:]) // it never fails: a system without random numbers ends the program
	return base32.StdEncoding.EncodeToString(random[:])
}

// Token is what ends a step from outside.
func Token(workflow string, step int, secret string) string {
	return StepID(workflow, step) + "." + secret
}

// SplitToken reads a token.
func SplitToken(token string) (workflow string, step int, secret string, ok bool) {
	id, secret, _ := cutLast(token)
	workflow, step, ok = SplitID(id)
	return workflow, step, secret, ok && secret != "" && !strings.ContainsAny(secret, " \t\r\n")
}

func cutLast(text string) (before, after string, ok bool) {
	at := strings.LastIndexByte(text, '.')
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+1:], true
}
