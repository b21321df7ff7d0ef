#!/bin/sh
# Protections without which a row of chaos must fall. A row that passes without the protection
# proves nothing. ../mutate.sh says what the arguments are.
set -u
. "$(dirname "$0")/../mutate.sh"

# try NAME ROW FILE SED [FILE SED]...
try() {
	row=$2 of=$1
	shift 2
	mutate "$of" "$@" && builds test/chaos sh -c 'go vet . ../.. && go build -o "$0" .' "$copy/chaos" || return 0
	if in_copy test/chaos "$copy/chaos" -short -faults="$row" -seed="${SEED:-1}"; then
		fault "NOT FOUND: $row passes without this protection"
	else
		echo "$name: found by $row: $(grep -m 1 -E '^ +(WRONG|UNEXPLAINED|LOST):' "$log" | sed 's/^ *//' | cut -c 1-150)"
	fi
}

scripts=internal/resque/scripts
any_epoch='s/^\( *\)if epoch ~= ARGV\[[12]\] then/\1if not epoch then/'
zombie='s/^if epoch ~= \(ARGV\[[12]\]\) then \(.*\)$/if not reaped and epoch ~= \1 then \2\nreaped = false/'
no_gap="s/ or now - last > tonumber(ARGV\[3\])//; s/, 'PX', ARGV\[3\])/)/"

# Reapers trust the fleet's pulse across a gap.
try gap-sigstop redis-sigstop $scripts/renew.lua "$no_gap"
try gap-sleep redis-sleep $scripts/renew.lua "$no_gap"
try gap-pause client-pause $scripts/renew.lua "$no_gap"
try gap-suspend suspend $scripts/renew.lua "$no_gap"
# A script accepts the calls of an epoch that is over.
try epoch-exchange late $scripts/exchange.lua "$any_epoch" \
	$scripts/parts/unlocking.lua "s/call('HGET', KEYS\[2\], 'epoch') ~= argv\[2\] or //"
try epoch-take late $scripts/parts/taking.lua "s/^if epoch ~= ARGV\[2\] then /if not epoch then /"
# A process that was found dead commits all the same.
try zombie-exchange late $scripts/exchange.lua "$zombie"
finish
