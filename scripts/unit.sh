#!/usr/bin/env bash
# Runs every gtest binary of a build directory; prints what failed and a count.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:?usage: unit.sh BUILD_DIRECTORY}
passed=0 failed=0
for binary in "$build"/tests/*_test; do
  log=$(mktemp)
  if "$binary" --gtest_brief=1 >"$log" 2>&1; then ok=1; else ok=0; fi
  p=$(grep -oP '\[  PASSED  \] \K\d+' "$log" | tail -1)
  f=$(grep -cP '^\[  FAILED  \] \w+\.' "$log")
  if [ "$ok" = 0 ]; then
    cat "$log"
    [ "$f" -gt 0 ] || f=1
  fi
  passed=$((passed + ${p:-0})) failed=$((failed + f))
  rm -f "$log"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
