#!/usr/bin/env bash
# What CI has no time for: all tests (they cover every instruction set of this processor), the benchmarks, the static
# analyzer, the kernels on NEON under emulation, ten minutes of fuzzing.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh slow
make test

echo "--- benchmarks compile"
cmake --preset release -DFT_BENCH=ON >/dev/null
cmake --build build -j "$(nproc)"
cmake --preset release -DFT_BENCH=OFF >/dev/null

echo "--- clang-tidy with the static analyzer"
tools/setup.sh check
tools/check.sh analyze

echo "--- NEON under qemu-user: base, tensor, kernels"
cmake --preset neon -DFT_TESTS=ON >/dev/null
cmake --build build-neon -j "$(nproc)"
ctest --test-dir build-neon -j "$(nproc)" --output-on-failure

echo "--- fuzzers, 600 s each"
tools/fuzz.sh 600
