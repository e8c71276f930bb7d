#!/usr/bin/env bash
# bench/far/trips.sh DIRECTORY [MIB]: what does not depend on how fast the machine is. How often commands and commits wait
# for an answer of the store (versitygw, made distant by distant.py), how many requests a pool needs for what is written and
# read in order, what snapshots that are received and destroyed leave to be sent again, and the memory of the process that has a pool.
# ZINC names the program. Needs scripts/versitygw, Python, and root.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
zinc=$(realpath "${ZINC:-target/release/zinc}") server=$(realpath target/versitygw/versitygw) mib=${2:-256} delay=300
work=$(mktemp -d -p "${1:?a directory}")
cd "$work"
export ZINC_STATE=$work/state ZINC_SOCKETS=$work/run
export AWS_ACCESS_KEY_ID=bench AWS_SECRET_ACCESS_KEY=only-for-this-bench AWS_REGION=us-east-1
running=()
end() {
    for pool in far order file copy; do "$zinc" zpool export -f $pool >/dev/null 2>&1 || true; done
    kill "${running[@]}" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap end EXIT
mkdir -p server/bucket
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY \
    "$server" --port "127.0.0.1:$port" --quiet posix "$work/server" >/dev/null 2>&1 & running+=($!)
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.1; done
python3 "$here/distant.py" "$port" $delay >distant & running+=($!)
until [ -s distant ]; do sleep 0.1; done
name="s3://bucket/pool?endpoint=http://127.0.0.1:$(cat distant)"

# What a command takes, in answers of the store.
trips() { # WHAT COMMAND...
    local what=$1 began ended
    shift
    began=$(date +%s%N)
    "$@" >/dev/null
    ended=$(date +%s%N)
    awk -v w="$what" -v t=$((ended - began)) -v d=$delay 'BEGIN { printf "| %s | %.1f |\n", w, t / d / 1000000 }'
}
# A cell of the line of a device in a store: 2 creates, 3 gets, 4 lists, 5 deletes, 7 bytes sent, 8 received.
asked() { "$zinc" zpool iostat -lp "$1" | awk -v cell="$2" '$1 ~ ":" { print $cell; exit }'; }

echo "## Answers of the store, one after the other"
echo "| | answers |"
echo "| --- | --- |"
"$zinc" far create "$name" 1G
"$zinc" zpool create far "$name" 2>/dev/null
"$zinc" zfs create far/always
"$zinc" zfs set sync=always far/always
head -c 4096 /dev/urandom >small
"$zinc" zpool export far
trips "far ls" "$zinc" far ls "$name"
trips "zpool import" "$zinc" zpool import -d "$name" far
trips "zpool status, of a pool that no server has" "$zinc" zpool status far
"$zinc" serve -b far >/dev/null 2>&1
"$zinc" zpool sync far
for _ in 1 2 3; do
    trips "a property, which waits for its txg" "$zinc" zfs set bench:trips="$RANDOM" far/always
    trips "a file of 4 KiB with sync=always" "$zinc" cp -f small far/always:/
done
for _ in 1 2 3 4 5; do
    "$zinc" cp -f small far:/
    "$zinc" zpool sync far
done
"$zinc" txgs -Hp far | awk -v d=$delay '$3 == "C" && $6 > 0 { print $12 / d / 1000000 }' | sort -n |
    awk '{ t[NR] = $1 } END { printf "| the sync of a txg, the middle one of %d | %.1f |\n", NR, t[int((NR + 1) / 2)] }'
"$zinc" zpool export far

echo
echo "## Requests, written and read in order, $mib MiB of records; for each TB"
echo "| recordsize | creates | gets | gets of a scrub |"
echo "| --- | --- | --- | --- |"
head -c "${mib}M" /dev/urandom >noise
for size in 16K 128K 1M; do
    mkdir order
    "$zinc" far create "dir://$work/order" $((mib * 3 + 1024))M
    "$zinc" zpool create -O compression=off -O recordsize=$size order "dir://$work/order"
    "$zinc" serve -b order >/dev/null 2>&1
    "$zinc" cp noise order:/
    "$zinc" zpool sync order
    creates=$(asked order 2)
    "$zinc" zpool export order
    "$zinc" zpool import -d "dir://$work/order" order
    "$zinc" serve -b order >/dev/null 2>&1
    "$zinc" ls order:/ >/dev/null
    before=$(asked order 3)
    "$zinc" cat order:/noise | cmp - noise
    gets=$(($(asked order 3) - before))
    "$zinc" zpool export order
    "$zinc" zpool import -d "dir://$work/order" order
    "$zinc" serve -b order >/dev/null 2>&1
    before=$(asked order 3)
    "$zinc" zpool scrub -w order
    scrub=$(($(asked order 3) - before))
    "$zinc" zpool destroy order
    rm -r order
    awk -v s=$size -v m="$mib" -v c="$creates" -v g="$gets" -v r="$scrub" \
        'BEGIN { f = 1048576 / m; printf "| %s | %d | %d | %d |\n", s, c * f, g * f, r * f }'
done

echo
echo "## Snapshots that are received, and destroyed when they are four old"
truncate -s 1G disk.img
"$zinc" zpool create -O compression=off file "$work/disk.img"
mkdir copy
"$zinc" far create "dir://$work/copy" 2G
"$zinc" zpool create -o autotrim=on copy "dir://$work/copy"
"$zinc" serve -b copy >/dev/null 2>&1
streams=0 last=
for n in $(seq 24); do
    for part in 1 2; do
        head -c 16M /dev/urandom >part
        "$zinc" cp -f part "file:/part$(((n * 2 + part) % 8))"
    done
    "$zinc" zfs snapshot file@$n
    "$zinc" zfs send ${last:+-i @$last} file@$n >stream
    streams=$((streams + $(stat -c %s stream)))
    "$zinc" zfs receive -F copy/it <stream
    if [ "$n" -gt 4 ]; then
        "$zinc" zfs destroy copy/it@$((n - 4))
        "$zinc" zfs destroy file@$((n - 4))
    fi
    last=$n
done
"$zinc" zpool sync copy
sent=$(asked copy 7)
"$zinc" zpool export copy
awk -v a="$sent" -v b="$streams" 'BEGIN { printf "sent for each byte of a stream: %.2f (of %d MiB)\n", a / b, b / 1048576 }'

echo
echo "## Memory, MiB"
memory() { awk -v what="$2" '$1 == what { printf "%.0f", $2 / 1024 }' "/proc/$1/status"; }
for pool in file far; do
    if [ $pool = file ]; then place=$work/disk.img; else place=$name; fi
    "$zinc" zpool import -d "$place" $pool 2>/dev/null || true
    "$zinc" serve $pool >/dev/null 2>&1 & holder=$!
    running+=($holder)
    until "$zinc" tunables --pool $pool >/dev/null 2>&1; do sleep 0.2; done
    sleep 1
    echo "$pool, idle: $(memory $holder VmRSS:)"
    if [ $pool = far ]; then
        # What has to be read for it is; nothing counts while the server stands still.
        "$zinc" cp -f small far:/
        kill -STOP "${running[0]}"
        head -c 900M /dev/zero | openssl enc -aes-128-ctr -nosalt -pass pass:x 2>/dev/null >large
        timeout 40 "$zinc" cp large far:/ >/dev/null 2>&1 || true
        echo "$pool, with all that may wait to be written: $(memory $holder VmHWM:)"
        kill -CONT "${running[0]}"
    fi
    "$zinc" zpool export $pool
done
