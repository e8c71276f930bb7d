# What measurements share that time whole commands. `$work` is a directory of the one that reads this in.

# shellcheck shell=bash disable=SC2154

# Nothing of the disks is in memory afterwards.
cold() { sync; echo 3 >/proc/sys/vm/drop_caches; }
# Runs a command cold and appends its seconds to $work/f.NAME; what it printed is in $work/output.
timed() { # NAME COMMAND...
    local name=$1 start
    shift
    cold
    start=$(date +%s.%N)
    "$@" >"$work/output" 2>&1 || { cat "$work/output"; exit 1; }
    date +%s.%N | awk -v a="$start" '{ printf "%.2f\n", $1 - a }' >>"$work/f.$name"
}
# Rounds of with_zinc and with_fio, each with the number of its round: which begins changes.
in_turns() { # ROUNDS
    local round
    for round in $(seq "$1"); do
        echo "round $round of $1; load $(cut -d' ' -f1-3 /proc/loadavg)" >&2
        if test $((round % 2)) = 1; then
            with_zinc "$round"
            with_fio "$round"
        else
            with_fio "$round"
            with_zinc "$round"
        fi
    done
}
# The middle one of the numbers in a file.
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
