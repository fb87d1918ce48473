#!/usr/bin/env bash
# Installs the Debian packages that a purpose needs and that are missing; asks for root only then.
#   tools/setup.sh build   compile and run the program
#   tools/setup.sh test    + run `make test`
#   tools/setup.sh check   + format, clang-tidy, sanitizers, fuzzers
#   tools/setup.sh slow    + the cross-compiler and the emulator of `make test-slow`, what the benchmarks compare with
set -euo pipefail

build=(g++ cmake ninja-build pkg-config libfmt-dev libsimdjson-dev libcli11-dev libpcre2-dev libutf8proc-dev libxxhash-dev liburing-dev libedit-dev libboost1.81-dev)
test=(libgtest-dev libgmock-dev libbenchmark-dev chromium python3 python3-numpy python3-regex python3-jinja2)
# Node.js may come from elsewhere, with npm in its package; Debian's npm would conflict with that one.
command -v node >/dev/null || test+=(nodejs)
command -v npm >/dev/null || test+=(npm)
check=(git clang clang-format clang-tidy libclang-rt-14-dev)
slow=(g++-aarch64-linux-gnu qemu-user googletest fio)

case "${1:-}" in
  build) packages=("${build[@]}") ;;
  test) packages=("${build[@]}" "${test[@]}") ;;
  check) packages=("${build[@]}" "${test[@]}" "${check[@]}") ;;
  slow) packages=("${build[@]}" "${test[@]}" "${check[@]}" "${slow[@]}") ;;
  *) echo "usage: tools/setup.sh build|test|check|slow" >&2; exit 2 ;;
esac

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: as root, run: apt-get install ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q >/dev/null
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
