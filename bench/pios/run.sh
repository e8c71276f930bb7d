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

# Memory that a virtual machine has not touched for a while costs its host more than the disk costs
# the machine: the first program that writes through the page cache first pays for it. So it is touched before.
warm() { # DIRECT
    if [ "$1" = 0 ]; then
        dd if=/dev/zero of="$work/warm" bs=1M count="$mib" status=none
        rm "$work/warm"
    fi
}

# Which goes first in this round: one round pios, the next one fio.
both() { # NAME DIRECT PIOS FIO
    local who
    for who in $(if ((round % 2)); then echo pios fio; else echo fio pios; fi); do
        warm "$2"
        if [ "$who" = pios ]; then echo "$1 pios $($3)"; else echo "$1 fio $($4)"; fi
    done
}

# T threads, each with N/T regions in files of their own, in turn.
own_files() { # NAME THREADS REGIONS CHUNK DIRECT
    local load=posixio
    test "$5" = 0 || load=directio
    local threads=$2 regions=$3 chunk=$4 direct=$5
    local size=$((mib / regions)) each=$((regions / threads))
    pios() { with_pios "$threads" "$regions" "$chunk" "$load,fpp" -o 0; }
    fio_jobs() {
        with_fio "$threads" "$chunk" "$direct" --nrfiles="$each" --filesize="${size}m" \
            --file_service_type=roundrobin:1 --size="$((size * each))m"
    }
    both "$1" "$direct" pios fio_jobs
}

# N threads, each with a region of one file.
shared_file() { # NAME THREADS CHUNK DIRECT
    local load=posixio
    test "$4" = 0 || load=directio
    local threads=$2 chunk=$3 direct=$4 size=$((mib / $2))
    pios() { with_pios "$threads" "$threads" "$chunk" "$load,ssf"; }
    fio_jobs() {
        with_fio "$threads" "$chunk" "$direct" --filename=shared --size="${size}m" \
            --offset_increment="${size}m"
    }
    both "$1" "$direct" pios fio_jobs
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
