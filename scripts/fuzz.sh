#!/usr/bin/env bash
# Builds and runs every fuzzer for FUZZ_SECONDS (default 30) each. Corpora live in build/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset fuzz >/dev/null
cmake --build build/asan -j "$(nproc)" --target fuzzers
failed=0
for fuzzer in build/asan/fuzz/*_fuzz; do
  name=$(basename "$fuzzer")
  mkdir -p "build/corpus/$name"
  echo "fuzzing: $name"
  if ! "$fuzzer" -max_total_time="${FUZZ_SECONDS:-30}" -rss_limit_mb=1024 -timeout=10 \
      -print_final_stats=1 -artifact_prefix="build/corpus/$name-" "build/corpus/$name" \
      >"build/corpus/$name.log" 2>&1; then
    tail -30 "build/corpus/$name.log"
    failed=$((failed + 1))
  else
    grep -E 'stat::number_of_executed_units' "build/corpus/$name.log"
  fi
done
[ "$failed" = 0 ]
