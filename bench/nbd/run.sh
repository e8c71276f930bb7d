#!/usr/bin/env bash
# bench/nbd/run.sh DIRECTORY [ROUNDS [SECONDS]]: zinc nbd beside nbdkit's file plugin and qemu-nbd with qcow2, each with a
# file in DIRECTORY, asked by fio's nbd engine in turns. Requests (or MiB) a second, medians, and what part of the others'
# zinc does. ZINC names the program that is measured. Needs fio, nbdkit and qemu-utils.
set -euo pipefail
zinc=${ZINC:-target/release/zinc}
zinc=$(realpath "$zinc")
rounds=${2:-3} seconds=${3:-3}
work=$(mktemp -d -p "${1:?a directory on the device to measure}")
cd "$work"
export ZINC_STATE=$work/state ZINC_SOCKETS=$work/run
servers=()
trap 'kill "${servers[@]}" 2>/dev/null; wait; rm -rf "$work"' EXIT

size=512M
# Without holes, as the others' files are after the first writes: to fill one, their file system must commit too.
dd if=/dev/zero of=disk bs=1M count=4096 conv=fsync status=none
"$zinc" zpool create tank disk
"$zinc" zfs create -V $size -o volblocksize=16K tank/vol
"$zinc" nbd --cache-mib 1024 --socket "$work/zinc.s" tank/vol >/dev/null & servers+=($!)
truncate -s $size raw
nbdkit -f -U "$work/nbdkit.s" file raw & servers+=($!)
qemu-img create -q -f qcow2 image.qcow2 $size
qemu-nbd -t -e 16 -f qcow2 -k "$work/qemu.s" image.qcow2 & servers+=($!)
for name in zinc nbdkit qemu; do
    until [ -S $name.s ]; do sleep 0.1; done
done

uri() { # NAME
    case $1 in
        zinc) echo "nbd+unix:///tank/vol?socket=$work/zinc.s" ;;
        *) echo "nbd+unix:///?socket=$work/$1.s" ;;
    esac
}

# Requests a second of reads and writes together.
ask() { # NAME OPTIONS
    local name=$1
    shift
    fio --name=x --ioengine=nbd --uri="$(uri "$name")" --size=$size --output-format=terse --terse-version=3 \
        --refill_buffers --buffer_compress_percentage=0 "$@" | awk -F';' '/^3;/ { print $8 + $49 }'
}

median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

for name in zinc nbdkit qemu; do
    ask $name --rw=write --bs=1M --iodepth=8 --end_fsync=1 >/dev/null
    # The page cache has what the other two wrote; zinc's cache has what was read.
    ask $name --rw=read --bs=1M --iodepth=8 >/dev/null
done
load=$(cut -d ' ' -f 1 /proc/loadavg)
echo "load before: $load; $(nproc) processors; $rounds rounds of $seconds s; requests a second"
echo "| what | zinc | nbdkit file | qemu-nbd qcow2 | of nbdkit | of qemu-nbd |"
echo "| --- | --- | --- | --- | --- | --- |"
while read -r what options; do
    for name in zinc nbdkit qemu; do : >"$name.out"; done
    for ((round = 0; round < rounds; round++)); do
        for name in zinc nbdkit qemu; do
            # shellcheck disable=SC2086
            ask $name $options --time_based --runtime="$seconds" >>"$name.out"
        done
    done
    z=$(median <zinc.out) n=$(median <nbdkit.out) q=$(median <qemu.out)
    awk -v w="${what//_/ }" -v z="$z" -v n="$n" -v q="$q" \
        'BEGIN { printf "| %s | %d | %d | %d | %.2f | %.2f |\n", w, z, n, q, z / n, z / q }'
done <<'LINES'
read_4_KiB,_depth_32 --rw=randread --bs=4k --iodepth=32
read_4_KiB,_depth_1 --rw=randread --bs=4k --iodepth=1
read_8_KiB,_depth_32 --rw=randread --bs=8k --iodepth=32
write_4_KiB,_depth_32 --rw=randwrite --bs=4k --iodepth=32
write_8_KiB,_depth_32 --rw=randwrite --bs=8k --iodepth=32
read_1_MiB_in_order --rw=read --bs=1M --iodepth=8
write_1_MiB_in_order --rw=write --bs=1M --iodepth=8
write_4_KiB,_each_flushed --rw=randwrite --bs=4k --iodepth=1 --fsync=1
LINES
