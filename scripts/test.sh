#!/usr/bin/env bash
# Builds everything and runs every test: unit tests, then pytest (Python side, structure, the real
# binary end to end). Closes with one line, "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null || exit 1
cmake --build build -j "$(nproc)" || exit 1

unit_log=$(mktemp) python_log=$(mktemp)
scripts/unit.sh build | tee "$unit_log"
unit_rc=${PIPESTATUS[0]}
build/venv/bin/python -m pytest -q -rs --durations=10 -p no:cacheprovider python/tests tests "$@" 2>&1 |
  tee "$python_log"
python_rc=${PIPESTATUS[0]}

count() { grep -oP "\\d+(?= $2)" "$1" | tail -1; }
passed=$(($(count "$unit_log" passed || echo 0) + $(count <(tail -1 "$python_log") passed || echo 0)))
failed=$(($(count "$unit_log" failed || echo 0) + $(count <(tail -1 "$python_log") failed || echo 0)))
errors=$(count <(tail -1 "$python_log") error || echo 0)
failed=$((failed + ${errors:-0}))
if [ "$unit_rc$python_rc" != 00 ] && [ "$failed" = 0 ]; then failed=1; fi
echo
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
