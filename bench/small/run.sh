#!/bin/bash
# Small files: an archive of them into a new pool in a file, and by tar into a folder of the same
# file system, each until it is durable, in turns. README.md says what is expected and came out.
#
# usage: bench/small/run.sh DIRECTORY [FILES [ROUNDS]]
#   DIRECTORY  on the disk to be measured; 15 KiB a file are needed there
#   ZINC       the command to be measured, instead of a release build of this tree
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly dir=${1:?usage: bench/small/run.sh DIRECTORY [FILES [ROUNDS]]}
readonly files=${2:-100000} rounds=${3:-3}
work=$(mktemp -d "$dir/small.XXXXXX")
readonly work
trap 'rm -rf "$work"' EXIT
if [ -z "${ZINC:-}" ]; then
    cargo build --release --locked --bin zinc
    ZINC=${CARGO_TARGET_DIR:-target}/release/zinc
fi
ZINC=$(realpath "$ZINC")
readonly ZINC
export ZINC_STATE=$work/state ZINC_SOCKETS=$work/sockets

# usage: measure NAME COMMAND...
measure() {
    local name=$1
    shift
    /usr/bin/time -f "$name %e s, %U user, %S system, %M KiB" "$@" 2>&1 | tail -n 1
}

python3 bench/small/generate.py "$files" "$work/small.tar"
cat "$work/small.tar" > /dev/null
echo "== $files files; $(nproc) processors; load $(cut -d' ' -f1-3 /proc/loadavg)"
for _ in $(seq "$rounds"); do
    mkdir "$work/tree"
    sync
    measure "tar " sh -c "tar -xf '$work/small.tar' -C '$work/tree' && sync"
    rm -rf "$work/tree" "$work/state" "$work/vdev"
    truncate -s "$((files * 12 / 1024 + 512))M" "$work/vdev"
    "$ZINC" zpool create -f small "$work/vdev" > /dev/null
    sync
    measure "zinc" "$ZINC" cp --tar "$work/small.tar" small:/
    "$ZINC" zpool destroy small
done
