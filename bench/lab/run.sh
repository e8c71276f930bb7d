#!/bin/bash
# The experiments on bare devices beside fio with the same access pattern, in turns, on one file or
# disk: prints MB/s of both and their ratio. What is on the file or disk is lost.
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
    echo "== round $round of $rounds"
    "$zinc" lab run raw-sweep --device "$file" --destroy-data --yes --seconds "$seconds" -j \
        >"$work/sweep" || true
    "$zinc" lab run seek --device "$file" --seconds "$seconds" -j >"$work/seek" || true
    for kib in 16 128 1024 8192; do
        echo "write $((kib << 10)) $(with_fio write ${kib}k --sync=dsync)"
    done >"$work/fio"
    for bytes in 4096 16384 131072; do
        echo "read $bytes $(with_fio read $bytes)"
        echo "randread $bytes $(with_fio randread $bytes)"
    done >>"$work/fio"
    python3 - "$work" <<'PYTHON'
import json, sys
work = sys.argv[1]
rows = {}
for name in ("sweep", "seek"):
    for row in json.load(open(f"{work}/{name}"))["experiments"][0]["rows"]:
        rows[row["row"]] = row["measured"]
print(f"{'pattern':10} {'bytes':>9} {'zinc':>10} {'fio':>10} {'ratio':>6}   (MB/s, 2^20)")
for line in open(f"{work}/fio"):
    what, size, fio = line.split()
    size, fio = int(size), float(fio)
    if what == "write":
        zinc = rows.get(f"{size >> 10} KiB")
    else:
        name = "linear" if what == "read" else "random"
        zinc = rows.get(f"{name}, {size} bytes")
        zinc = zinc and zinc * size / 2**20
    if zinc:
        print(f"{what:10} {size:9} {zinc:10.2f} {fio:10.2f} {zinc / fio:6.2f}")
PYTHON
done
