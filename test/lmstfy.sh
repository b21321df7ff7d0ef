#!/bin/sh
# Holds the HTTP API to lmstfy itself, which is built from its published module: plays the tables of v1 against it, and its
# clients' own tests against goworker. Nothing of it is kept.
version=v1.0.15
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)" || exit 1
work=$(mktemp -d) || exit 1
pids=
trap 'kill $pids 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# port N: one of six in a row, from PORTS on, that nothing may listen on.
port() { echo $((${PORTS:-27390} + $1)); }

# up COMMAND...: succeeds within half a minute.
up() {
	for _ in $(seq 300); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	echo "$* does not succeed" >&2
	exit 1
}

go mod download "github.com/bitleak/lmstfy@$version" || exit 1
cp -r "$(go env GOMODCACHE)/github.com/bitleak/lmstfy@$version" "$work/lmstfy" && chmod -R u+w "$work/lmstfy" || exit 1
# Its tests start Redis in Docker by this file. Ours takes what runs.
cat >"$work/lmstfy/config/preset.go" <<'EOF'
package config

import (
	"os"
	"strconv"
)

type PresetConfigForTest struct{ *Config }

func CreatePresetForTest(string, ...string) (*PresetConfigForTest, error) {
	port, _ := strconv.Atoi(os.Getenv("PRESET_PORT"))
	admin, _ := strconv.Atoi(os.Getenv("PRESET_ADMIN"))
	pool := map[string]RedisConf{DefaultPoolName: {Addr: os.Getenv("PRESET_REDIS")}}
	return &PresetConfigForTest{&Config{Host: "127.0.0.1", Port: port, AdminPort: admin, Pool: pool}}, nil
}

func (*PresetConfigForTest) Destroy() {}
EOF
(cd "$work/lmstfy" && go build -o "$work/theirs" ./server && go test -c -o "$work/client.test" ./client) || exit 1
(cd cmd/goworker && go build -o "$work/ours" .) && go test -c -o "$work/httpapi.test" ./httpapi || exit 1

for n in 0 1; do
	mkdir "$work/redis$n"
	redis-server --port "$(port $n)" --dir "$work/redis$n" --appendonly yes --save '' >"$work/redis$n.log" &
	pids="$pids $!"
	up redis-cli -p "$(port $n)" ping
done
cat >"$work/lmstfy.toml" <<EOF
Host = "127.0.0.1"
Port = $(port 2)
AdminPort = $(port 3)
[AdminRedis]
Addr = "127.0.0.1:$(port 0)"
[Pool.default]
Addr = "127.0.0.1:$(port 0)"
EOF
(cd "$work" && exec ./theirs -c lmstfy.toml -p lmstfy.pid) >"$work/theirs.log" 2>&1 &
pids="$pids $!"
"$work/ours" serve --listen "127.0.0.1:$(port 4)" --admin-listen "127.0.0.1:$(port 5)" --redis "redis://127.0.0.1:$(port 1)/" \
	--access-log=false >"$work/ours.log" 2>&1 &
pids="$pids $!"
up curl -fs "http://127.0.0.1:$(port 3)/version"
up curl -fs "http://127.0.0.1:$(port 4)/readyz"

wrong=0
echo "the tables of v1, against lmstfy $version:"
(cd httpapi && LMSTFY="http://127.0.0.1:$(port 2)" LMSTFY_TOKENS="http://127.0.0.1:$(port 3)/token/" \
	"$work/httpapi.test" -test.run TestV1Table) || wrong=1
echo "the tests of lmstfy's client, against goworker:"
(cd "$work/lmstfy/client" && PRESET_PORT=$(port 4) PRESET_ADMIN=$(port 5) PRESET_REDIS="127.0.0.1:$(port 1)" \
	"$work/client.test" -test.v) >"$work/client.log" 2>&1 || wrong=1
grep -E '^ *(---|FAIL|panic|[a-z_]+\.go:)' "$work/client.log"
exit $wrong
