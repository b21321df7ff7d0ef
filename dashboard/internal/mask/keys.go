package mask

import "bytes"

// isSecret reports whether a word makes a key secret. Its plural does too, and a number behind it changes nothing.
func isSecret(word []byte) bool {
	switch string(word) {
	case "password", "passwd", "pwd", "passphrase", "secret", "token", "apikey", "authorization", "cookie", "session", "card", "cvv", "cvc", "iban", "ssn",
		"private", "credential":
		return true
	}
	return false
}

// secretParts make a key secret wherever they stand in it, and secretEnds at the end of a word.
var (
	secretParts = [][]byte{[]byte("password"), []byte("passwd"), []byte("passphrase"), []byte("apikey"), []byte("credential"), []byte("authorization"), []byte("privatekey"), []byte("cardnumber"), []byte("sessionid")}
	secretEnds  = [][]byte{[]byte("token"), []byte("secret"), []byte("cookie")}
)

// secretKey reports whether the words of a key say that its value is secret. Words end at all that is no letter or digit, and where
// small letters become large: accessToken, API-KEY, X-Auth-Token.
func secretKey(key []byte) bool {
	var room [64]byte
	joined := room[:0] // the key in small letters, without what is between its words
	word := 0          // where its last word begins
	for i, c := range key {
		switch {
		case 'A' <= c && c <= 'Z':
			small := i > 0 && !isUpper(key[i-1])
			if small || i+1 < len(key) && 'a' <= key[i+1] && key[i+1] <= 'z' {
				if secretWord(joined[word:]) {
					return true
				}
				word = len(joined)
			}
			joined = append(joined, c|0x20)
		case 'a' <= c && c <= 'z', isDigit(c), c >= 0x80:
			joined = append(joined, c)
		default:
			if secretWord(joined[word:]) {
				return true
			}
			word = len(joined)
		}
	}
	if secretWord(joined[word:]) {
		return true
	}
	for _, part := range secretParts {
		if len(joined) >= len(part) && bytes.Contains(joined, part) {
			return true
		}
	}
	// APIkeyS and the like are divided in odd places.
	return secretWord(joined)
}

func secretWord(word []byte) bool {
	for len(word) > 0 && isDigit(word[len(word)-1]) {
		word = word[:len(word)-1]
	}
	if len(word) < 3 {
		return false
	}
	if isSecret(word) {
		return true
	}
	if word[len(word)-1] == 's' {
		word = word[:len(word)-1]
	}
	if isSecret(word) {
		return true
	}
	for _, end := range secretEnds {
		if bytes.HasSuffix(word, end) {
			return true
		}
	}
	return false
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlnum(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' }
