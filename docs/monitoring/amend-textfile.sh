#!/bin/sh
# amend's metrics for node_exporter's textfile collector, which needs no listener of amend's own.
#
#   amend-textfile.sh DIRECTORY     once; run it each 15 to 60 s from a timer, as the daemon's user
#
# Writes DIRECTORY/amend.prom, or DIRECTORY/$AMEND_PROM where several users share one. The file is
# whole at any time. Where no daemon answers it says `amend_up 0` and nothing else, and this exits 1.
set -eu

directory=${1:?usage: amend-textfile.sh DIRECTORY}
name=${AMEND_PROM:-amend.prom}
if [ -n "${AMEND_RUNTIME_DIR:-}" ]; then
	runtime=$AMEND_RUNTIME_DIR
elif [ -n "${XDG_RUNTIME_DIR:-}" ]; then
	runtime=$XDG_RUNTIME_DIR/amend
else
	runtime=$HOME/.local/state/amend/run
fi

# A dot in front: the collector reads *.prom only, and never half a file.
new=$(mktemp "$directory/.$name.XXXXXX")
trap 'rm -f "$new"' EXIT
up=1
curl --silent --show-error --fail --max-time 5 --unix-socket "$runtime/api.sock" \
	http://amend/metrics >"$new" || {
	up=0
	: >"$new"
}
{
	echo '# HELP amend_up Whether the daemon answered.'
	echo '# TYPE amend_up gauge'
	echo "amend_up $up"
} >>"$new"
chmod 644 "$new" # the collector is another user
mv -f "$new" "$directory/$name"
[ "$up" = 1 ]
