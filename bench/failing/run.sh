#!/bin/bash
# Measures a pool while devices fail, come back and are read through: each figure beside what it is compared with, in one run.
#
# usage: bench/failing/run.sh ZINC DIRECTORY [ROUNDS [PART...]]
#
# ZINC       the binary (release)
# DIRECTORY  where five images of 1.5 GiB are made; they are used through loop devices, past the page cache (needs root)
# PART       scrub, resilver, rebuild, degraded or slow; all of them unless some are named
#
# The pool has a volume of 512 MiB of random data, which fio reads and writes over NBD (its engine `nbd`) with a block cache of
# 16 MiB. Rounds alternate between the two things that are compared; each figure is the median.
set -euo pipefail
zinc=$(realpath "$1") rounds=${3:-3} parts=("${@:4}")
[ ${#parts[@]} -gt 0 ] || parts=(scrub resilver rebuild degraded slow)
work=$(mktemp -d "$2/failing.XXXXXX")
export ZINC_STATE=$work/state ZINC_SOCKETS=$work/sockets
mkdir "$ZINC_STATE" "$ZINC_SOCKETS"
socket=$work/nbd
throttle=/sys/fs/cgroup/blkio/zinc-bench
loops=() server=
cleanup() {
    [ -z "$server" ] || kill "$server" || true
    [ -z "$server" ] || wait "$server" || true
    for l in "${loops[@]}"; do losetup -d "$l"; done
    [ ! -d $throttle ] || rmdir $throttle || true
    rm -rf "$work"
}
trap cleanup EXIT
for n in 0 1 2 3 4; do
    # What is sparse is not read from the disk.
    dd if=/dev/urandom of="$work/image$n" bs=1M count=1536 status=none
    loops+=("$(losetup --show -f --direct-io=on -b 4096 "$work/image$n")")
done

# shellcheck source=bench/common.sh
. "$(dirname "$0")/../common.sh"
ratio() { awk -v a="$(median "$work/$1")" -v b="$(median "$work/$2")" 'BEGIN { printf "%.0f", a * 100 / b }'; }
all() { tr '\n' ' ' <"$work/$1"; }
clear_figures() { rm -f "$work"/f.*; }

create() { # BLOCK-SIZE VDEV...
    local block=$1
    shift
    "$zinc" zpool create -f -O compression=off -m none bench "$@"
    "$zinc" zfs create -V 512M -o volblocksize="$block" bench/vol
    serve
    fio --name=fill --ioengine=nbd --uri="nbd+unix:///?socket=$socket" --rw=write --bs=1M --iodepth=8 --refill_buffers \
        --size=512M --end_fsync=1 >"$work/output"
    stop
    allocated=$("$zinc" zpool list -Hpo allocated bench)
}
serve() {
    "$zinc" nbd --cache-mib 16 --socket "$socket" bench/vol >"$work/server" 2>&1 &
    server=$!
    until [ -S "$socket" ]; do sleep 0.1; done
    sleep 0.5
}
stop() {
    kill "$server"
    wait "$server" || true
    server=
    rm -f "$socket"
}
# A load of a number of seconds: appends its requests per second, and microseconds at the 99th percentile.
load() { # NAME SECONDS FIO-OPTIONS...
    local name=$1 seconds=$2
    shift 2
    cold
    fio --name=load --ioengine=nbd --uri="nbd+unix:///?socket=$socket" --size=512M --runtime="$seconds" --time_based \
        --randrepeat=0 --output-format=terse "$@" >"$work/terse"
    # Fields of the version 3: those of reads from the 8th, those of writes 41 behind.
    awk -F';' '{ if (NF > 50) print ($8 > 0 ? $8 : $49) }' "$work/terse" >>"$work/f.$name"
    grep -o '99\.000000%=[0-9]*' "$work/terse" | head -1 | cut -d= -f2 >>"$work/f.$name.p99"
}
device() { # NAME read|write BYTES LOOP: appends to the options of one fio
    options+=(--name="$1" --rw="$2" --size="$3" --filename="$4")
}
timed_fio() { timed "$1" fio --direct=1 --bs=1M --iodepth=16 --ioengine=libaio "${options[@]}"; }

part_scrub() {
    echo "== a load beside a scrub: mirror, random reads of 16 KiB, 4 at once"
    create 16k mirror "${loops[0]}" "${loops[1]}"
    serve
    for _ in $(seq "$rounds"); do
        load alone 8 --rw=randread --bs=16k --iodepth=4
        (while :; do "$zinc" zpool scrub -w bench || break; echo >>"$work/f.scrubs"; done) >/dev/null 2>&1 &
        scrubs=$!
        load beside 8 --rw=randread --bs=16k --iodepth=4
        kill $scrubs
        wait $scrubs || true
        "$zinc" zpool wait -t scrub bench
    done
    echo "requests/s alone $(all f.alone)beside $(all f.beside): $(ratio f.beside f.alone) %; scrubs that ended meanwhile: $(cat "$work/f.scrubs" 2>/dev/null | wc -l)"
    echo "p99 us alone $(all f.alone.p99)beside $(all f.beside.p99)"
    stop
    clear_figures
    "$zinc" zpool destroy bench
}

part_resilver() {
    echo "== resilver of a mirror's new side, blocks of 128 KiB"
    create 128k mirror "${loops[0]}" "${loops[1]}"
    for _ in $(seq "$rounds"); do
        "$zinc" zpool detach bench "${loops[1]}"
        timed resilver "$zinc" zpool attach -f bench "${loops[0]}" "${loops[1]}"
        options=() && device r read "$allocated" "${loops[0]}" && timed_fio read
        options=() && device w write "$allocated" "${loops[3]}" && timed_fio write
        options=() && device r read "$allocated" "${loops[0]}" && device w write "$allocated" "${loops[3]}" && timed_fio both
    done
    echo "$((allocated >> 20)) MiB: seconds of resilver $(all f.resilver)fio read $(all f.read)write $(all f.write)both at once $(all f.both)"
    echo "of the slower of the two: $(ratio f.read f.resilver) or $(ratio f.write f.resilver) %; of both at once on their one disk: $(ratio f.both f.resilver) %"
    clear_figures
    "$zinc" zpool destroy bench
}

part_rebuild() {
    echo "== raidz2 of 4: one leaf rebuilt, blocks of 128 KiB"
    create 128k raidz2 "${loops[@]:0:4}"
    each=$((allocated / 4)) old=${loops[3]} new=${loops[4]}
    for _ in $(seq "$rounds"); do
        timed rebuild "$zinc" zpool replace -f bench "$old" "$new"
        # As much as the rebuild moves: two of the others are enough for a block.
        options=() && device r0 read "$each" "${loops[0]}" && device r1 read "$each" "${loops[1]}"
        device w write "$each" "$old" && timed_fio moved
        options=() && device w write "$each" "$old" && timed_fio written
        swapped=$old old=$new new=$swapped
    done
    echo "$((each >> 20)) MiB each: seconds of rebuild $(all f.rebuild)fio moving as much $(all f.moved)writing alone $(all f.written): $(ratio f.moved f.rebuild) and $(ratio f.written f.rebuild) %"
    clear_figures
    "$zinc" zpool destroy bench
}

part_degraded() {
    echo "== raidz2 of 4: throughput without one and without two leaves"
    create 128k raidz2 "${loops[@]:0:4}"
    for _ in $(seq "$rounds"); do
        for missing in 0 1 2; do
            for l in $(seq $missing); do "$zinc" zpool offline bench "${loops[$l]}"; done
            serve
            load read$missing 6 --rw=read --bs=1M --iodepth=8
            load write$missing 6 --rw=write --bs=1M --iodepth=8 --refill_buffers
            stop
            for l in $(seq $missing); do "$zinc" zpool online bench "${loops[$l]}" >"$work/output"; done
        done
    done
    for way in read write; do
        echo "$way MiB/s: whole $(all f.${way}0)without one $(all f.${way}1): $(ratio f.${way}1 f.${way}0) %, without two $(all f.${way}2): $(ratio f.${way}2 f.${way}0) %"
    done
    clear_figures
    "$zinc" zpool destroy bench
}

slow_leaf() { # LAYOUT
    local limited
    limited=$(cat "/sys/block/$(basename "${loops[1]}")/dev")
    for _ in $(seq "$rounds"); do
        serve
        mkdir -p $throttle
        echo "$server" >$throttle/cgroup.procs
        load healthy 8 --rw=randread --bs=16k --iodepth=4
        echo "$limited 20" >$throttle/blkio.throttle.read_iops_device
        # It is noticed meanwhile.
        load noticed 4 --rw=randread --bs=16k --iodepth=4
        load slow 8 --rw=randread --bs=16k --iodepth=4
        "$zinc" zpool status -s bench | awk '/slow: reads go/ { print "sits out: " $1 }'
        echo "$limited 0" >$throttle/blkio.throttle.read_iops_device
        stop
    done
    echo "$1 p99 us: healthy $(all f.healthy.p99)when it begins $(all f.noticed.p99)slow $(all f.slow.p99):" \
        "$(ratio f.slow.p99 f.healthy.p99) %; requests/s $(ratio f.slow f.healthy) %"
    clear_figures
}

part_slow() {
    echo "== one slow leaf (20 requests a second): random reads of 16 KiB, 4 at once"
    create 16k raidz2 "${loops[@]:0:4}"
    slow_leaf raidz2
    "$zinc" zpool destroy bench
    create 16k mirror "${loops[0]}" "${loops[1]}"
    slow_leaf mirror
    "$zinc" zpool destroy bench
}

for part in "${parts[@]}"; do "part_$part"; done
