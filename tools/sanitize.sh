#!/usr/bin/env bash
# tools/sanitize.sh asan|tsan: builds with clang and runs the fast tests (tsan: of the threaded modules).
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh check
case "${1:-}" in
  asan) select=(-L fast) ;;
  tsan) select=(-L fast -R '^(ThreadPool|Kernels|Backend|Engine|Scheduler|TokenStream)') ;;
  *) echo "usage: tools/sanitize.sh asan|tsan" >&2; exit 2 ;;
esac
cmake --preset "$1" -DFT_TESTS=ON >/dev/null
cmake --build "build-$1" -j "$(nproc)"
ctest --test-dir "build-$1" -j "$(nproc)" --output-on-failure "${select[@]}"
