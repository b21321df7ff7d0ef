#!/usr/bin/env bash
# Prints the packages with tests in which the race detector can find little: their code starts no goroutine, and their tests run no
# daemon. make test runs their tests without it, and their benchmarks besides. One that starts a goroutine leaves the list by itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folders() { xargs -r dirname | sort -u; }
go_files() { find . \( -path ./bench -o -path ./cmd -o -path ./test -o -path ./example -o -path ./metrics -o -path ./tracing -o -path ./release -o -name node_modules \) -prune -o -name "$1" -print; }
module='"github.com/goworker/goworker'
comm -23 <(go_files '*_test.go' | folders) <({
	go_files '*.go' | grep -v _test.go$ | xargs grep -lE '(^|\s)go (func|[a-zA-Z_.]+\()|\.Go\(|AfterFunc\('
	go_files '*.go' | xargs grep -lE "$module(/goworkertest|/embedded|/httpapi|/internal/(await|daemontest|gateway|link|part|producer))?\""
} | folders)
