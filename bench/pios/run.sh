#!/bin/bash
# zinc pios beside fio with the same access pattern, in turns, on real files: prints MB/s (2^20) of
# both and their ratio. README.md says what is expected.
#
# usage: bench/pios/run.sh ZINC DIRECTORY [MIB] [ROUNDS]
#   ZINC       the program; DIRECTORY  on the disk to be measured
#   MIB        written by each run (1024), twice as many are needed there; ROUNDS (3)
set -euo pipefail
readonly usage='usage: bench/pios/run.sh ZINC DIRECTORY [MIB] [ROUNDS]'
readonly zinc=${1:?$usage} dir=${2:?$usage} mib=${3:-1024} rounds=${4:-3}
readonly work=$(mktemp -d "$dir/pios.XXXXXX")
trap 'rm -rf "$work"' EXIT

# with_pios THREADS REGIONS CHUNK LOAD [OPTION…]: MB/s of writing, and of reading
with_pios() {
    local threads=$1 regions=$2 chunk=$3 load=$4
    shift 4
    "$zinc" pios -p "$work" -t "$threads" -n "$regions" -s "$((mib / regions))m" -c "$chunk" \
        -L "$load" -x -j "$@" |
        python3 -c 'import json,sys; r=json.load(sys.stdin)[0]
print(*(r[w]["bytes_per_second"]/2**20 if r[w] else 0 for w in ("write", "read")))'
}

# with_fio JOBS CHUNK DIRECT [OPTION…]: the same. A chunk is filled anew before it is written.
with_fio() {
    local jobs=$1 chunk=$2 direct=$3
    shift 3
    for rw in write read; do
        fio --name=pios --directory="$work" --rw=$rw --bs="$chunk" --numjobs="$jobs" --thread \
            --ioengine=psync --direct="$direct" --fallocate=none --end_fsync=1 --refill_buffers=1 \
            --invalidate=0 --group_reporting --output-format=json "$@" |
            python3 -c 'import json,sys; j=json.load(sys.stdin)["jobs"]
print(max(sum(x[w]["bw_bytes"] for x in j) for w in ("read", "write")) / 2**20)'
    done | tr '\n' ' '
    rm -f "$work"/pios.* "$work/shared"
}

# T threads, each with N/T regions in files of their own, in turn.
own_files() { # NAME THREADS REGIONS CHUNK DIRECT
    local load=posixio
    test "$5" = 0 || load=directio
    local size=$((mib / $3)) each=$(($3 / $2))
    echo "$1 pios $(with_pios "$2" "$3" "$4" "$load,fpp" -o 0)"
    echo "$1 fio $(with_fio "$2" "$4" "$5" --nrfiles="$each" --filesize="${size}m" \
        --file_service_type=roundrobin:1 --size="$((size * each))m")"
}

# N threads, each with a region of one file.
shared_file() { # NAME THREADS CHUNK DIRECT
    local load=posixio
    test "$4" = 0 || load=directio
    local size=$((mib / $2))
    echo "$1 pios $(with_pios "$2" "$2" "$3" "$load,ssf")"
    echo "$1 fio $(with_fio "$2" "$3" "$4" --filename=shared --size="${size}m" \
        --offset_increment="${size}m")"
}

for round in $(seq "$rounds"); do
    echo "round $round of $rounds; load $(cut -d' ' -f1-3 /proc/loadavg)" >&2
    own_files "direct,1-stream,1M" 1 1 1m 1
    own_files "direct,4x4-files,1M" 4 16 1m 1
    own_files "direct,4x4-files,128k" 4 16 128k 1
    shared_file "direct,8-in-one-file,1M" 8 1m 1
    shared_file "direct,8-in-one-file,128k" 8 128k 1
    own_files "buffered,4x4-files,1M" 4 16 1m 0
    shared_file "buffered,8-in-one-file,1M" 8 1m 0
done | tee "$dir/pios.log" | python3 -c '
import statistics, sys
rows = {}
for line in sys.stdin:
    name, who, write, read = line.split()
    for what, rate in (("write", write), ("read", read)):
        rows.setdefault((name, what), {}).setdefault(who, []).append(float(rate))
print("pattern                      what   pios MB/s  max/min    fio MB/s  max/min   ratio")
for (name, what), rates in rows.items():
    a, b = (statistics.median(rates[who]) for who in ("pios", "fio"))
    spread = [max(rates[who]) / min(rates[who]) for who in ("pios", "fio")]
    print(f"{name:28} {what:5} {a:10.1f} {spread[0]:8.2f} {b:11.1f} {spread[1]:8.2f} {a/b:7.2f}")'
rm -f "$dir/pios.log"
