// Package flags, imported for its effect, defines the flags of goworker's
// default daemon on flag.CommandLine, for programs that call flag.Parse
// themselves:
//
//	import (
//		"flag"
//
//		"github.com/goworker/goworker"
//		_ "github.com/goworker/goworker/flags"
//	)
//
//	func main() {
//		flag.Parse()
//		goworker.Work()
//	}
//
// A program that lets goworker.Init or goworker.Work parse needs no import of
// it. Nor can a program use it that has a flag of one of the same names: it
// calls goworker.AddFlags after defining its own.
package flags

import (
	"flag"

	"github.com/goworker/goworker"
)

func init() {
	goworker.AddFlags(flag.CommandLine)
}
