// Package fingerprint says which failures are of one kind: those of one class and exception whose texts are
// equal once what varies is taken out of them.
//
// What varies becomes one of these:
//
//	‹host›      the host, user, port and query of a URL; its scheme and the words of its path stay
//	‹email›     an e-mail address
//	‹uuid›      a UUID
//	‹addr›      an IP address, with its port
//	‹time›      a time or a date
//	‹duration›  30s, 1.5 seconds, 2h5m
//	‹size›      512 bytes, 10 MiB
//	‹text›      what stands in quotes, unless it is the name of a method, a column or the like
//	‹n›         a number, hexadecimal digits (8 or more, or behind 0x), or a word of 16 letters and digits or more
//
// A number and a hexadecimal id are one: of ids of 8 digits one in forty has no letter, and one in 2,600 nothing but letters.
// Of file:line the name of the file stays, without its folders. A list of such parts counts as one of them, since its length
// varies too. Blanks are folded.
package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxRunes is how many characters of a pattern are kept.
	MaxRunes = 300

	maxRead = 4096 // bytes of a text that are read
)

// Size is how many bytes a Key has, and IDSize how many hexadecimal digits an ID.
const (
	Size   = 6
	IDSize = 2 * Size
)

// Key is the fingerprint of a failure.
type Key [Size]byte

// String is the key as people see it: 12 hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Of returns the fingerprint of failures of a class with an exception and a pattern.
func Of(class, exception, pattern string) (k Key) {
	var room [512]byte
	b := room[:0]
	for _, text := range []string{class, exception, pattern} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	sum := sha256.Sum256(b)
	copy(k[:], sum[:])
	return k
}

// IsID reports whether a text can be the String of a Key.
func IsID(text string) bool {
	return len(text) == IDSize && strings.Trim(text, "0123456789abcdef") == ""
}

// Pattern returns the text of an error without its varying parts. It takes time in proportion to the text, of which it reads
// 4096 bytes.
func Pattern(text string) string {
	f := folder{text: text}
	if len(text) > maxRead {
		f.text, f.cut = text[:maxRead], true
		for len(f.text) > maxRead-utf8.UTFMax && !utf8.ValidString(f.text[len(f.text)-1:]) { // within a character
			f.text = f.text[:len(f.text)-1]
		}
	}
	var room [2 * utf8.UTFMax * MaxRunes]byte
	f.out = room[:0]
	for f.at < len(f.text) && len(f.out) < utf8.UTFMax*MaxRunes {
		f.step()
	}
	out := strings.TrimRight(string(f.out), " ")
	runes := 0
	for at := range out {
		if runes++; runes > MaxRunes {
			return out[:at]
		}
	}
	return out
}

// folder reads a text from its beginning to its end.
type folder struct {
	text string
	at   int
	cut  bool // the text goes on

	out     []byte
	word    string          // the last thing that was written, if it was a word of letters
	unended map[string]bool // closing quotes that do not stand in the rest of the text
}

// step reads one part of the text.
func (f *folder) step() {
	c := f.text[f.at]
	switch {
	case c < utf8.RuneSelf && isAlnum(c):
		f.alnum()
		return
	case c == ' ' || c == '\n' || c == '\t' || c == '\r':
		f.blank(1)
		return
	case c == '"' || c == '\'' || c == '`':
		if f.quote(f.text[f.at : f.at+1]) {
			return
		}
	case c == '/' || c == '.' || c == '~':
		if f.fresh() && f.file() {
			return
		}
	case c == '-' || c == '+':
		if f.at+1 < len(f.text) && isDigit(f.text[f.at+1]) && !f.behindAlnum() {
			f.at++ // the sign of a number
			return
		}
	case c == '[' || c == ':':
		if n := ipv6(f.text[f.at:]); n > 0 && !f.behindAlnum() {
			f.take(n, address)
			return
		}
	case c >= utf8.RuneSelf:
		f.rune()
		return
	case c < ' ' || c == 0x7f:
		f.blank(1)
		return
	}
	f.copy(1)
	f.word = ""
}

