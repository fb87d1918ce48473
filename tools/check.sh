#!/usr/bin/env bash
# What CI gates on before it builds anything: layout, layers, clang-tidy.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)

git ls-files '*.h' '*.cc' | xargs clang-format --dry-run --Werror
python3 tools/check_layers.py
# A build folder of its own: clang-tidy cannot read gcc's precompiled headers. Configuring writes the
# unit lists that some sources include; nothing is built.
cmake --preset release -B build-tidy -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
git ls-files 'src/*.cc' 'examples/*.cc' | grep -vE '_(test|fuzz|cases)\.cc$|/neon/' |
  xargs -P "$jobs" -n 4 clang-tidy -p build-tidy --quiet 2>/dev/null
echo "check: format, layers and clang-tidy are clean"
