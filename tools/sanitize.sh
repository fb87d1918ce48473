#!/usr/bin/env bash
# tools/sanitize.sh asan|tsan: builds with clang and runs the fast tests (tsan: of the threaded modules).
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh check
case "${1:-}" in
  asan) modules=(base json io tensor checkpoint text kernels sampling cache experts nn models speculation engine apps) ;;
  tsan) modules=(base io kernels experts engine) ;;
  *) echo "usage: tools/sanitize.sh asan|tsan" >&2; exit 2 ;;
esac
build="build-$1"
cmake --preset "$1" -DFT_TESTS=ON >/dev/null
cmake --build "$build" -j "$(nproc)" --target "${modules[@]/%/_test}"
for module in "${modules[@]}"; do
  echo "--- $1: $module"
  "$build/src/$module/${module}_test" --gtest_brief=1
done
