package delayedbridge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goworker/goworker/delayedbridge"
)

// The bytes are those that delayed and go-delayed were seen to write.
func TestRecordedTasks(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, task, call string }{
		{"two numbers", "92 a7'pkg.Two' c4 03 92 01 02", "Two 1 2"},
		{"two numbers of other sizes", "92 a7'pkg.Two' c4 07 92 cc ff d2 ff ff ff ff", "Two 255 -1"},
		{"one number, bare", "92 a7'pkg.Int' c4 01 05", "Int 5"},
		{"a negative number", "92 a7'pkg.Int' c4 01 ff", "Int -1"},
		{"one text", "92 a8'pkg.Text' c4 05 a4'test'", "Text test"},
		{"bytes of Python for a text", "92 a8'pkg.Text' c4 06 c4 04'test'", "Text test"},
		{"bytes", "92 a9'pkg.Bytes' c4 05 c4 03 00 01 ff", "Bytes \x00\x01\xff"},
		{"a text for bytes", "92 a9'pkg.Bytes' c4 05 a4'test'", "Bytes test"},
		{"an array of bytes", "92 a9'pkg.Array' c4 05 c4 03 00 01 ff", "Array [0 1 255]"},
		{"an array of bytes as a list", "92 a9'pkg.Array' c4 05 93 00 01 cc ff", "Array [0 1 255]"},
		{"a shorter array of bytes", "92 a9'pkg.Array' c4 03 c4 01 07", "Array [7 0 0]"},
		{"an array of bytes that has a text", "92 a6'pkg.ID' c4 04 c4 02 0a ff", "ID 0aff"},
		{"the text of such an array", "92 a6'pkg.ID' c4 05 a4'0aff'", "ID 0aff"},
		{"such arrays in a list", "92 a7'pkg.IDs' c4 09 92 c4 02 00 01 c4 02 02 03", "IDs [0001 0203]"},
		{"a map with numbers as keys beside a struct", "92 a7'pkg.Map' c4 09 92 82 01 a1'x' ff a1'z' 92 01 a1'y'", "Map map[-1:z 1:x] {A:1 B:y}"},
		{"structs in a map with numbers as keys", "92 a8'pkg.Maps' c4 07 81 cd 01 00 92 01 a1'y'", "Maps map[256:{A:1 B:y}]"},
		{"a list is the one argument", "92 a8'pkg.List' c4 04 93 01 02 03", "List [1 2 3]"},
		{"a list for any value", "92 a7'pkg.Any' c4 03 92 01 c3", "Any [1 true]"},
		{"a struct is the array of its fields", "92 a6'pkg.F1' c4 07 92 01 a4'test'", "F1 {A:1 B:test}"},
		{"a shorter array after it leaves no value over", "92 a6'pkg.F1' c4 02 91 02", "F1 {A:2 B:}"},
		{"an empty array after it", "92 a6'pkg.F1' c4 01 90", "F1 {A:0 B:}"},
		{"a struct as Python's map", "92 a6'pkg.F1' c4 09 82 a1'A' 07 a1'b' a2'no'", "F1 {A:7 B:no}"},
		{"a number and a struct", "92 a6'pkg.F2' c4 09 92 01 92 01 a4'test'", "F2 1 {A:1 B:test}"},
		{"three", "92 a6'pkg.F3' c4 0c 93 01 92 01 a4'test' 92 02 03", "F3 1 {A:1 B:test} [2 3]"},
		{"the rest alone", "92 a6'pkg.F4' c4 04 93 01 02 03", "F4 [1 2 3]"},
		{"one of the rest, bare", "92 a6'pkg.F4' c4 01 01", "F4 [1]"},
		{"none of the rest", "a6'pkg.F4'", "F4 []"},
		{"the rest behind others", "92 a6'pkg.F5' c4 10 94 01 92 01 a4'test' 92 02 03 93 04 05 06", "F5 1 {A:1 B:test} [2 3] [4 5 6]"},
		{"the rest behind others, empty", "92 a6'pkg.F5' c4 0d 94 01 92 01 a4'test' 92 02 03 90", "F5 1 {A:1 B:test} [2 3] []"},
		{"the rest behind others, nil", "92 a6'pkg.F5' c4 0d 94 01 92 01 a4'test' 92 02 03 c0", "F5 1 {A:1 B:test} [2 3] []"},
		{"no arguments, as go-delayed packs them", "92 a8'pkg.None' c4 01 c0", "None"},
		{"no arguments, empty", "92 a8'pkg.None' c4 00", "None"},
		{"no arguments, an empty array", "92 a8'pkg.None' c4 01 90", "None"},
		{"no arguments, nil in the place of the bin", "92 a8'pkg.None' c0", "None"},
		{"no arguments, a bare text as Python sends it", "a8'pkg.None'", "None"},
		{"no arguments, an array of one", "91 a8'pkg.None'", "None"},
		{"nil for a pointer", "92 a9'pkg.Maybe' c4 01 c0", "Maybe true"},
		{"MessagePack before it had bin", "92 a7'pkg.Two' a3 92 01 02", "Two 1 2"},
		{"a nested struct", "92 a9'pkg.Outer' c4 3a 95 93 a4'Jack' a4'skip' d6 ff 5e 0b e1 00" +
			" 92 92 01 a1'a' 92 02 a1'b' 81 a1'k' 92 03 a1'c' c0 c4 03'end'",
			"Outer Jack 2020-01-01 00:00:00 +0000 UTC [{A:1 B:a} {A:2 B:b}] {A:3 B:c} <nil> end"},
		{"an embedded struct", "92 aa'pkg.Embeds' c4 05 92 92 01 02 03", "Embeds 1 2 3"},
		{"a Python task whose name is registered", "92 a9'app.m:add' 92 01 02", "app.m:add 1 2"},
		{"such a one of Python 1.2, with retry", "94 a9'app.m:add' 92 03 04 80 02", "app.m:add 3 4"},
		{"such a one of go-delayed", "93 a9'app.m:add' 92 05 06 c0", "app.m:add 5 6"},
	}
	b := setup(t, delayedbridge.Queue{Name: "calc"})
	b.Settings.Concurrency = 1
	b.Start()
	n := 0
	for _, test := range tests {
		b.task(sized(t, test.task))
		n++
		b.Eventually("the task runs: "+test.name, func() bool { return len(b.called()) == n || b.Stat("failed") > 0 })
		if got := b.called(); len(got) < n || got[n-1] != test.call {
			t.Fatalf("%s: called %q, want %q; failures %+v", test.name, got[max(0, len(got)-1):], test.call, b.Failures())
		}
	}
	b.nothingLeft()
}

