#!/usr/bin/env bash
# Builds everything and runs every test: unit tests, then pytest (Python side, structure, the real
# binary end to end), then jobs on a real Kubernetes control plane, which is built first where it is
# missing (tests/cluster/README.md). Closes with one line, "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null || exit 1
cmake --build build -j "$(nproc)" || exit 1

unit_log=$(mktemp) python_log=$(mktemp) cluster_log=$(mktemp)
scripts/unit.sh build | tee "$unit_log"
unit_rc=${PIPESTATUS[0]}
pytest() { build/venv/bin/python -m pytest -q -rs --durations=10 -p no:cacheprovider "$@" 2>&1; }
pytest python/tests tests --ignore=tests/cluster "$@" | tee "$python_log"
python_rc=${PIPESTATUS[0]}
scripts/control-plane.sh
pytest tests/cluster "$@" | tee "$cluster_log"
cluster_rc=${PIPESTATUS[0]}

count() { { grep -oP "\\d+(?= $1)" || echo 0; } | tail -1; }
passed=0 failed=0
for log in "$unit_log" "$python_log" "$cluster_log"; do
  passed=$((passed + $(tail -1 "$log" | count passed)))
  failed=$((failed + $(tail -1 "$log" | count failed) + $(tail -1 "$log" | count error)))
done
if [ "$unit_rc$python_rc$cluster_rc" != 000 ] && [ "$failed" = 0 ]; then failed=1; fi
echo
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
