package fingerprint

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Texts of errors as Ruby, PHP, Node, Go and servers write them, and what is left of each.
var texts = []struct{ text, pattern string }{
	// Ruby
	{"Couldn't find User with 'id'=42", "Couldn't find User with ‹text›=‹n›"},
	{"Couldn't find all Users with 'id': (1, 2, 3) (found 2 results, but was looking for 3).", "Couldn't find all Users with ‹text›: (‹n›) (found ‹n› results, but was looking for ‹n›)."},
	{"undefined method `name' for nil:NilClass", "undefined method 'name' for nil:NilClass"},
	{"undefined method 'name' for nil", "undefined method 'name' for nil"},
	{"undefined local variable or method 'foo' for #<Mail:0x00007f8b1c0d2a48 @id=7>", "undefined local variable or method 'foo' for #<Mail:‹n› @id=‹n›>"},
	{"uninitialized constant Foo::Bar", "uninitialized constant Foo::Bar"},
	{"wrong number of arguments (given 1, expected 2)", "wrong number of arguments (given ‹n›, expected ‹n›)"},
	{"execution expired", "execution expired"},
	{"Net::ReadTimeout with #<TCPSocket:(closed)>", "Net::ReadTimeout with #<TCPSocket:(closed)>"},
	{"Failed to open TCP connection to api.example.com:443 (execution expired)", "Failed to open TCP connection to api.example.com:‹n› (execution expired)"},
	{"Connection refused - connect(2) for 10.0.3.17:6379", "Connection refused - connect(‹n›) for ‹addr›"},
	{"No such file or directory @ rb_sysopen - /tmp/upload-20481.csv", "No such file or directory @ rb_sysopen - /tmp/upload-‹n›.csv"},
	{"PG::UniqueViolation: ERROR:  duplicate key value violates unique constraint \"index_users_on_email\"\nDETAIL:  Key (email)=(ada@example.com) already exists.",
		"PG::UniqueViolation: ERROR: duplicate key value violates unique constraint ‹text› DETAIL: Key (email)=(‹email›) already exists."},
	{`PG::UndefinedTable: ERROR:  relation "accounts" does not exist`, "PG::UndefinedTable: ERROR: relation 'accounts' does not exist"},
	{"Mysql2::Error: Lock wait timeout exceeded; try restarting transaction: UPDATE `users` SET `users`.`age` = 7", "Mysql‹n›::Error: Lock wait timeout exceeded; try restarting transaction: UPDATE ‹text› SET ‹text›.‹text› = ‹n›"},
	{"Child process received unhandled signal pid 4711 SIGKILL (signal 9)", "Child process received unhandled signal pid ‹n› SIGKILL (signal ‹n›)"},
	{"app/models/user.rb:42:in `name': no name", "user.rb:‹n›:in ‹text›: no name"},
	{"/srv/app/releases/20261122080000/app/jobs/mail_job.rb:7: bad", "mail_job.rb:‹n›: bad"},
	{"Validation failed: Email has already been taken", "Validation failed: Email has already been taken"},
	{"undefined method `foo' for {:a=>1, \"b\"=>2.5}:Hash", "undefined method 'foo' for {:a=>‹n›, ‹text›=>‹n›}:Hash"},
	// PHP
	{"Undefined array key \"total\"", "Undefined array key ‹text›"},
	{"Call to a member function getName() on null in /var/www/app/Job.php on line 12", "Call to a member function getName() on null in /var/www/app/Job.php on line ‹n›"},
	{"SQLSTATE[23000]: Integrity constraint violation: 1062 Duplicate entry '7-ada' for key 'users.PRIMARY'", "SQLSTATE[‹n›]: Integrity constraint violation: ‹n› Duplicate entry ‹text› for key ‹text›"},
	{"Allowed memory size of 134217728 bytes exhausted (tried to allocate 20480 bytes)", "Allowed memory size of ‹size› exhausted (tried to allocate ‹size›)"},
	{"Maximum execution time of 30 seconds exceeded", "Maximum execution time of ‹duration› exceeded"},
	{"cURL error 28: Operation timed out after 5001 milliseconds with 0 bytes received", "cURL error ‹n›: Operation timed out after ‹duration› with ‹size› received"},
	// Node
	{"Cannot read properties of undefined (reading 'email')", "Cannot read properties of undefined (reading 'email')"},
	{"connect ECONNREFUSED 127.0.0.1:5432", "connect ECONNREFUSED ‹addr›"},
	{"connect ECONNREFUSED ::1:5432", "connect ECONNREFUSED ‹addr›"},
	{"getaddrinfo ENOTFOUND db.internal", "getaddrinfo ENOTFOUND db.internal"},
	{"Unexpected token < in JSON at position 0", "Unexpected token < in JSON at position ‹n›"},
	{"Request failed with status code 503", "Request failed with status code ‹n›"},
	{"timeout of 3000ms exceeded", "timeout of ‹duration› exceeded"},
	{"ENOENT: no such file or directory, open '/tmp/a.txt'", "ENOENT: no such file or directory, open ‹text›"},
	{"Error at Object.<anonymous> (/app/dist/jobs/mail.js:10:15)", "Error at Object.<anonymous> (mail.js:‹n›)"},
	// Go
	{`Get "https://api.example.com/v1/users/123?token=abc": context deadline exceeded`, "Get ‹text›: context deadline exceeded"},
	{"Get https://api.example.com/v1/users/123?token=abc: context deadline exceeded", "Get https://‹host›/v1/users/‹n›: context deadline exceeded"},
	{"dial tcp 10.1.2.3:5432: i/o timeout", "dial tcp ‹addr›: i/o timeout"},
	{"dial tcp [2001:db8::1]:5432: connect: connection refused", "dial tcp ‹addr›: connect: connection refused"},
	{"runtime error: index out of range [5] with length 3", "runtime error: index out of range [‹n›] with length ‹n›"},
	{"interface conversion: interface {} is string, not int64", "interface conversion: interface {} is string, not int‹n›"},
	{"strconv.Atoi: parsing \"12x\": invalid syntax", "strconv.Atoi: parsing ‹text›: invalid syntax"},
	{"job took 1m30.5s, and its limit is 1m0s", "job took ‹duration›, and its limit is ‹duration›"},
	{"http2: server sent GOAWAY and closed the connection; LastStreamID=1999, ErrCode=NO_ERROR", "http‹n›: server sent GOAWAY and closed the connection; LastStreamID=‹n›, ErrCode=NO_ERROR"},
	// ids, times, the rest
	{"order 0d9f2d0a-5b0e-4d7c-9a3e-6a1b2c3d4e5f is gone", "order ‹uuid› is gone"},
	{"commit 4f2a91c07d not found", "commit ‹n› not found"},
	{"commit 1234567890 not found", "commit ‹n› not found"},
	{"commit feedfacecafe not found", "commit ‹n› not found"},
	{"the facade of a notification faded", "the facade of a notification faded"},
	{"No such charge: ch_3MmlLrLkdIwHu7ix0snN0B15", "No such charge: ch_‹n›"},
	{"token expired at 2026-11-22T08:00:00.123Z", "token expired at ‹time›"},
	{"token expired at 2026-11-22 08:00:00 +0100", "token expired at ‹time›"},
	{"token expired at Sun, 22 Nov 2026 08:00:00 GMT", "token expired at ‹time›"},
	{"token expired at Sun Nov 22 08:00:00 UTC 2026", "token expired at ‹time›"},
	{"at 08:00:00 on 11/22/2026 it broke", "at ‹time› on ‹time› it broke"},
	{"Sun is down", "Sun is down"},
	{"mail to <ada.l+x@mail.example.co.uk> bounced", "mail to <‹email›> bounced"},
	{"redis://:secret@cache:6379/0 is away", "redis://‹host›/‹n› is away"},
	{"file of 10 MB, 1.5GiB or 512B", "file of ‹size› or ‹size›"},
	{`bad body: {\"id\":7,\"name\":\"ada\"}`, "bad body: {‹text›:‹n›,‹text›:‹text›}"},
	{"a\x00b\x1b[31m red\xff “in quotes” \u202eevil", "a b [‹duration› red\ufffd ‹text› evil"},
	{"  much \n\n blank\u00a0here \t", "much blank here"},
	{"can't, won't and don't", "can't, won't and don't"},
	{"it has no 'end", "it has no 'end"},
	{"-5 or +7 or 1,234.5 or 6.02e23", "‹n› or ‹n› or ‹n› or ‹n›"},
	{"HTTP 404 – nicht gefunden: Größe 12 ü", "HTTP ‹n› – nicht gefunden: Größe ‹n› ü"},
	{"", ""},
}

