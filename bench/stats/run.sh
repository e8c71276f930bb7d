#!/bin/bash
# What the instruments cost: instructions of the same work with everything counted and with nothing
# counted (the tunable zinc_stats), by callgrind. README.md says what is counted and what came out.
#
# usage: bench/stats/run.sh [ROUNDS]
#   ROUNDS  measurements of each work (3), of which the median is told
#   BENCH   in the environment: the writebench to measure, built otherwise with the profile `lab`
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly rounds=${1:-3}
if [ -z "${BENCH:-}" ]; then
    cargo build --profile lab --locked -p engine --example writebench
    BENCH=${CARGO_TARGET_DIR:-target}/lab/examples/writebench
fi
readonly bench=$(realpath "$BENCH") work=$(mktemp -d /dev/shm/statsbench.XXXXXX)
trap 'rm -rf "$work"' EXIT
# Instructions of one look at the clock, which valgrind makes a system call of and does not count.
readonly clock=60

# Instructions, with those of the looks at the clock: measure ROUNDS_OF_WORK on|off WORK...
measure() {
    local n=$1 stats=$2
    shift 2
    valgrind --tool=callgrind --callgrind-out-file="$work/profile" \
        "$bench" --rounds "$n" --stats "$stats" --size 512M --cache 16M "$@" > /dev/null 2> "$work/log"
    local instructions looks
    instructions=$(awk '/Collected/ { print $NF }' "$work/log")
    looks=$(awk '
        match($0, /^c?fn=\([0-9]+\)/) {
            id = substr($0, RSTART, RLENGTH)
            sub(/^c?fn=/, "", id)
            if (length($0) > RLENGTH) name[id] = substr($0, RLENGTH + 2)
            if ($0 ~ /^cfn/) callee = name[id]
        }
        /^calls=/ && callee ~ /^clock_gettime/ { split($1, n, "="); sum += n[2] }
        END { print sum + 0 }' "$work/profile")
    echo $((instructions + clock * looks))
}

median() {
    sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}

echo "| work | nothing counted, million instructions | everything counted | cost |"
echo "|---|---|---|---|"
for work_of in "seqwrite,128 KiB,--bytes 128M" "seqread,128 KiB,--bytes 128M" \
    "seqwrite,8 KiB,--bytes 32M --record 8K" "seqread,8 KiB,--bytes 32M --record 8K --io 8K" \
    "randwrite,8 KiB,--bytes 64M" "randread,8 KiB,--bytes 64M" "creates,files,--files 3000"; do
    IFS=, read -r name size options <<< "$work_of"
    declare -A cost=()
    for stats in off on; do
        for _ in $(seq "$rounds"); do
            # What comes before the work, and after it, is taken away.
            # shellcheck disable=SC2086
            some=$(measure 1 "$stats" --work "$name" $options)
            # shellcheck disable=SC2086
            none=$(measure 0 "$stats" --work "$name" $options)
            echo $((some - none))
        done | median > "$work/$stats"
        cost[$stats]=$(< "$work/$stats")
    done
    awk -v name="$name, $size" -v off="${cost[off]}" -v on="${cost[on]}" 'BEGIN {
        printf "| %s | %.2f | %.2f | %+.2f %% |\n", name, off / 1e6, on / 1e6, (on - off) / off * 100
    }'
done