// sized sets the size of a bin, which is the byte after c4 at the end of the name, to what follows: so the table needs no counting.
func sized(t testing.TB, text string) string {
	t.Helper()
	head, packed, found := strings.Cut(text, "' c4 ")
	if !found || !strings.HasPrefix(text, "92") {
		return text
	}
	return fmt.Sprintf("%s' c4 %02x%s", head, len(recordedBytes(t, packed))-1, packed[2:])
}

// What cannot be a job becomes a failure, and the bridge goes on.
func TestTasksThatFail(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, task, class, says string }{
		{"an unknown path is a job that fails", "92 a8'pkg.Nope' c4 03 92 01 02", "pkg.Nope", "no handler is registered"},
		{"one argument too many", "92 a7'pkg.Two' c4 04 93 01 02 03", "pkg.Two", "argument"},
		{"one too few", "92 a7'pkg.Two' c4 01 01", "pkg.Two", "argument"},
		{"a text for a number", "92 a7'pkg.Int' c4 02 a1'x'", "pkg.Int", "argument 1"},
		{"more fields than the struct has", "92 a6'pkg.F1' c4 05 93 01 a1'x' 03", "pkg.F1", "argument 1"},
		{"a task of Python", "93 a7'os:kill' 92 01 02 81 a1'k' 05", "os:kill", "it is a function of Python"},
		{"a task of Python, trimmed", "91 a7'os:kill'", "os:kill", "it is a function of Python"},
		{"arguments by name", "93 a9'app.m:add' 91 01 81 a1'y' 02", "app.m:add", "arguments by name"},
		{"more bytes than the array has", "92 a9'pkg.Array' c4 06 c4 04 00 01 02 03", "pkg.Array", "argument 1"},
		{"more bytes than an array with a text has", "92 a6'pkg.ID' c4 05 c4 03 ff ff ff", "pkg.ID", "argument 1"},
		{"a map with a list as a key", "92 a7'pkg.Map' c4 09 92 81 90 a1'x' 92 01 a1'y'", "InvalidPayload", "key of type array"},
		{"a number that JSON does not have", "92 a7'pkg.Any' c4 09 cb 7f f0 00 00 00 00 00 00", "InvalidPayload", "pkg.Any"},
		{"bytes that end too soon", "92 a7'pkg.Two' c4 09 92 01", "InvalidPayload", "ends in the middle"},
		{"packed arguments that end too soon", "92 a7'pkg.Two' c4 02 93 01", "InvalidPayload", "ends in the middle"},
		{"bytes behind the end", "92 a7'pkg.Two' c4 03 92 01 02 00", "InvalidPayload", "1 bytes follow its end"},
		{"bytes behind the arguments", "92 a7'pkg.Two' c4 04 92 01 02 00", "InvalidPayload", "1 bytes follow its end"},
		{"JSON", "'{\"class\":\"pkg.Two\"}'", "InvalidPayload", "no MessagePack array"},
		{"nothing", "", "InvalidPayload", "no MessagePack array"},
		{"an empty array", "90", "InvalidPayload", "0 elements"},
		{"a name that is a number", "92 01 c4 00", "InvalidPayload", "does not begin with the name"},
		{"no name", "92 a0 c4 00", "InvalidPayload", "no name"},
		{"a name that is not UTF-8", "92 a1 ff c4 00", "InvalidPayload", "not UTF-8"},
		{"a map in place of the arguments", "92 a7'pkg.Two' 80", "InvalidPayload", "element 2"},
		{"an array that claims four billion elements", "92 a8'pkg.List' c4 05 dd ff ff ff ff", "InvalidPayload", "ends in the middle"},
	}
	b := setup(t, delayedbridge.Queue{Name: "calc"})
	b.Start()
	for i, test := range tests {
		b.task(test.task)
		b.Eventually("the task fails: "+test.name, func() bool { return len(b.Failures()) == i+1 })
		f := b.Failures()[i]
		if !strings.Contains(string(f.Payload), fmt.Sprintf(`"class":%q`, test.class)) || !strings.Contains(f.Error, test.says) || f.Queue != "msgpack:calc" {
			t.Errorf("%s: %s: %s, in %s", test.name, f.Payload, f.Error, f.Queue)
		}
	}
	b.task("92 a7'pkg.Two' c4 03 92 01 02")
	b.Eventually("the next task runs", func() bool { return len(b.called()) == 1 })
	b.nothingLeft()
}
