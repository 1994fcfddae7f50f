#!/usr/bin/env bash
# Builds everything and runs every test: unit tests, then pytest (Python side, structure, the real
# binary end to end) and jobs on a real Kubernetes control plane, which is built first where it is
# missing (tests/cluster/README.md). Closes with one line, "N passed, N failed". Most of these tests
# wait for other processes, so two streams of them run at a time. Further arguments are pytest's.
set -uo pipefail
cd "$(dirname "$0")/.."
took() { echo "== $1: $((SECONDS - since)) s"; since=$SECONDS; }
since=$SECONDS
cmake --preset release >/dev/null || exit 1
cmake --build build -j "$(nproc)" || exit 1
took build
scripts/control-plane.sh
scripts/slurm.sh
took "control plane and Slurm"

logs=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$logs"' EXIT
failed_parts=0
pytest() { build/venv/bin/python -m pytest -q -rfEs --durations=10 -p no:cacheprovider "$@" 2>&1; }

scripts/unit.sh build | tee "$logs/unit" || failed_parts=1
took "unit tests"
{ pytest python/tests "$@" >"$logs/python"
  python_rc=$?
  pytest tests/cluster "$@" >"$logs/cluster" && exit $python_rc; } &
pytest tests --ignore=tests/cluster "$@" | tee "$logs/program" || failed_parts=1
wait $! || failed_parts=1
took "program, Python and cluster tests"
cat "$logs/python" "$logs/cluster"

count() { { tail -1 "$1" | grep -oP "\\d+(?= $2)" || echo 0; } | tail -1; }
passed=0 failed=0
for log in "$logs"/*; do
  passed=$((passed + $(count "$log" passed)))
  failed=$((failed + $(count "$log" failed) + $(count "$log" error)))
done
[ "$failed_parts" = 0 ] || [ "$failed" != 0 ] || failed=1
echo
grep -hE '^(FAILED|ERROR) ' "$logs"/*
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
