// Command release builds the archives of cmd/goworker from a commit, the same bytes each time, and checks that the commit is ready for its tags.
// RELEASING.md says when each of its verbs is run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

const usage = `usage:
  release prepare -version v1.2.3     write the version into CHANGELOG.md and the go.mod files
  release check   -version v1.2.3     name all that keeps the commit from being tagged
  release build   -version v1.2.3     build the archives, their SBOMs and SHA256SUMS
  release verify  -version v1.2.3     build them again, from nothing, and compare`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	repository := flags.String("repository", "..", "a clone of goworker")
	version := flags.String("version", "", "the version, such as v1.2.3")
	commit := flags.String("commit", "HEAD", "what is built or checked")
	out := flags.String("out", "../dist", "the folder of the archives")
	platforms := flags.String("platforms", strings.Join(Platforms, ","), "what they are built for")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s takes flags only, and was given %s", args[0], flags.Arg(0))
	}
	if err := canonical(*version); err != nil {
		return err
	}
	r := Release{Repository: *repository, Commit: *commit, Version: *version, Platforms: strings.Split(*platforms, ",")}
	switch args[0] {
	case "prepare":
		return prepare(*repository, *version, time.Now())
	case "check":
		return check(*repository, *commit, *version)
	case "build":
		return r.Build(*out)
	case "verify":
		return r.verify(*out)
	}
	return errors.New(usage)
}