// rune reads a character that is not of ASCII.
func (f *folder) rune() {
	r, n := utf8.DecodeRuneInString(f.text[f.at:])
	switch {
	case unicode.IsSpace(r) || unicode.IsControl(r):
		f.blank(n)
	case unicode.Is(unicode.Cf, r): // it is not seen
		f.at += n
	case r == '“' || r == '‘' || r == '«' || r == '„':
		if !f.quote(f.text[f.at : f.at+n]) {
			f.copy(n)
		}
	case r == utf8.RuneError:
		f.out, f.at = utf8.AppendRune(f.out, utf8.RuneError), f.at+n
	default:
		f.copy(n)
	}
}

// alnum reads a run of ASCII letters and digits. What it begins is tried in the order of the package's page.
func (f *folder) alnum() {
	rest := f.text[f.at:]
	n, digits, hexes := runOf(rest)
	c := rest[0]
	if n < len(rest) && rest[n] == ':' && strings.HasPrefix(rest[n:], "://") && digits == 0 {
		f.url(n)
		return
	}
	fresh := f.fresh()
	if fresh && n < len(rest) && isLocal(rest[n]) {
		if n := email(rest); n > 0 {
			f.take(n, mailAddress)
			return
		}
	}
	switch {
	case n == 8 && hexes == 8 && uuid(rest):
		f.take(36, uuidPart)
		return
	case n > 2 && c == '0' && rest[1]|0x20 == 'x' && hexes == n-1:
		f.take(n, number)
		return
	case hexes == n && n <= 4:
		if n := ipv4(rest); n > 0 {
			f.take(n, address)
			return
		}
		if n := ipv6(rest); n > 0 {
			f.take(n, address)
			return
		}
	}
	if n := timeOf(rest); n > 0 {
		f.take(n, timePart)
		return
	}
	if fresh && f.file() {
		return
	}
	switch {
	case digits < n && (hexes == n && n >= 8 || digits > 0 && n >= 16):
		f.take(n, number)
	case digits == 0:
		f.copy(n)
		f.word = rest[:n]
	case isDigit(c):
		f.number()
	default:
		f.mixed(n)
	}
}

// number reads a number, with its unit if it has one.
func (f *folder) number() {
	rest := f.text[f.at:]
	n := numberOf(rest)
	if kind, unit := unitOf(rest[n:]); unit > 0 {
		f.take(n+unit, kind)
		return
	}
	f.take(n, number)
}

// mixed reads a run whose digits are taken out of the letters.
func (f *folder) mixed(n int) {
	for end := f.at + n; f.at < end; {
		if isDigit(f.text[f.at]) {
			digits := 1
			for f.at+digits < end && isDigit(f.text[f.at+digits]) {
				digits++
			}
			f.take(digits, number)
		} else {
			f.copy(1)
		}
	}
	f.word = ""
}

// fresh reports whether a path or an e-mail address may begin here.
func (f *folder) fresh() bool {
	return f.at == 0 || !isPath(f.text[f.at-1])
}

func (f *folder) behindAlnum() bool {
	return f.at > 0 && isAlnum(f.text[f.at-1])
}

// copy writes n bytes as they are.
func (f *folder) copy(n int) {
	f.out = append(f.out, f.text[f.at:f.at+n]...)
	f.at += n
}

// blank folds blanks.
func (f *folder) blank(n int) {
	if f.at += n; len(f.out) > 0 && f.out[len(f.out)-1] != ' ' {
		f.out = append(f.out, ' ')
	}
}

// take passes over n bytes, in whose place stands a part. A list of equal parts is one.
func (f *folder) take(n int, part string) {
	f.at += n
	f.write(part)
}

func (f *folder) write(part string) {
	f.word = ""
	end := len(f.out)
	if end > 0 && f.out[end-1] == ' ' {
		end--
	}
	if end > 0 && f.out[end-1] == ',' {
		end--
	}
	if bytes.HasSuffix(f.out[:end], []byte(part)) {
		f.out = f.out[:end]
		return
	}
	f.out = append(f.out, part...)
}
