#!/bin/bash
# The experiments on bare devices beside fio with the same access pattern, in turns, on one file or
# disk: prints MB/s (2^20) of both and their ratio. What is on the file or disk is lost.
#
# usage: bench/lab/run.sh ZINC FILE [SECONDS] [ROUNDS]
#   ZINC     the program; FILE  a disk, or a file of the size that is to be used
#   SECONDS  of each figure, 0.5 for half of one; ROUNDS  which begins changes from one to the next
#   UNDER    in the environment: a command that each half of a round is run under
set -euo pipefail
readonly usage='usage: bench/lab/run.sh ZINC FILE [SECONDS] [ROUNDS]'
readonly zinc=${1:?$usage} file=${2:?$usage}
readonly seconds=${3:-0.5} rounds=${4:-6}
# shellcheck source=bench/common.sh
. "$(dirname "$0")/../common.sh"
readonly work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -r -a under <<<"${UNDER:-}"

# All of it is written first: a place that never was is another thing to a file system.
size=$(blockdev --getsize64 "$file" 2>/dev/null || stat -c %s "$file")
dd if=/dev/urandom of="$file" bs=1M count=$((size >> 20)) oflag=direct conv=notrunc,nocreat,fsync \
    status=none

# What zinc does, in its order, as jobs of one fio: a job begins when the one before it has ended.
fio_jobs() { # SEED
    printf '[global]\nfilename=%s\nioengine=psync\ndirect=1\ntime_based\nruntime=%sms\nstonewall\n' \
        "$file" "$(python3 -c "print(round($seconds * 1000))")"
    # zinc draws each place anew.
    printf 'norandommap\nrandseed=%s\n' "$1"
    for kib in 16 32 64 128 256 512 1024 2048 4096 8192 16384 32768; do
        printf '[write,%s]\nrw=write\nsync=dsync\nbs=%sk\n' $((kib << 10)) $kib
    done
    printf '[cached,16384]\nrw=write\nbs=16k\n'
    for bytes in 512 1024 2048 4096 8192 16384 32768 65536 131072; do
        # As zinc, not where the device reads no less than a certain size at once.
        test $bytes -ge "$least" || continue
        printf '[read,%s]\nrw=read\nbs=%s\n[randread,%s]\nrw=randread\nbs=%s\n' \
            $bytes $bytes $bytes $bytes
    done
}

with_zinc() { # ROUND
    "${under[@]}" "$zinc" lab run raw-sweep seek --device "$file" --destroy-data --yes \
        --seconds "$seconds" --seed "$1" -j >"$work/$1.zinc"
}

with_fio() { # ROUND
    fio_jobs "$1" >"$work/jobs"
    "${under[@]}" fio --output-format=json --output="$work/$1.fio" "$work/jobs"
}

least=512
dd if="$file" of=/dev/null bs=512 count=1 iflag=direct status=none 2>/dev/null || least=4096
readonly least

in_turns "$rounds"

# Medians, and how far the rounds of each are apart: what is within that is noise.
python3 - "$work" "$rounds" <<'PYTHON'
import json, statistics, sys
work, rounds = sys.argv[1], int(sys.argv[2])
ours, theirs = {}, {}
for n in range(1, rounds + 1):
    rows = {}
    for experiment in json.load(open(f"{work}/{n}.zinc"))["experiments"]:
        for row in experiment["rows"]:
            rows[row["row"]] = row["measured"]
    for job in json.load(open(f"{work}/{n}.fio"))["jobs"]:
        what, size = job["jobname"].split(",")
        size = int(size)
        fio = max(job["read"]["bw_bytes"], job["write"]["bw_bytes"]) / 2**20
        if what in ("write", "cached"):
            zinc = rows[f"{size >> 10} KiB" + ", write cache on" * (what == "cached")]
        else:
            name = "linear" if what == "read" else "random"
            zinc = rows[f"{name}, {size} bytes"] * size / 2**20
        ours.setdefault((what, size), []).append(zinc)
        theirs.setdefault((what, size), []).append(fio)
names = {"write": "write, durable", "cached": "write", "read": "read", "randread": "random read"}
print("| pattern | bytes | zinc MB/s | max/min | fio MB/s | max/min | ratio | within noise |")
print("| --- " * 8 + "|")
agreed = 0
for (what, size), zinc in ours.items():
    fio = theirs[what, size]
    a, b = statistics.median(zinc), statistics.median(fio)
    noise = [max(x) / min(x) for x in (zinc, fio)]
    agrees = max(a / b, b / a) <= max(noise)
    agreed += agrees
    print(f"| {names[what]} | {size} | {a:.1f} | {noise[0]:.2f} | {b:.1f} | {noise[1]:.2f} "
          f"| {a / b:.2f} | {'yes' if agrees else 'no'} |")
print(f"\n{agreed} of {len(ours)} patterns agree within noise.")
ratios = [statistics.median(z) / statistics.median(theirs[k]) for k, z in ours.items()]
print(f"Median of all ratios: {statistics.median(ratios):.2f}.")
PYTHON
