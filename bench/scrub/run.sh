#!/bin/bash
# Compares a scrub with reading the same devices by fio, in alternating cold runs.
#
# usage: bench/scrub/run.sh ZINC DIRECTORY [ROUNDS]
#
# ZINC       the binary (release)
# DIRECTORY  where images of 2 GiB are made, up to three of them; they are used through loop devices, past the page
#            cache (needs root)
#
# For each layout a pool is filled with 1 GiB of random data and aged: a quarter of the files are written again. A round is
# one scrub by `zinc zpool scrub`, which opens the pool, waits for the end of the scrub and closes the pool; and one fio that
# reads as many bytes of each device as the pool has allocated there, in order, 1 MiB at a time, 16 at once.
set -euo pipefail
zinc=$(realpath "$1") rounds=${3:-3}
work=$(mktemp -d "$2/scrub.XXXXXX")
export ZINC_STATE=$work/state ZINC_SOCKETS=$work/sockets
mkdir "$ZINC_STATE" "$ZINC_SOCKETS"
loops=()
cleanup() {
    for l in "${loops[@]}"; do losetup -d "$l"; done
    rm -rf "$work"
}
trap cleanup EXIT
for n in 1 2 3; do
    # What is sparse is not read from the disk.
    dd if=/dev/urandom of="$work/image$n" bs=1M count=2048 status=none
    loops+=("$(losetup --show -f --direct-io=on -b 4096 "$work/image$n")")
done
dd if=/dev/urandom of="$work/data" bs=1M count=8 status=none

# shellcheck source=bench/common.sh
. "$(dirname "$0")/../common.sh"

for layout in disk mirror raidz1; do
    case $layout in
        disk) vdev=("${loops[0]}") copies=1 ;;
        mirror) vdev=(mirror "${loops[@]:0:2}") copies=2 ;;
        raidz1) vdev=(raidz1 "${loops[@]}") copies=3 ;;
    esac
    "$zinc" zpool create -f -O compression=off -m none bench "${vdev[@]}"
    for n in $(seq 128); do
        "$zinc" cp "$work/data" "bench:/f$n"
    done
    for n in $(seq 1 4 128); do
        "$zinc" cp -f "$work/data" "bench:/f$n"
    done
    allocated=$("$zinc" zpool list -Hpo allocated bench)
    case $layout in raidz1) each=$((allocated / 3)) ;; *) each=$allocated ;; esac
    reads=()
    for l in "${loops[@]:0:$copies}"; do
        reads+=(--name "r${#reads[@]}" --filename "$l")
    done
    for _ in $(seq "$rounds"); do
        timed scrub "$zinc" zpool scrub bench
        timed fio fio --direct=1 --rw=read --bs=1M --iodepth=16 --ioengine=libaio --size="$each" --readonly "${reads[@]}"
    done
    a=$(median "$work/f.scrub") b=$(median "$work/f.fio")
    echo "$layout: $((each >> 20)) MiB of each of $copies; scrub $(tr '\n' ' ' <"$work/f.scrub")fio $(tr '\n' ' ' <"$work/f.fio")" \
        "scrub at $(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.0f", b * 100 / a }') % of fio"
    "$zinc" zpool destroy bench
    rm "$work/f.scrub" "$work/f.fio"
done
