#!/bin/bash
# What the engine writes, beside fio on the same file system and OpenZFS's libzpool on the same
# memory, in turns, on one machine. README.md says what is expected and what came out.
#
# usage: bench/write/run.sh DIRECTORY [ROUNDS]
#   DIRECTORY  on the disk to be measured; 4 GiB are needed there, and 4 GiB in /dev/shm
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly dir=${1:?usage: bench/write/run.sh DIRECTORY [ROUNDS]} rounds=${2:-3}
readonly work=$(mktemp -d "$dir/writebench.XXXXXX") memory=$(mktemp -d /dev/shm/writebench.XXXXXX)
trap 'rm -rf "$work" "$memory"' EXIT

cargo build --release --locked -p engine --example writebench
readonly bench=${CARGO_TARGET_DIR:-target}/release/examples/writebench
run() { "$bench" --rounds "$rounds" "$@"; }

echo "== $(nproc) processors; load $(cut -d' ' -f1-3 /proc/loadavg)"
echo "== memory, in this process"
run --size 4G --bytes 2G --work floor,seqwrite,rewrite,seqread --threads 1,2,4,16,64
run --size 4G --bytes 1G --work randwrite,creates,snapshots --threads 1,16
echo "== memory, SHA-256; lz4 of data of which half compresses"
run --size 2G --bytes 1G --work rewrite --threads 1,16 --checksum sha256
run --size 2G --bytes 1G --work rewrite --threads 1,16 --compression lz4 --random 50
echo "== a file in memory"
run --device "file:$memory/vdev" --size 3G --bytes 1G \
    --work rewrite,seqread,randwrite --threads 1,16
rm -f "$memory/vdev"
echo "== four vdevs in memory; a mirror; raidz1"
readonly four="--device mem --device mem --device mem --device mem --size 1G --bytes 1G"
run $four --work rewrite --threads 1,16
run $four --work rewrite --threads 1,16 --raidz 1
run --device mem --device mem --mirror --size 2G --bytes 1G --work rewrite --threads 1,16

echo "== OpenZFS's libzpool on a file in memory (Debian's: with debug assertions)"
readonly oracle=target/oracle/root/lib/x86_64-linux-gnu
if [ -e "$oracle/libzpool.so.6" ]; then
    cc -O2 -Wall -o "$memory/libzpool" bench/compare/libzpool.c -L"$oracle" \
        -l:libzpool.so.6 -l:libnvpair.so.3 -Wl,--allow-shlib-undefined -lpthread
    for threads in 1 16; do
        LD_LIBRARY_PATH=$oracle "$memory/libzpool" "$memory/vdev" 3072 1024 "$threads" "$rounds"
        rm -f "$memory/vdev"
    done
else
    echo "not here: scripts/oracle fetches it"
fi

echo "== the disk, past the page cache, in turns with fio: 16 MiB in flight"
for _ in $(seq "$rounds"); do
    if command -v fio > /dev/null; then
        fio --name=write --filename="$work/fio" --rw=write --bs=128k --size=2g --direct=1 \
            --ioengine=io_uring --iodepth=128 --end_fsync=1 --output-format=terse --terse-version=3 |
            awk -F';' '{ printf "fio seqwrite   1  %.0f MB/s\n", $48 * 1.024 / 1000 }'
        rm -f "$work/fio"
    fi
    "$bench" --rounds 1 --device "file:$work/vdev" --direct on --size 3G --bytes 2G --work seqwrite
    rm -f "$work/vdev"
done
