#!/usr/bin/env bash
# tools/fuzz.sh SECONDS: runs every fuzzer of build-asan for that long, two at a time, on its seed corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
tools/setup.sh check
cmake --preset asan -DFT_TESTS=ON >/dev/null
cmake --build build-asan -j "$(nproc)" --target fuzzers
run_one() {
  local fuzzer=$1 name=${1##*/fuzz_}
  local corpus=build-asan/corpus/$name seeds=tests/fuzz_seeds/$name
  mkdir -p "$corpus"
  if "$fuzzer" -max_total_time="$2" -rss_limit_mb=2048 -timeout=10 -max_len=65536 -artifact_prefix="build-asan/$name-" \
      "$corpus" "$seeds" >"build-asan/fuzz_$name.log" 2>&1; then
    echo "fuzz: $name clean after $2 s ($(grep -oE 'DONE +cov: [0-9]+' "build-asan/fuzz_$name.log" || true))"
  else
    tail -n 40 "build-asan/fuzz_$name.log"
    echo "fuzz: $name FAILED" >&2
    return 1
  fi
}
export -f run_one
find build-asan -type f -name 'fuzz_*' -executable -print0 | sort -z |
  xargs -0 -P 2 -I{} bash -c 'run_one "$1" "$2"' _ {} "$seconds"
