#!/bin/bash
# The experiments that need a pool, on one file or disk, beside fio with the nearest pattern of I/O
# on the same: as many bytes, requests of the same sizes, as many under way. Prints both rates and
# their ratio. What is on the file or disk is lost. README.md says what can be compared.
#
# usage: bench/lab/pools.sh ZINC FILE [SCALE] [SECONDS] [ROUNDS]
#   ZINC     the program; FILE  a disk, or a file of the size that is to be used
#   SCALE    the part of the studies' work (0.1); SECONDS  of the tests of `throttle`: five times it
#   ROUNDS   which begins changes from one to the next (3)
#   UNDER    in the environment: a command that each half of a round is run under
set -euo pipefail
readonly usage='usage: bench/lab/pools.sh ZINC FILE [SCALE] [SECONDS] [ROUNDS]'
readonly zinc=${1:?$usage} file=${2:?$usage}
readonly scale=${3:-0.1} seconds=${4:-0.6} rounds=${5:-3}
# shellcheck source=bench/common.sh
. "$(dirname "$0")/../common.sh"
readonly work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -r -a under <<<"${UNDER:-}"

# All of it is written first: a place that never was is another thing to a file system.
size=$(blockdev --getsize64 "$file" 2>/dev/null || stat -c %s "$file")
dd if=/dev/urandom of="$file" bs=1M count=$((size >> 20)) oflag=direct conv=notrunc,nocreat,fsync \
    status=none

# The jobs of fio for what zinc did in the first round: they need its numbers of bytes and reads.
cat >"$work/jobs.py" <<'PYTHON'
import json, sys
report, file, seconds, seed = json.load(open(sys.argv[1])), *sys.argv[2:]
rows = {e["experiment"]: {r["row"]: r for r in e["rows"]} for e in report["experiments"]}
sync, pios, indirect = rows["sync-stream"], rows["pios"], rows["indirect"]
print(f"[global]\nfilename={file}\nioengine=libaio\ndirect=1\nstonewall\nend_fsync=1")
print(f"norandommap\nrandseed={seed}")
def job(name, **options):
    print(f"[{name}]", *(f"{key}={value}" for key, value in options.items()), sep="\n")
for n in range(1, 6):
    size = int(sync[f"txg {n}: written"]["measured"] * 8) * 128
    job(f"sync-stream txg {n}", rw="write", bs="128k", iodepth=35, size=f"{size}k")
for name, depth in (("synctime 1 s", 35), ("dirty-delay", 10)):
    job(f"throttle {name}", rw="write", bs="128k", iodepth=depth, time_based=1,
        runtime=f"{round(float(seconds) * 5000)}ms", rate="2160m")
mib = int(pios["written in each run"]["measured"])
for name, depth in (("8 zio threads", 8), ("16 zio threads", 16),
                    ("16 zio threads, 4 leaf-sync threads", 16), ("the pool as it is", 10)):
    job(f"pios {name}", rw="write", bs="1m", iodepth=depth, size=f"{mib}m")
# Of the study's reads as many as of its blocks, which are as many as of its I/Os.
part = indirect["16 KiB, every 1024th block: L0, I/Os"]["published"] / 6176
for every, reads in ((1024, 9700), (128, 97000)):
    for kib in (16, 128):
        case = f"{kib} KiB, every {every}th block"
        ios = [indirect[f"{case}: L{n}, I/Os"]["measured"] for n in range(3)]
        bytes_ = [indirect[f"{case}: L{n}, KiB"]["measured"] * 1024 for n in range(3)]
        split = {}
        for count, total in zip(ios, bytes_):
            if count:
                size = max(512, round(total / count / 512) * 512)
                split[size] = split.get(size, 0) + count
        split = ":".join(f"{size}/{100 * count / sum(ios):.0f}" for size, count in split.items())
        job(f"indirect {case}", rw="randread", bssplit=split, iodepth=16,
            size=f"{max(64, int(80e9 * part / 2**20))}m", number_ios=int(sum(ios)))
PYTHON

with_zinc() { # ROUND
    "${under[@]}" "$zinc" lab run sync-stream throttle pios indirect --device "$file" \
        --destroy-data --yes --scale "$scale" --seconds "$seconds" --seed "$1" -j \
        >"$work/$1.zinc"
}

with_fio() { # ROUND
    python3 "$work/jobs.py" "$work/1.zinc" "$file" "$seconds" "$1" >"$work/jobs"
    "${under[@]}" fio --output-format=json --output="$work/$1.fio" "$work/jobs"
}

in_turns "$rounds"

# Medians, and how far the rounds of each are apart: what is within that is noise.
python3 - "$work" "$rounds" <<'PYTHON'
import json, statistics, sys
work, rounds = sys.argv[1], int(sys.argv[2])
ours, theirs, units = {}, {}, {}
for n in range(1, rounds + 1):
    rows = {}
    for experiment in json.load(open(f"{work}/{n}.zinc"))["experiments"]:
        for row in experiment["rows"]:
            rows[experiment["experiment"], row["row"]] = row["measured"]
            if row["row"] == "16 KiB, every 1024th block: L0, I/Os":
                part = row["published"] / 6176
    for job in json.load(open(f"{work}/{n}.fio"))["jobs"]:
        name = job["jobname"]
        of, what = name.split(" ", 1)
        # All of it, with the fsync.
        seconds = max(job["job_runtime"] / 1e3, 1e-3)
        if of == "indirect":
            reads = int((9700 if "1024th" in what else 97000) * part)
            ios = sum(rows[of, f"{what}: L{level}, I/Os"] for level in range(3))
            zinc = rows[of, f"{what}: rate"] * ios / reads
            fio, units[name] = job["read"]["iops"], "reads/s"
        else:
            row = {"sync-stream": "throughput", "throttle": "sustained", "pios": "bandwidth"}[of]
            zinc = rows[of, f"{what}: {row}"]
            fio, units[name] = job["write"]["io_bytes"] / 2**20 / seconds, "MB/s"
        ours.setdefault(name, []).append(zinc)
        theirs.setdefault(name, []).append(fio)
print("| pattern | unit | zinc | max/min | fio | max/min | ratio | within noise |")
print("| --- " * 8 + "|")
agreed = 0
for name, zinc in ours.items():
    fio = theirs[name]
    a, b = statistics.median(zinc), statistics.median(fio)
    noise = [max(x) / min(x) for x in (zinc, fio)]
    agrees = max(a / b, b / a) <= max(noise)
    agreed += agrees
    print(f"| {name} | {units[name]} | {a:.0f} | {noise[0]:.2f} | {b:.0f} | {noise[1]:.2f} "
          f"| {a / b:.2f} | {'yes' if agrees else 'no'} |")
print(f"\n{agreed} of {len(ours)} patterns agree within noise.")
PYTHON
