package control

import "testing"

// Goroutines that do the same are one, whatever their numbers, arguments and ages are.
func TestStacksAreFolded(t *testing.T) {
	t.Parallel()
	s := fold(`goroutine 7 [select, 3 minutes]:
example.com/a.wait({0x12, 0x34}, 0xc000012)
	/src/a.go:12 +0x1f
created by example.com/a.start in goroutine 1
	/src/a.go:5 +0x2

goroutine 19 [select]:
example.com/a.wait({0x56, 0x78}, 0xc000099)
	/src/a.go:12 +0x1f
created by example.com/a.start in goroutine 4
	/src/a.go:5 +0x2

goroutine 1 [running]:
main.main()
	/src/main.go:3 +0x1

goroutine 20 [chan rec`, true)
	if s.Goroutines != 3 || len(s.Stacks) != 2 || s.Stacks[0].Count != 2 || s.Stacks[0].State != "select" || !s.Cut {
		t.Errorf("%+v", s)
	}
}
