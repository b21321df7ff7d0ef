#!/bin/sh
# Takes a protection out of a copy of the product, one at a time, and expects a row of chaos to
# fall for each. A row that passes without the protection proves nothing.
#
#	./mutations.sh            all of them
#	./mutations.sh gap epoch  those whose names begin like this
set -u
cd "$(dirname "$0")/../.." || exit 1
copy=$(mktemp -d) || exit 1
trap 'rm -rf "$copy"' EXIT
trap 'exit 1' INT TERM
wrong=0

# try NAME ROW FILE SED [FILE SED]...: each sed must change its file.
try() {
	name=$1 row=$2
	shift 2
	wanted "$name" || return 0
	rm -rf "$copy"/*
	git ls-files -co --exclude-standard | tar cf - --ignore-failed-read -T - 2>/dev/null | tar xf - -C "$copy"
	while [ $# -gt 0 ]; do
		sed "$2" "$1" >"$copy/$1"
		if cmp -s "$1" "$copy/$1"; then
			echo "$name: nothing in $1 matches; mend this script"
			wrong=1
			return 0
		fi
		shift 2
	done
	log=$copy/log
	if ! (cd "$copy/test/chaos" && go vet . ../.. && go build -o "$copy/chaos" .) >"$log" 2>&1; then
		echo "$name: the changed product does not build:"
		cat "$log"
		wrong=1
		return 0
	fi
	if (cd "$copy/test/chaos" && "$copy/chaos" -short -faults="$row" -seed="${SEED:-1}") >"$log" 2>&1; then
		echo "$name: NOT FOUND: $row passes without this protection"
		wrong=1
	else
		echo "$name: found by $row: $(grep -m 1 -E '^ +(WRONG|UNEXPLAINED|LOST):' "$log" | sed 's/^ *//' | cut -c 1-150)"
	fi
}

wanted() {
	[ -z "$only" ] && return 0
	for prefix in $only; do
		case $1 in "$prefix"*) return 0 ;; esac
	done
	return 1
}
only=$*

scripts=internal/resque/scripts
any_epoch='s/^\( *\)if epoch ~= ARGV\[[12]\] then/\1if not epoch then/'
zombie='s/^if epoch ~= \(ARGV\[[12]\]\) then \(.*\)$/if not reaped and epoch ~= \1 then \2\nreaped = false/'
zombie_commit='s/^  if epoch ~= \(ARGV\[2\]\) then \(.*\)$/  if not strict and epoch ~= \1 then \2\n  strict = false/'
no_gap="s/ or now - last > tonumber(ARGV\[3\])//; s/, 'PX', ARGV\[3\])/)/"

# Reapers trust the fleet's pulse across a gap.
try gap-sigstop redis-sigstop $scripts/renew.lua "$no_gap"
try gap-sleep redis-sleep $scripts/renew.lua "$no_gap"
try gap-pause client-pause $scripts/renew.lua "$no_gap"
try gap-suspend suspend $scripts/renew.lua "$no_gap"
# A script accepts the calls of an epoch that is over.
try epoch-exchange late $scripts/exchange.lua "$any_epoch"
try epoch-commit late $scripts/commit.lua "$any_epoch"
try epoch-take late $scripts/take.lua "$any_epoch"
# A process that was found dead commits all the same.
try zombie-exchange late $scripts/exchange.lua "$zombie"
try zombie-commit late $scripts/commit.lua "$zombie_commit"
exit $wrong
