#!/bin/bash
# Compares `zinc check` with `zdb -bcc` and with reading the device by fio, in alternating cold runs.
#
# usage: bench/check/run.sh ZINC POOL ROUNDS DEVICE...
#
# ZINC    the binary (release)        ROUNDS  how often each is run
# DEVICE  the pool's devices: block devices, or images, which are then read through read-only loop devices (needs
#         root), because zinc, zdb and fio all read block devices past the page cache, and files not all of them
#
# fio reads every device from end to end with as many bytes in flight as the check has: its threads times 4 MiB, as blocks of
# 4 MiB and as blocks of 128 KiB. An image must have no holes, which no device has to read (cp --sparse=never).
# ZDB names the zdb to run (default: target/oracle/bin/zdb); without one it is left out.
set -euo pipefail
zinc=$1 pool=$2 rounds=$3
shift 3
zdb=${ZDB:-$(cd "$(dirname "$0")/../.." && pwd)/target/oracle/bin/zdb}
work=$(mktemp -d)
loops=()
trap 'for l in "${loops[@]}"; do losetup -d "$l"; done; rm -rf "$work"' EXIT
mkdir "$work/devices"
devices=()
for path in "$@"; do
    if [ -f "$path" ]; then
        path=$(losetup --show -f -r --direct-io=on -b 4096 "$path")
        loops+=("$path")
    fi
    devices+=("$path")
    ln -s "$path" "$work/devices/"
done
threads=$(nproc | awk '{ n = 2 * $1; print (n < 4 ? 4 : n) }')

cold() { sync; echo 3 >/proc/sys/vm/drop_caches; }
timed() { # NAME COMMAND...: the seconds it took, to $work/NAME
    local name=$1 start
    shift
    cold
    start=$(date +%s.%N)
    "$@" >"$work/output" 2>&1 || true
    date +%s.%N | awk -v a="$start" '{ printf "%.2f\n", $1 - a }' | tee -a "$work/$name" | sed "s/^/$name s /"
}
fio_rate() { # NAME BLOCK_KIB: MB/s over all devices
    local sum=0 jobs=() d
    for d in "${devices[@]}"; do
        jobs+=(--name="${d##*/}" --filename="$d")
    done
    cold
    sum=$(fio --rw=read --bs="$2k" --iodepth=$((threads * 4096 / $2 / ${#devices[@]})) --ioengine=libaio --direct=1 --readonly \
        --group_reporting --output-format=terse "${jobs[@]}" | cut -d';' -f7 | head -n 1)
    echo "$((sum * 1024 / 1000000))" | tee -a "$work/$1" | sed "s|^|$1 MB/s |"
}
for _ in $(seq "$rounds"); do
    timed check "$zinc" check -d "$work/devices" "$pool"
    sed -n 's/.*read \([0-9]*\) bytes.*/\1/p' "$work/output" >"$work/bytes"
    fio_rate fio-4M 4096
    fio_rate fio-128k 128
    if [ -x "$zdb" ]; then
        timed zdb "$zdb" -e -p "$work/devices" -bcc "$pool"
        grep -q 'No leaks' "$work/output" || { echo "zdb failed:"; tail -n 5 "$work/output"; }
    fi
done
median() { sort -n "$work/$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
c=$(median check) bytes=$(cat "$work/bytes")
rate=$(awk -v b="$bytes" -v s="$c" 'BEGIN { printf "%d", b / s / 1e6 }')
echo "medians: check $c s, $rate MB/s of $bytes bytes"
for name in fio-4M fio-128k; do
    awk -v n="$name" -v f="$(median "$name")" -v r="$rate" 'BEGIN { printf "%s %d MB/s: check has %d %%\n", n, f, 100 * r / f }'
done
if [ -s "$work/zdb" ]; then
    awk -v z="$(median zdb)" -v c="$c" 'BEGIN { printf "zdb %.2f s: check is %.1f times as fast\n", z, z / c }'
fi
