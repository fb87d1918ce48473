# The front door. `make demo` and `make test` need nothing but a Debian 12 machine; everything else is for developers.
.PHONY: all build-tests demo test test-fast test-slow check format asan tsan fuzz bench-kernels clean help
.DEFAULT_GOAL := all
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60

help:            ## this list
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+:  +##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## ?/\t/' | expand -t 16

all:             ## build the program: build/foretoken
	@tools/setup.sh build
	@cmake --preset release $(CMAKE_FLAGS) -DFT_TESTS=OFF >/dev/null
	@cmake --build build --target foretoken_cli -j $(JOBS)

demo: all        ## install what is missing, build, write a story with the model that ships
	@tools/demo.sh

build-tests:
	@tools/setup.sh test
	@cmake --preset release $(CMAKE_FLAGS) -DFT_TESTS=ON >/dev/null
	@cmake --build build -j $(JOBS)

test: build-tests ## install what is missing, build, run all tests
	@ctest --test-dir build -j $(JOBS) --output-on-failure

test-fast: build-tests ## only the tests that need no model (< 60 s)
	@ctest --test-dir build -j $(JOBS) --output-on-failure -L fast

test-slow:       ## all tests, NEON under emulation, long fuzzing
	@tools/test_slow.sh

check:           ## format, layers, clang-tidy: what CI gates on
	@tools/setup.sh check
	@tools/check.sh

format:          ## clang-format everything in place
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

asan:            ## fast tests under AddressSanitizer and UBSan (clang)
	@tools/sanitize.sh asan

tsan:            ## threaded modules under ThreadSanitizer (clang)
	@tools/sanitize.sh tsan

fuzz:            ## every fuzzer for FUZZ_SECONDS seconds
	@tools/fuzz.sh $(FUZZ_SECONDS)

bench-kernels:   ## micro-benchmarks of the kernels
	@tools/setup.sh test
	@cmake --preset release $(CMAKE_FLAGS) -DFT_BENCH=ON >/dev/null
	@cmake --build build --target kernels_bench attention_bench -j $(JOBS)
	@build/bench/kernels_bench && build/bench/attention_bench

clean:           ## remove all build folders
	@rm -rf build build-*
