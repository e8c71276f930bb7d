#!/bin/bash
# What the instruments cost: instructions of the same work with everything counted and with nothing
# counted (the tunable zinc_stats), by callgrind. README.md says what is counted and what came out.
#
# usage: bench/stats/run.sh [ROUNDS [WORK...]]
#   ROUNDS  measurements of each work (3), of which the median is told
#   WORK    of `seqwrite,128 KiB` and so on, as in the table (all)
#   BENCH   in the environment: the writebench to measure, built for release otherwise
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly rounds=${1:-3}
shift $(($# > 0 ? 1 : 0))
if [ -z "${BENCH:-}" ]; then
    cargo build --release --locked -p engine --example writebench
    BENCH=${CARGO_TARGET_DIR:-target}/release/examples/writebench
fi
readonly bench=$(realpath "$BENCH") work=$(mktemp -d /dev/shm/statsbench.XXXXXX)
trap 'rm -rf "$work"' EXIT
# Instructions of one look at the clock, which valgrind makes a system call of and does not count.
readonly clock=60

# The same on every run: one thread of the application and one of each sync, and txgs that end when
# the work does.
readonly -a same=(--rounds 1 --threads 1 --size 512M --cache 16M
    --tune zfs_txg_timeout=3600 --tune zfs_dirty_data_max=4G --tune zinc_leaf_sync_threads=1)

# Instructions of the work alone, and looks at the clock: measure on|off WORK...
measure() {
    local stats=$1 profile
    shift
    rm -f "$work"/profile*
    valgrind --tool=callgrind --callgrind-out-file="$work/profile" \
        --zero-before='*measured_begins*' --dump-before='*measured_ends*' \
        "$bench" "${same[@]}" --stats "$stats" "$@" > "$work/log" 2>&1 || {
        cat "$work/log" >&2
        return 1
    }
    # What was written before it is read is a measurement of its own, and so was all before the last.
    profile=$(find "$work" -name 'profile.*' | sort -t. -k3n | tail -n 1)
    awk '
        /^totals:/ { total = $2 }
        match($0, /^c?fn=\([0-9]+\)/) {
            id = substr($0, RSTART, RLENGTH)
            sub(/^c?fn=/, "", id)
            if (length($0) > RLENGTH) name[id] = substr($0, RLENGTH + 2)
            if ($0 ~ /^cfn/) callee = name[id]
        }
        /^calls=/ && callee ~ /^clock_gettime/ { split($1, n, "="); looks += n[2] }
        END { print total + 0, looks + 0 }' "$profile"
}

# Of lines of instructions and looks, the median of both.
median() {
    local column
    for column in 1 2; do
        awk -v c=$column '{ print $c }' "$1" | sort -n |
            awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
    done | paste -sd ' '
}

echo "| work | nothing counted, million instructions | everything counted | looks at the clock | cost |"
echo "|---|---|---|---|---|"
while IFS=, read -r name size options; do
    if [ $# -gt 0 ]; then
        [[ " $* " == *" $name,$size "* ]] || continue
    fi
    for stats in off on; do
        : > "$work/$stats"
    done
    # In turns, so that whatever changes slowly changes both.
    for _ in $(seq "$rounds"); do
        for stats in off on; do
            # shellcheck disable=SC2086
            measure "$stats" --work "$name" $options >> "$work/$stats"
        done
    done
    paste -d ' ' <(median "$work/off") <(median "$work/on") |
        awk -v work="$name, $size" -v clock="$clock" '{
            off = $1 + clock * $2
            on = $3 + clock * $4
            printf "| %s | %.2f | %.2f | %d | %+.2f %% |\n",
                work, off / 1e6, on / 1e6, $4 - $2, (on - off) / off * 100
        }'
done << 'WORKS'
seqwrite,128 KiB,--bytes 64M
seqread,128 KiB,--bytes 64M
seqwrite,8 KiB,--bytes 32M --record 8K
seqread,8 KiB,--bytes 32M --record 8K --io 8K
randwrite,8 KiB,--bytes 64M
randread,8 KiB,--bytes 64M
creates,files,--files 2000
WORKS
