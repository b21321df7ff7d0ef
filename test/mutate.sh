# Takes a protection out of a copy of the product, one at a time, and expects a test to fall for
# each. A script that lists mutations sources this file, calls mutate for each and ends with
# finish. Its arguments:
#
#	-n         only check that each mutation still matches its file
#	PREFIX...  only those whose names begin like this
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)" || exit 1
copy=$(mktemp -d) || exit 1
trap 'rm -rf "$copy"' EXIT
trap 'exit 1' INT TERM
log=$copy/mutation.log
dry=
if [ "${1-}" = -n ]; then
	dry=1
	shift
fi
only=$*
wrong=0

# mutate NAME FILE SED [FILE SED]...: prepares a copy in which each sed has changed its file. It
# fails where there is nothing to run.
mutate() {
	name=$1
	shift
	wanted "$name" || return 1
	if [ -z "$dry" ]; then
		rm -rf "$copy"/*
		git ls-files -co --exclude-standard | tar cf - --ignore-failed-read -T - 2>/dev/null | tar xf - -C "$copy"
	fi
	while [ $# -gt 0 ]; do
		if [ ! -f "$1" ] || sed "$2" "$1" | cmp -s "$1" -; then
			fault "nothing in $1 matches; mend this script"
			return 1
		fi
		[ -n "$dry" ] || sed "$2" "$1" >"$copy/$1"
		shift 2
	done
	[ -z "$dry" ] || echo "$name: changes its files"
	[ -z "$dry" ]
}

wanted() {
	[ -z "$only" ] && return 0
	for prefix in $only; do
		case $1 in "$prefix"*) return 0 ;; esac
	done
	return 1
}

# builds FOLDER COMMAND...: runs a command in a folder of the copy, which must succeed.
builds() {
	in_copy "$@" && return 0
	fault "the changed product does not build:"
	cat "$log"
	return 1
}

# in_copy FOLDER COMMAND...: runs a command there; what it prints goes to $log.
in_copy() {
	folder=$1
	shift
	(cd "$copy/$folder" && "$@") >"$log" 2>&1
}

fault() {
	echo "$name: $*"
	wrong=1
}

finish() { exit $wrong; }
