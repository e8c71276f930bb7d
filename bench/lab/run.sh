#!/bin/bash
# The experiments on bare devices beside fio with the same access pattern, in turns, on one file or
# disk: prints MB/s (2^20) of both and their ratio. What is on the file or disk is lost.
#
# usage: bench/lab/run.sh ZINC FILE [SECONDS] [ROUNDS]
#   ZINC  the program; FILE  exists and has its size (fallocate -l 1G FILE)
set -euo pipefail
readonly zinc=${1:?usage: bench/lab/run.sh ZINC FILE [SECONDS] [ROUNDS]} file=${2:?which file}
readonly seconds=${3:-2} rounds=${4:-3}
readonly work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fio WHAT BYTES [OPTION…]: MB/s (2^20)
with_fio() {
    local rw=$1 bytes=$2
    shift 2
    fio --name=lab --filename="$file" --rw="$rw" --bs="$bytes" --ioengine=psync --direct=1 \
        --runtime="$seconds" --time_based --output-format=json "$@" |
        python3 -c 'import json,sys; j=json.load(sys.stdin)["jobs"][0]
print(max(j["read"]["bw_bytes"], j["write"]["bw_bytes"]) / 2**20)'
}

for round in $(seq "$rounds"); do
    echo "round $round of $rounds; load $(cut -d' ' -f1-3 /proc/loadavg)" >&2
    "$zinc" lab run raw-sweep --device "$file" --destroy-data --yes --seconds "$seconds" -j \
        >"$work/$round.sweep"
    "$zinc" lab run seek --device "$file" --seconds "$seconds" -j >"$work/$round.seek"
    {
        for kib in 16 128 1024 8192; do
            echo "write $((kib << 10)) $(with_fio write ${kib}k --sync=dsync)"
        done
        for bytes in 4096 16384 131072; do
            echo "read $bytes $(with_fio read $bytes)"
            echo "randread $bytes $(with_fio randread $bytes)"
        done
    } >"$work/$round.fio"
done

# Medians, and how far the rounds of each are apart: what is within that is noise.
python3 - "$work" "$rounds" <<'PYTHON'
import json, statistics, sys
work, rounds = sys.argv[1], int(sys.argv[2])
ours, theirs = {}, {}
for n in range(1, rounds + 1):
    rows = {}
    for name in ("sweep", "seek"):
        for row in json.load(open(f"{work}/{n}.{name}"))["experiments"][0]["rows"]:
            rows[row["row"]] = row["measured"]
    for line in open(f"{work}/{n}.fio"):
        what, size, fio = line.split()
        size, fio = int(size), float(fio)
        if what == "write":
            zinc = rows.get(f"{size >> 10} KiB")
        else:
            name = "linear" if what == "read" else "random"
            zinc = rows.get(f"{name}, {size} bytes")
            zinc = zinc and zinc * size / 2**20
        if zinc:
            ours.setdefault((what, size), []).append(zinc)
            theirs.setdefault((what, size), []).append(fio)
print("pattern        bytes    zinc MB/s  max/min     fio MB/s  max/min   ratio")
for key, zinc in ours.items():
    fio = theirs[key]
    a, b = statistics.median(zinc), statistics.median(fio)
    print(f"{key[0]:10} {key[1]:9} {a:12.1f} {max(zinc)/min(zinc):8.2f} "
          f"{b:12.1f} {max(fio)/min(fio):8.2f} {a/b:7.2f}")
PYTHON
