#!/bin/bash
# What the engine reads cold from a pool in a file, past the page cache, beside fio on a plain file
# of the same file system, in turns. README.md says what is expected and what came out.
#
# usage: bench/read/run.sh DIRECTORY [ROUNDS]
#   DIRECTORY  on the disk to be measured; 5 GiB are needed there
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly dir=${1:?usage: bench/read/run.sh DIRECTORY [ROUNDS]} rounds=${2:-3}
readonly work=$(mktemp -d "$dir/readbench.XXXXXX")
trap 'rm -rf "$work"' EXIT
command -v fio > /dev/null || { echo "fio is not installed" >&2; exit 1; }

cargo build --release --locked -p engine --example writebench
readonly bench=${CARGO_TARGET_DIR:-target}/release/examples/writebench
zinc() { "$bench" --rounds 1 --device "file:$work/vdev" --direct on --size 3G --bytes 2G "$@"; }

# usage: fio_read NAME FIELD FIO-OPTION...; FIELD of fio's terse output
fio_read() {
    local name=$1 field=$2
    shift 2
    fio --name=read --filename="$work/fio" --direct=1 --readonly --size=2g --output-format=terse \
        --terse-version=3 "$@" | awk -F';' -v name="$name" -v field="$field" '{
            printf "%-28s %10.0f %s\n", name, field == 7 ? $7 * 1.024 / 1000 : $8,
                field == 7 ? "MB/s" : "IOPS" }'
}

fio --name=fill --filename="$work/fio" --rw=write --bs=1m --size=2g --direct=1 --ioengine=psync \
    --end_fsync=1 > /dev/null
echo "== $(nproc) processors; load $(cut -d' ' -f1-3 /proc/loadavg)"
for _ in $(seq "$rounds"); do
    echo "== a round: one reader in order, calls of 128 KiB and of 1 MiB"
    rm -f "$work/vdev"
    zinc --work seqread
    fio_read "fio, 128 KiB" 7 --rw=read --bs=128k --ioengine=psync
    fio_read "fio, 1 MiB" 7 --rw=read --bs=1m --ioengine=psync
    fio_read "fio, 128 KiB, 16 MiB ahead" 7 --rw=read --bs=128k --ioengine=io_uring --iodepth=128
    rm -f "$work/vdev"
    zinc --work seqread --ahead 0
    rm -f "$work/vdev"
    zinc --work seqread --io 1M
    rm -f "$work/vdev"
    zinc --work seqread --io 1M --ahead 0
    echo "== 8 KiB at random places, 1, 8 and 32 at a time"
    for depth in 1 8 32; do
        rm -f "$work/vdev"
        zinc --work randread --threads "$depth" --bytes 8G
        rm -f "$work/vdev"
        zinc --work randread --threads "$depth" --bytes 8G --held
        fio_read "fio, depth $depth" 8 --rw=randread --bs=8k --ioengine=io_uring \
            --iodepth="$depth" --io_size=512m
        fio_read "fio, $depth threads" 8 --rw=randread --bs=8k --ioengine=psync --thread \
            --numjobs="$depth" --group_reporting --io_size="$((512 / depth))m"
    done
done
