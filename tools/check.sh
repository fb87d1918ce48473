#!/usr/bin/env bash
# What CI gates on before it builds anything: layout, layers, clang-tidy.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)

git ls-files '*.h' '*.cc' | xargs clang-format --dry-run --Werror
python3 tools/check_layers.py
cmake --preset release -DFT_TESTS=ON >/dev/null
# Generated files (the unit lists) must exist before clang-tidy reads the sources.
git ls-files 'src/*.cc' 'examples/*.cc' | grep -vE '_(test|fuzz)\.cc$|/neon/' |
  xargs -P "$jobs" -n 4 clang-tidy -p build --quiet 2>/dev/null
echo "check: format, layers and clang-tidy are clean"
