#!/bin/bash
# Writes of which each is promised before the next: the engine in a pool in a file and a plain file
# beside it, in turns; and, by fio, in turns, a plain file, btrfs on a loop device, zfs-fuse and
# zinc's own mount. README.md says what is expected.
#
# usage: bench/sync/run.sh DIRECTORY [SECONDS] [ROUNDS]
#   DIRECTORY  on the disk to be measured; 14 GiB are needed there
# ONLY=BYTES,THREADS measures one row. Without fio, without root, or where a file system cannot be
# had, that part is left out, and it says so. ZINC names the program that mounts.
set -euo pipefail
cd "$(dirname "$0")/../.."
usage="usage: bench/sync/run.sh DIRECTORY [SECONDS] [ROUNDS]"
if [ "${1:-}" != --inside ]; then
    dir=$(realpath "${1:?$usage}")
    cargo build --release --locked -p engine --example syncbench
    if [ "$(id -u)" = 0 ]; then
        # Mounts, and zfs-fuse's socket and lock at fixed places below /run, are seen by nothing else.
        exec unshare --mount --propagation private "$0" --inside "$dir" "${@:2}"
    fi
    exec "$0" --inside "$dir" "${@:2}"
fi
shift
# shellcheck source=bench/common.sh
. bench/common.sh
readonly dir=$1 seconds=${2:-3} rounds=${3:-3} only=${ONLY:-} peers=$PWD/target/fuse-peers
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
readonly target
readonly zinc=${ZINC:-$target/release/zinc}
work=$(mktemp -d "$dir/syncbench.XXXXXX")
readonly work
export ZINC_STATE=$work/state ZINC_SOCKETS=$work/sockets
names=() daemon='' loop='' watched=''

end() {
    umount "$work/btrfs" 2>/dev/null || true
    [ -z "$loop" ] || losetup --detach "$loop" || true
    [ ! -d "$work/zinc" ] || "$zinc" unmount "$work/zinc" >/dev/null 2>&1 || true
    if [ -n "$daemon" ]; then
        timeout 30 "$peers/zpool" export fused >/dev/null 2>&1 || true
        kill "$daemon" && wait "$daemon" || true
    fi
    rm -rf "$work"
}
trap end EXIT

# usage: without WHAT WHY
without() { echo "-- without $1: $2"; }

# A file of this many MiB that has all its sectors, as a disk does.
disk() { # NAME MIB
    mkdir -p "$work/disks"
    dd if=/dev/zero of="$work/disks/$1" bs=1M count="$2" conv=fsync status=none
}

# Each of these makes $work/NAME, where fio can write, and fails if it is not to be had.
begin_btrfs() {
    command -v mkfs.btrfs >/dev/null || { without btrfs "mkfs.btrfs is not installed"; return 1; }
    disk btrfs 3072
    loop=$(losetup --find --show --direct-io=on "$work/disks/btrfs") ||
        { loop=''; without btrfs "there is no loop device"; return 1; }
    mkfs.btrfs --quiet "$loop" >"$work/btrfs.log" 2>&1 && mkdir "$work/btrfs" && mount -t btrfs "$loop" "$work/btrfs" ||
        { without btrfs "it cannot be made or mounted"; return 1; }
}
begin_zfs-fuse() {
    bench/fuse/peers >"$work/peers.log" 2>&1 ||
        { without zfs-fuse "bench/fuse/peers: $(tail -1 "$work/peers.log")"; return 1; }
    mount -t tmpfs none /run && mkdir -p /run/lock "$work/zfs-fuse"
    disk fused 3072
    "$peers/zfs-fuse" --no-daemon --no-kstat-mount --max-arc-size 1024 >"$work/zfs-fuse.log" 2>&1 &
    daemon=$!
    until [ -S /run/zfs/zfs_socket ]; do
        kill -0 "$daemon" 2>/dev/null ||
            { daemon=''; without zfs-fuse "$(tail -1 "$work/zfs-fuse.log")"; return 1; }
        sleep 0.1
    done
    "$peers/zpool" create -o cachefile=none -O atime=off -m "$work/zfs-fuse" fused \
        "$work/disks/fused" 2>/dev/null || { without zfs-fuse "no pool can be made"; return 1; }
}
begin_zinc() {
    [ -x "$zinc" ] || { without "zinc's mount" "there is no $zinc; ZINC names it"; return 1; }
    disk zinc 3072
    mkdir "$work/zinc"
    "$zinc" zpool create -O atime=off -O mountpoint=legacy tank "$work/disks/zinc" &&
        "$zinc" mount --cache-mib 1024 tank "$work/zinc" >/dev/null ||
        { without "zinc's mount" "it cannot be mounted"; rmdir "$work/zinc"; return 1; }
}
begin() { # NAME
    if "begin_$1"; then names+=("$1"); fi
}