func TestPattern(t *testing.T) {
	t.Parallel()
	for _, tt := range texts {
		if got := Pattern(tt.text); got != tt.pattern {
			t.Errorf("%q\n is %q\nnot %q", tt.text, got, tt.pattern)
		}
	}
}

// Texts that differ in numbers, ids, times and names in quotes have one fingerprint.
func TestSameWithOtherValues(t *testing.T) {
	t.Parallel()
	hexes := rapid.StringMatching(`[0-9a-f]{8,40}`)
	kinds := []*rapid.Generator[string]{
		rapid.StringMatching(`[0-9]{1,15}`),
		hexes,
		rapid.StringMatching(`"[A-Za-z0-9 ,.:/]{0,30}"`),
		rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.Float64Range(-1e6, 1e6).Draw(t, "float")) }),
		rapid.Custom(func(t *rapid.T) string {
			return time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "time"), 0).UTC().Format(rapid.SampledFrom([]string{time.RFC3339, time.RFC1123, time.DateTime, time.ANSIC}).Draw(t, "layout"))
		}),
		rapid.Custom(func(t *rapid.T) string {
			return time.Duration(rapid.Int64Range(1, 1e15).Draw(t, "duration")).String()
		}),
		rapid.StringMatching(`[a-z]{1,10}[0-9]{0,3}@[a-z]{1,10}\.(com|org)`),
		rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
		rapid.StringMatching(`(1?[0-9]{1,2}\.){3}1?[0-9]{1,2}(:[0-9]{2,5})?`),
		rapid.StringMatching(`https://[a-z]{1,10}\.example\.org(:[0-9]{2,4})?/users/[0-9]{1,9}(\?[a-z=&0-9]{1,20})?`),
		rapid.StringMatching(`/srv/[0-9]{1,14}/app/user\.rb:[0-9]{1,4}`),
		rapid.StringMatching(`[0-9]{1,7} (bytes|KB|MiB)`),
	}
	rapid.Check(t, func(t *rapid.T) {
		frame := rapid.SliceOfN(rapid.StringMatching(`[g-z]{1,8}`), 2, 6).Draw(t, "frame")
		chosen := rapid.SliceOfN(rapid.IntRange(0, len(kinds)-1), len(frame), len(frame)).Draw(t, "kinds")
		write := func(label string) string {
			var b strings.Builder
			for n, word := range frame {
				fmt.Fprintf(&b, "%s (%s) ", word, kinds[chosen[n]].Draw(t, label))
			}
			return b.String()
		}
		one, other := write("one"), write("other")
		if Pattern(one) != Pattern(other) {
			t.Fatalf("%q is %q\n%q is %q", one, Pattern(one), other, Pattern(other))
		}
	})
}

