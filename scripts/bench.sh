#!/usr/bin/env bash
# Runs the benchmarks, each with its floor from the same run.
#
#   scripts/bench.sh                 all: pinned, repeated, with a table
#   scripts/bench.sh --save FILE     also keeps the results, as JSON
#   scripts/bench.sh --compare FILE  also shows what changed since that run
#   scripts/bench.sh --peers         also LTTng-UST, from the distribution
#   scripts/bench.sh --smoke [DIR]   each once, in the build DIR: do they run?
#   PRESET=lto scripts/bench.sh      with link-time optimisation
#
# Further options go to scripts/bench.py; see there. For figures worth keeping
# the machine has to be quiet: the spread says whether it was.
source "$(dirname "$0")/common.sh"

if [[ ${1:-} == --smoke ]]; then
  exec python3 scripts/bench.py --smoke --build "${2:-build/release}"
fi

packages=("${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" valgrind)
for argument in "$@"; do
  if [[ $argument == --peers ]]; then
    packages+=(gcc liblttng-ust-dev lttng-tools)
  fi
done
ensure_packages "${packages[@]}"

preset=${PRESET:-release}
mkdir -p build
targets=()
for source in benchmarks/*_benchmark.cc; do
  targets+=("$(basename "$source" .cc)")
done
cmake --preset "$preset" -DTRACERING_BUILD_TESTS=OFF \
  >"build/$preset.configure.log"
cmake --build --preset "$preset" -j "$(num_jobs)" --target "${targets[@]}"
exec python3 scripts/bench.py --build "build/$preset" "$@"
