#!/usr/bin/env bash
# bench/fuse/run.sh DIRECTORY [ROUNDS [MIB [FILES]]]: zinc's mount beside zfs-fuse's and libfuse's passthrough_ll, each
# over what lies in DIRECTORY, in turns. MiB or calls a second, medians, and how many times the others' rate zinc has.
# ZINC names the program that is measured. Needs root, a C compiler, and apt-get for the two others (bench/fuse/peers).
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ "${1:-}" != --inside ]; then
    : "${1:?a directory on the device to measure}"
    [ "$(id -u)" = 0 ] || { echo "bench/fuse needs root" >&2; exit 1; }
    bench/fuse/peers
    # Mounts, and zfs-fuse's socket and lock at fixed places below /run, are seen by nothing else.
    exec unshare --mount --propagation private "$0" --inside "$(realpath "$1")" "${@:2}"
fi
shift
# shellcheck source=bench/common.sh
. bench/common.sh
zinc=$(realpath "${ZINC:-${CARGO_TARGET_DIR:-target}/release/zinc}")
readonly zinc peers=$PWD/target/fuse-peers rounds=${2:-3} mib=${3:-512} files=${4:-5000}
# For each of the servers that have a cache: the file that is read again fits into it.
readonly cache_mib=$((mib * 2 > 1024 ? mib * 2 : 1024))
work=$(mktemp -d "$1/fuse.XXXXXX")
readonly work calls=$work/calls
export ZINC_STATE=$work/state ZINC_SOCKETS=$work/sockets
mount -t tmpfs none /run
mkdir -p /run/lock "$work"/{zinc,zfs-fuse,pass,plain}
daemon=
end() {
    for name in zinc zfs-fuse pass; do stop $name >/dev/null 2>&1 || umount -l "$work/$name" 2>/dev/null || true; done
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

start() { # NAME
    case $1 in
        zinc) "$zinc" mount --cache-mib "$cache_mib" tank/fs "$work/zinc" >/dev/null ;;
        zfs-fuse)
            "$peers/zfs-fuse" --no-daemon --no-kstat-mount --max-arc-size "$cache_mib" >"$work/zfs-fuse.log" 2>&1 &
            daemon=$!
            until [ -S /run/zfs/zfs_socket ]; do kill -0 "$daemon"; sleep 0.1; done
            "$peers/zpool" import -d "$work/disks" -o cachefile=none fused 2>/dev/null || true
            ;;
        pass) "$peers/passthrough_ll" -o source="$work/plain" "$work/pass" ;;
    esac
}
stop() { # NAME
    case $1 in
        zinc) "$zinc" unmount "$work/zinc" ;;
        zfs-fuse)
            [ -n "$daemon" ] || return 0
            "$peers/zpool" export fused
            kill "$daemon"
            wait "$daemon" || true
            daemon=
            rm -f /run/zfs/zfs_socket
            ;;
        pass) umount "$work/pass" ;;
    esac
}
# What was written is on the device: nothing of one server's goes on while another one is measured.
settle() { # NAME
    case $1 in
        zinc) "$zinc" zpool sync tank ;;
        zfs-fuse) "$peers/zfs" snapshot fused@now && "$peers/zfs" destroy fused@now ;;
    esac
    sync
}

cc -O2 -Wall -o "$calls" bench/fuse/calls.c
mkdir "$work/disks"
readonly disk_mib=$((mib * 4 + 2048))
truncate -s ${disk_mib}M "$work/disks/fused" "$work/disk"
"$zinc" zpool create tank "$work/disk"
"$zinc" zfs create -o compression=off -o atime=off -o mountpoint=legacy tank/fs
start zinc
start zfs-fuse
"$peers/zpool" create -o cachefile=none -O compression=off -O atime=off -m "$work/zfs-fuse" fused "$work/disks/fused" 2>/dev/null
start pass

echo "load before: $(cut -d ' ' -f 1-3 /proc/loadavg); $(nproc) processors; $rounds rounds; $mib MiB, $files files"
while IFS='|' read -r what call path arguments; do
    for ((round = 0; round < rounds; round++)); do
        for name in zinc zfs-fuse pass; do
            case $what in
                *cold*) stop $name; cold; start $name ;;
                create*) mkdir "$work/$name/names.$round" ;;
            esac
            # shellcheck disable=SC2086
            "$calls" "$call" "$work/$name/${path/ROUND/$round}" $arguments >>"$work/f.$call.$name"
            case $what in write*|create*|remove*) settle $name ;; esac
        done
    done
    z=$(median "$work/f.$call.zinc") f=$(median "$work/f.$call.zfs-fuse") p=$(median "$work/f.$call.pass")
    rm "$work"/f.*
    [ "$call" != write ] || printf '| what | zinc | zfs-fuse | pass-through | of zfs-fuse | of pass-through |\n| --- | --- | --- | --- | --- | --- |\n'
    awk -v w="$what" -v z="$z" -v f="$f" -v p="$p" \
        'BEGIN { printf "| %s | %d | %d | %d | %.2f | %.2f |\n", w, z, f, p, z / f, z / p }'
done <<LINES
write 1 MiB in order, MiB/s|write|big|$mib
read 1 MiB in order, cold, MiB/s|read|big|
read 1 MiB in order, in the server's cache, MiB/s|read|big|
read 4 KiB at random|randread|big|4096 $((mib * 32))
read 8 KiB at random|randread|big|8192 $((mib * 32))
write 4 KiB at random|randwrite|big|4096 $((mib * 16))
write 8 KiB at random|randwrite|big|8192 $((mib * 16))
write 4 KiB and fsync, each|fsync|small|$((mib / 2))
create|create|names.ROUND|$files
stat|stat|names.ROUND|$files
readdir, entries|readdir|names.ROUND|$files
remove|unlink|names.ROUND|$files
LINES