// What follows the same text in another class or exception is another kind.
func TestOf(t *testing.T) {
	t.Parallel()
	seen := make(map[Key]string)
	for _, of := range [][3]string{{"A", "B", "C"}, {"AB", "", "C"}, {"A", "BC", ""}, {"", "", ""}, {"A", "B", "c"}} {
		k := Of(of[0], of[1], of[2])
		if seen[k] != "" || !IsID(k.String()) {
			t.Errorf("%v: %s is that of %s too", of, k, seen[k])
		}
		seen[k] = fmt.Sprint(of)
	}
	if IsID("0123456789aB") || IsID("0123456789a") || IsID("") {
		t.Error("a text that is no ID is one")
	}
}

// No bytes break a pattern: it is text of at most MaxRunes characters without control characters and double blanks.
func FuzzPattern(f *testing.F) {
	for _, tt := range texts {
		f.Add(tt.text)
	}
	for _, hostile := range []string{"'", "`\"", "a@", "[::", "[", ":", "0x", "1e", "1.", "12:34:", "Nov ", "Sun, ", "://", "a://", "/.rb:", `\"`, "µs", "1 µs", "\xc2", "1\xce", "“”", "v1", "-1", "- 1"} {
		f.Add(hostile)
		f.Add(strings.Repeat(hostile, 700))
	}
	f.Fuzz(func(t *testing.T, text string) {
		pattern := Pattern(text)
		if !utf8.ValidString(pattern) || utf8.RuneCountInString(pattern) > MaxRunes || strings.Contains(pattern, "  ") || strings.ContainsAny(pattern, "\x00\n\t\x1b") {
			t.Errorf("%q is %q", text, pattern)
		}
		if pattern != Pattern(text) {
			t.Errorf("%q has two patterns", text)
		}
	})
}

func BenchmarkPattern(b *testing.B) {
	for name, text := range map[string]string{
		"usual":  `Failed to open TCP connection to api.example.com:443 (Couldn't find User with 'id'=42 in 1.5s at 2026-11-22T08:00:00Z)`,
		"quotes": strings.Repeat(`'a`, 5000), "dots": strings.Repeat("a.", 5000), "colons": strings.Repeat(":", 10000), "numbers": strings.Repeat("1 ", 5000),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Pattern(text)
			}
		})
	}
}
