#!/bin/sh
# Compares `zinc check` with `zdb -bcc` and with reading the device by fio.
#
# usage: bench/check/run.sh ZINC DIR POOL [RUNS]
#
# ZINC  the binary (release)      DIR  folder with the pool's images      RUNS  default 3
#
# The page cache is dropped before every cold run when that is allowed; otherwise all runs are warm, and the output says so.
# fio reads the images with 4 MiB blocks, as many in flight as the check has threads.
set -eu
zinc=$1 dir=$2 pool=$3 runs=${4:-3}
root=$(cd "$(dirname "$0")/../.." && pwd)
zdb=$root/target/oracle/bin/zdb
cold() { sync; if echo 3 2>/dev/null >/proc/sys/vm/drop_caches; then echo cold; else echo warm; fi; }
now() { date +%s.%N; }
took() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", b - a }'; }
threads=$(nproc | awk '{ n = 2 * $1; print (n < 4 ? 4 : n) }')
i=0
while [ "$i" -lt "$runs" ]; do
    i=$((i + 1))
    state=$(cold)
    a=$(now)
    "$zinc" check -d "$dir" "$pool" >/tmp/zinc-check.$$ || test $? -eq 3
    b=$(now)
    echo "$state zinc $(took "$a" "$b") s: $(grep 'read .* bytes' /tmp/zinc-check.$$ | tr -s ' ')"
    if [ -x "$zdb" ]; then
        state=$(cold)
        a=$(now)
        "$zdb" -e -p "$dir" -bcc "$pool" >/dev/null 2>&1 || true
        b=$(now)
        echo "$state zdb  $(took "$a" "$b") s"
    fi
    if command -v fio >/dev/null; then
        state=$(cold)
        for image in "$dir"/*; do
            rate=$(fio --name=read --filename="$image" --rw=read --bs=4M --iodepth="$threads" \
                --ioengine=libaio --direct=1 --readonly --output-format=terse | cut -d';' -f7)
            echo "$state fio  $(basename "$image") $((rate / 1024)) MiB/s"
        done
    fi
done
rm -f /tmp/zinc-check.$$
