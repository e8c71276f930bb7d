#!/bin/bash
# Instructions that the queues and the statistics cost, by callgrind, while small records are copied
# into a pool in memory. README.md says what came out.
#
# usage: bench/stats/run.sh ZINC [BEFORE]
#   ZINC    the program; built with debug information, so that functions have names
#   BEFORE  another build of it to compare the whole with
set -euo pipefail
readonly zinc=$(realpath "${1:?usage: bench/stats/run.sh ZINC [BEFORE]}")
readonly work=$(mktemp -d /dev/shm/statsbench.XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work"
head -c 60M /dev/urandom > data
readonly ours='LeafQueue::(submit|send|now)|Issued::end|LeafStats::count|Lines::(push|take)|ByType::'

for program in "$zinc" ${2:+"$(realpath "$2")"}; do
    truncate -s 0 vdev
    truncate -s 400M vdev
    "$program" zpool create -f bench "$work/vdev"
    "$program" zfs create -o compression=off -o recordsize=8K -d "$work" bench/f
    echo "== $program"
    valgrind --tool=callgrind --callgrind-out-file=profile "$program" cp -d "$work" data bench/f:/x \
        2>&1 | grep Collected
    callgrind_annotate --inclusive=yes --threshold=100 profile | grep -E "$ours" | head -12 || true
    rm -f profile
done
