#!/usr/bin/env bash
# Runs every gtest binary of a build directory, as many at a time as there are processors; prints
# what failed and a count.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:?usage: unit.sh BUILD_DIRECTORY}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
one() {
  local log=$2/${1##*/} ok=1 failed
  "$1" --gtest_brief=1 >"$log" 2>&1 || ok=0
  failed=$(grep -cP '^\[  FAILED  \] \w+\.' "$log")
  if [ $ok = 0 ]; then
    cat "$log"
    [ "$failed" -gt 0 ] || failed=1
  fi
  { grep -oP '\[  PASSED  \] \K\d+' "$log" || echo 0; } | tail -1 >"$log.passed"
  echo "$failed" >"$log.failed"
}
export -f one
# The slowest first, so that no processor waits for them in the end.
{ ls "$build"/tests/{gang,ckpt}_test; ls "$build"/tests/*_test; } | awk '!seen[$0]++' | xargs -P "$(nproc)" -I{} bash -c 'one "$1" "$2"' - {} "$logs"
sum() { cat "$logs"/*."$1" | awk '{ sum += $1 } END { print sum + 0 }'; }
passed=$(sum passed) failed=$(sum failed)
echo "$passed passed, $failed failed"
[ "$passed" != 0 ] && [ "$failed" = 0 ]
