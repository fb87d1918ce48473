#!/usr/bin/env bash
# tools/sanitize.sh asan|tsan: builds with clang and runs the fast tests (tsan: of the threaded modules).
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh check
case "${1:-}" in
  asan) modules=(base json io tensor checkpoint text kernels sampling cache experts nn models speculation engine server apps) ;;
  tsan) modules=(base experts engine server) ;;
  *) echo "usage: tools/sanitize.sh asan|tsan" >&2; exit 2 ;;
esac
build="build-$1"
cmake --preset "$1" -DFT_TESTS=ON >/dev/null
cmake --build "$build" -j "$(nproc)" --target "${modules[@]/%/_test}"
run_module() {
  local log="$1/src/$2/sanitized.log"
  if "$1/src/$2/$2_test" --gtest_brief=1 >"$log" 2>&1; then
    echo "--- $2: $(tail -n 1 "$log")"
  else
    echo "--- $2: FAILED"
    cat "$log"
    return 1
  fi
}
export -f run_module
# Modules that take longest stand last in the list: they go first.
printf '%s\n' "${modules[@]}" | tac |
  xargs -P "$(nproc)" -I{} bash -c 'run_module "$1" "$2"' _ "$build" {}