# Each thread writes a file of its own, which is there already.
fio_sync() { # NAME BYTES THREADS
    fio --name=sync --directory="$work/$1" --filename_format='f.$jobnum' --rw=write --bs="$2" \
        --size=16m --numjobs="$3" --thread --ioengine=psync --fdatasync=1 --time_based \
        --runtime="$seconds" --group_reporting --output-format=json |
        python3 -c 'import json,sys; print(round(json.load(sys.stdin)["jobs"][0]["write"]["iops"]))' 2>/dev/null
}

# zfs-fuse 0.7 was seen to hang for good under writes of 128 KiB, and what waits for an answer from
# it can only be ended by its end.
watch() {
    watched=''
    [ -n "$daemon" ] || return 0
    { sleep $((seconds + 60)); kill -9 "$daemon"; } >/dev/null 2>&1 &
    watched=$!
}
unwatch() {
    [ -n "$watched" ] || return 0
    pkill -P "$watched" 2>/dev/null || true
    kill "$watched" 2>/dev/null || true
    wait "$watched" 2>/dev/null || true
}
drop() { # NAME
    local name left=()
    without "$1 from here on" "it gave no figure within $((seconds + 60)) s" >&2
    for name in "${names[@]}"; do [ "$name" = "$1" ] || left+=("$name"); done
    names=("${left[@]}")
    [ "$1" != zfs-fuse ] || { umount -l "$work/zfs-fuse" || true; daemon=''; }
}

by_fio() {
    local name bytes threads cells value columns
    mkdir "$work/plain"
    names=(plain)
    if [ "$(id -u)" = 0 ]; then
        for name in btrfs zfs-fuse zinc; do begin "$name"; done
    else
        without "other file systems" "only root can mount"
    fi
    for name in "${names[@]}"; do
        fio --name=fill --directory="$work/$name" --filename_format='f.$jobnum' --rw=write --bs=1m \
            --size=16m --numjobs=64 --thread --ioengine=psync --end_fsync=1 >/dev/null
    done
    sync
    columns=("${names[@]}")
    printf '%8s %8s' bytes threads
    printf ' %10s' "${columns[@]}"
    echo
    for bytes in 4096 131072; do
        for threads in 1 4 16 64; do
            [ -z "$only" ] || [ "$only" = "$bytes,$threads" ] || continue
            for ((round = 0; round < rounds; round++)); do
                for name in "${names[@]}"; do
                    watch
                    value=$(fio_sync "$name" "$bytes" "$threads") || value=''
                    unwatch
                    # One that gave no figure is left out from here on.
                    if [ -n "$value" ]; then echo "$value" >>"$work/f.$name"; else drop "$name"; fi
                done
            done
            cells=()
            for name in "${columns[@]}"; do
                case " ${names[*]} " in *" $name "*) value=$(median "$work/f.$name") ;; *) value=- ;; esac
                cells+=("$value")
            done
            rm "$work"/f.*
            printf '%8s %8s' "$bytes" "$threads"
            printf ' %10s' "${cells[@]}"
            echo
        done
    done
}

echo "== $(nproc) processors; load $(cut -d' ' -f1-3 /proc/loadavg)"
# shellcheck disable=SC2086
"$target/release/examples/syncbench" "$work" "$seconds" "$rounds" ${only:+--only $only}
rm -f "$work/vdev" "$work/raw"
if command -v fio >/dev/null; then
    echo "== fio, each thread with a file of its own"
    by_fio
else
    without "a second table" "fio is not installed"
fi
