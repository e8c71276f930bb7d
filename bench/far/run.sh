#!/usr/bin/env bash
# bench/far/run.sh DIRECTORY [MIB [ROUNDS]]: disks in stores beside their stores, and pools on them beside a pool in a local
# file, all on one machine: versitygw on loopback with its files in DIRECTORY, and a store that is a directory there. With
# S3BACKER=PROGRAM also a pool on a file of s3backer, on the same server. Medians, and the ratios. ZINC and STORES name
# the programs that are measured. Needs scripts/versitygw.
set -euo pipefail
zinc=$(realpath "${ZINC:-target/release/zinc}") stores=$(realpath "${STORES:-target/release/examples/stores}")
server=$(realpath target/versitygw/versitygw)
mib=${2:-1024} rounds=${3:-3}
# shellcheck source=bench/common.sh
. "$(dirname "$0")/../common.sh"
work=$(mktemp -d -p "${1:?a directory on the device to measure}")
cd "$work"
export ZINC_STATE=$work/state ZINC_SOCKETS=$work/run
export AWS_ACCESS_KEY_ID=bench AWS_SECRET_ACCESS_KEY=only-for-this-bench AWS_REGION=us-east-1
running=()
end() {
    for pool in far folder file backed; do "$zinc" zpool export -f $pool >/dev/null 2>&1 || true; done
    if mountpoint -q "$work/backed" 2>/dev/null; then umount "$work/backed"; fi
    kill "${running[@]}" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap end EXIT

mkdir -p server/bucket server/backed
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY \
    "$server" --port "127.0.0.1:$port" --quiet posix "$work/server" >/dev/null 2>&1 & running+=($!)
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.1; done
bucket() { echo "s3://bucket/$1?endpoint=http://127.0.0.1:$port"; } # PREFIX

echo "load before: $(cut -d ' ' -f 1 /proc/loadavg); $(nproc) processors; $mib MiB, $rounds rounds"
echo
echo "## A disk beside its store"
for kind in bucket folder; do
    echo
    echo "$kind:"
    if [ $kind = bucket ]; then plain=$(bucket plain) disk=$(bucket disk); else
        mkdir plain disk
        plain=dir://$work/plain disk=dir://$work/disk
    fi
    "$stores" "$plain" "$disk" "$mib" "$rounds"
    rm -rf plain disk server/bucket/plain server/bucket/disk
done
echo
echo "## Garbage, by uniform random overwrites"
for percent in 30 40 50; do
    mkdir gc
    "$stores" gc "dir://$work/gc" $percent
    rm -r gc
done

echo
echo "## Pools"
head -c "${mib}M" /dev/urandom >noise
size=$((mib * (rounds + 2) + 512))M
truncate -s "$size" disk.img
"$zinc" zpool create file "$work/disk.img"
"$zinc" far create "$(bucket pool)" "$size"
"$zinc" zpool create far "$(bucket pool)" 2>/dev/null
mkdir folder
"$zinc" far create "dir://$work/folder" "$size"
"$zinc" zpool create folder "dir://$work/folder"
pools=(file folder far)
if [ -n "${S3BACKER:-}" ]; then
    mkdir backed
    "$S3BACKER" -f --baseURL="http://127.0.0.1:$port/" --accessId="$AWS_ACCESS_KEY_ID" \
        --accessKey="$AWS_SECRET_ACCESS_KEY" --authVersion=aws4 --blockSize=1M --size="$size" \
        --blockCacheSize=128 --blockCacheThreads=16 --statsFilename=stats backed "$work/backed" >s3backer.log 2>&1 & running+=($!)
    until [ -e backed/file ]; do sleep 0.2; done
    "$zinc" zpool create backed "$work/backed/file"
    pools+=(backed)
fi
# Where pools are found again.
place() {
    case $1 in
        file) echo "$work/disk.img" ;;
        folder) echo "dir://$work/folder" ;;
        far) bucket pool ;;
        backed) echo "$work/backed/file" ;;
    esac
}
for pool in "${pools[@]}"; do "$zinc" zfs create -o recordsize=1M -o compression=off $pool/fs; done
for ((round = 0; round < rounds; round++)); do
    for pool in "${pools[@]}"; do
        timed "write.$pool" "$zinc" cp noise "$pool/fs:/n$round"
        "$zinc" zpool export $pool
        "$zinc" zpool import -d "$(place $pool)" $pool
        cold
        timed "read.$pool" sh -c "'$zinc' cat $pool/fs:/n$round >/dev/null"
    done
done
echo
echo "| pool | write, s | read, s | write, of the file | read, of the file |"
echo "| --- | --- | --- | --- | --- |"
for pool in "${pools[@]}"; do
    w=$(median "f.write.$pool") r=$(median "f.read.$pool") fw=$(median f.write.file) fr=$(median f.read.file)
    awk -v p=$pool -v w="$w" -v r="$r" -v fw="$fw" -v fr="$fr" \
        'BEGIN { printf "| %s | %.2f | %.2f | %.2f | %.2f |\n", p, w, r, fw / w, fr / r }'
done
echo
echo "## Requests, of a pool that is served: writing and reading $mib MiB"
"$zinc" serve -b far >/dev/null 2>&1
"$zinc" cp noise far/fs:/served
"$zinc" zpool sync far
"$zinc" zpool iostat -l far | tail -2
"$zinc" cat far/fs:/served | cmp - noise
"$zinc" zpool iostat -l far | tail -2
if [ -n "${S3BACKER:-}" ]; then
    echo "s3backer, all rounds:"
    grep -E 'http_(normal|zero)_blocks|http_(gets|puts|deletes)|http_.*retr' backed/stats || true
fi
echo
echo "## Takeover by another machine, of a pool whose writer stands still; s"
holder=$(pgrep -f "$zinc serve.* far\$" | head -1)
kill -STOP "$holder"
for ((round = 0; round < rounds; round++)); do
    export ZINC_STATE=$work/there$round ZINC_SOCKETS=$work/there$round/run
    # Another machine has locks of its own.
    timed takeover unshare -m sh -c "mount -t tmpfs none /run/lock && '$zinc' zpool import -f -d '$(bucket pool)' far"
done
median f.takeover
kill -KILL "$holder"
