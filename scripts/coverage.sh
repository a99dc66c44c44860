#!/usr/bin/env bash
# Runs the tests on a build that counts lines, and says which share of src/ and
# include/ they ran: a line for each room, and the total.
#
#   scripts/coverage.sh              the table
#   scripts/coverage.sh --missing    also the lines that nobody ran, by file
#
# Exits with status 1 if a test failed. The explorer, which runs the same lines
# millions of times, is left out. A process that is killed does not say what it
# ran.
source "$(dirname "$0")/common.sh"

[[ $# -eq 0 || "$*" == --missing ]] || {
  echo "usage: scripts/coverage.sh [--missing]" >&2
  exit 2
}

ensure_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
cmake --preset coverage
cmake --build --preset coverage -j "$(num_jobs)"
find build/coverage -name '*.gcda' -delete
failed=0
# Looks for symbols where this build adds some.
export GTEST_FILTER=-TrackEventDisabledTest.NothingIsEvaluated*
ctest --preset coverage -j "$(num_jobs)" -LE 'lint|package|explore' || failed=1
say "Lines that the tests ran"
python3 scripts/coverage.py build/coverage "$@"
exit "$failed"
