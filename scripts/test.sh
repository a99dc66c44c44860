#!/usr/bin/env bash
# Installs what is missing, builds the project and runs all its tests.
#
#   scripts/test.sh          the optimised build
#   scripts/test.sh --asan   under AddressSanitizer and UBSan
#   scripts/test.sh --tsan   under ThreadSanitizer
#   scripts/test.sh --all    all three, one after the other
#
# Exits with status 0 only if every test of every build asked for passed.
source "$(dirname "$0")/common.sh"

usage() {
  echo "usage: scripts/test.sh [--plain] [--asan] [--tsan] [--all]" >&2
  exit 2
}

presets=()
for argument in "$@"; do
  case "$argument" in
    --plain) presets+=(dev) ;;
    --asan) presets+=(asan) ;;
    --tsan) presets+=(tsan) ;;
    --all) presets+=(dev asan tsan) ;;
    *) usage ;;
  esac
done
if [[ ${#presets[@]} -eq 0 ]]; then presets=(dev); fi

packages=("${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}")
if [[ " ${presets[*]} " == *san\ * ]]; then
  packages+=("${SANITIZER_PACKAGES[@]}")
fi
ensure_packages "${packages[@]}"

# test_preset NAME: succeeds if everything built and every test passed.
test_preset() {
  say "$1: building"
  cmake --preset "$1" >"build/$1.configure.log" 2>&1 || {
    cat "build/$1.configure.log"
    return 1
  }
  cmake --build --preset "$1" -j "$(num_jobs)" || return 1
  say "$1: testing"
  ctest --preset "$1" -j "$(num_jobs)"
}

mkdir -p build
failed=()
for preset in "${presets[@]}"; do
  started=$SECONDS
  test_preset "$preset" || failed+=("$preset")
  say "$preset: took $((SECONDS - started)) s"
done

if [[ ${#failed[@]} -ne 0 ]]; then
  fail "failed: ${failed[*]}"
fi
say "Passed: ${presets[*]}"
