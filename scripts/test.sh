#!/usr/bin/env bash
# Builds everything and runs every test: unit tests, then pytest (Python side, structure, the real
# binary end to end) and jobs on a real Kubernetes control plane, which is built first where it is
# missing (tests/cluster/README.md). Closes with one line, "N passed, N failed". Most of these tests
# wait for other processes, so one group of them more than there are processors runs at a time.
# Further arguments are pytest's.
set -uo pipefail
cd "$(dirname "$0")/.."
took() { echo "== $1: $((SECONDS - since)) s"; since=$SECONDS; }
since=$SECONDS
logs=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$logs"' EXIT
cmake --preset release >/dev/null || exit 1
scripts/setup.sh & environment=$!
cmake --build build -j "$(nproc)" || exit 1
wait $environment || exit 1
took build
scripts/control-plane.sh
scripts/slurm.sh
took "control plane and Slurm"

failed_parts=0
scripts/unit.sh build | tee "$logs/unit" || failed_parts=1
took "unit tests"

# A group is what shares the costly fixtures of one pytest. The longest come first, the others by
# their size.
groups() {
  echo tests/cluster python/tests
  printf 'tests/test_%s.py\n' conformance doctor_real inject scripts checkpoints
  wc -c tests/test_*.py | sort -rn | awk '$2 != "total" { print $2 }'
}
group() {
  local log since=$SECONDS
  log=$(mktemp "$LOGS/pytest.XXXX")
  build/venv/bin/python -m pytest -q -rfEs --durations=5 -p no:cacheprovider "$@" >"$log" 2>&1
  local rc=$?
  cat <(echo "-- $1: $((SECONDS - since)) s") "$log"
  # 5: the further arguments leave none of this group.
  [ $rc = 0 ] || [ $rc = 5 ]
}
export -f group
export LOGS=$logs
groups | tr ' ' '\n' | awk '!seen[$0]++' |
  xargs -P $(($(nproc) + 1)) -I{} bash -c 'group "$@"' - {} "$@" || failed_parts=1
took "program, Python and cluster tests"

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
