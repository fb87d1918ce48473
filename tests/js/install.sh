#!/usr/bin/env bash
# Fills node_modules with exactly what package-lock.json names, unless it is there already. Needs the npm registry, or what
# npm has kept of it, the first time only.
set -euo pipefail
cd "$(dirname "$0")"
for tool in node npm; do
  command -v "$tool" >/dev/null || { echo "tests/js: $tool is missing; tools/setup.sh test installs it" >&2; exit 1; }
done
cmp -s package-lock.json node_modules/installed.json && exit 0
npm ci --ignore-scripts --no-audit --no-fund --prefer-offline || {
  echo "tests/js: npm could not install what package-lock.json names, from $(npm config get registry) or its cache." \
    "The tests of the server with real SDKs need it once; after that they run without a network." >&2
  exit 1
}
cp package-lock.json node_modules/installed.json
