#!/usr/bin/env bash
# tools/check.sh [analyze]: what CI gates on before it builds anything: layout, layers, clang-tidy. The static
# analyzer's checks take as long as all others together: they run with `analyze` (make test-slow).
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
checks=-clang-analyzer-*
[ "${1:-}" = analyze ] && checks=

git ls-files '*.h' '*.cc' | xargs clang-format --dry-run --Werror
python3 tools/check_layers.py
# A build folder of its own: clang-tidy cannot read gcc's precompiled headers. Configuring writes the
# unit lists that some sources include; nothing is built.
cmake --preset release -B build-tidy -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
git ls-files 'src/*.cc' 'examples/*.cc' | grep -vE '_(test|fuzz|cases)\.cc$|/neon/' |
  xargs -P "$jobs" -n 4 clang-tidy -p build-tidy --quiet --checks="$checks" 2>/dev/null
echo "check: format, layers and clang-tidy are clean"
