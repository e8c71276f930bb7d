#!/bin/bash
# Writes of which each is promised before the next, in a pool in a file and in a plain file beside
# it, in turns; and what fio says of the plain file. README.md says what is expected.
#
# usage: bench/sync/run.sh DIRECTORY [SECONDS] [ROUNDS]
#   DIRECTORY  on the disk to be measured; 6 GiB are needed there
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly dir=${1:?usage: bench/sync/run.sh DIRECTORY [SECONDS] [ROUNDS]} seconds=${2:-3} rounds=${3:-3}
readonly work=$(mktemp -d "$dir/syncbench.XXXXXX")
trap 'rm -rf "$work"' EXIT

cargo build --release --locked -p engine --example syncbench
echo "== $(nproc) processors; load $(cut -d' ' -f1-3 /proc/loadavg)"
"${CARGO_TARGET_DIR:-target}/release/examples/syncbench" "$work" "$seconds" "$rounds"
if command -v fio > /dev/null; then
    echo "== fio on a plain file"
    for size in 4k 128k; do
        for jobs in 1 4 16 64; do
            fio --name=sync --directory="$work" --filename=fio --rw=write --bs="$size" --size=16m \
                --offset_increment=16m --numjobs="$jobs" --thread --ioengine=psync --fdatasync=1 \
                --time_based --runtime="$seconds" --group_reporting --output-format=json |
                python3 -c 'import json,sys; j=json.load(sys.stdin)["jobs"][0]
print(sys.argv[1], sys.argv[2], round(j["write"]["iops"]))' "$size" "$jobs"
        done
    done
fi
