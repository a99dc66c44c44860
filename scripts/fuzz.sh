#!/usr/bin/env bash
# Builds the fuzzers and runs them, as many at a time as there are processors.
#
#   scripts/fuzz.sh [SECONDS] [TARGET...]   default: 60 s of each
#
# Each starts from a copy of its inputs in tests/fuzz/corpus. What it finds is
# kept in build/fuzz/found; exits with status 1 if that is anything.
source "$(dirname "$0")/common.sh"

seconds=${1:-60}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || {
  echo "usage: scripts/fuzz.sh [SECONDS] [TARGET...]" >&2
  exit 2
}
if [[ $# -gt 1 ]]; then
  targets=("${@:2}")
else
  mapfile -t targets < <(ls tests/fuzz/corpus)
fi
for target in "${targets[@]}"; do
  [[ -d tests/fuzz/corpus/$target ]] || fail "there is no fuzzer '$target'"
done

ensure_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" \
  "${SANITIZER_PACKAGES[@]}"
say "Building"
mkdir -p build
cmake --preset fuzz >build/fuzz.configure.log 2>&1 || {
  cat build/fuzz.configure.log
  exit 1
}
cmake --build build/fuzz -j "$(num_jobs)" --target "${targets[@]/%/_fuzzer}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
found=build/fuzz/found
mkdir -p "$found"

# fuzz TARGET: succeeds if it ran to its end and found nothing.
fuzz() {
  cp -r "tests/fuzz/corpus/$1" "$work/$1"
  "build/fuzz/tests/fuzz/$1_fuzzer" -max_total_time="$seconds" -max_len=1024 \
    -len_control=0 -timeout=60 -artifact_prefix="$found/$1-" "$work/$1" \
    >"$work/$1.log" 2>&1 || {
    grep -v -E '^#[0-9]+\s+(NEW|REDUCE|pulse)' "$work/$1.log" | tail -n 60
    return 1
  }
  printf '%s: %s\n' "$1" "$(grep '^Done' "$work/$1.log")"
}

say "Fuzzing for $seconds s each: ${targets[*]}"
running=()
failed=()
# finish_one: waits for the fuzzer that was started first.
finish_one() {
  wait "${running[0]#*:}" || failed+=("${running[0]%%:*}")
  running=("${running[@]:1}")
}
for target in "${targets[@]}"; do
  if [[ ${#running[@]} -eq $(num_jobs) ]]; then finish_one; fi
  fuzz "$target" &
  running+=("$target:$!")
done
while [[ ${#running[@]} -ne 0 ]]; do finish_one; done

if [[ ${#failed[@]} -ne 0 ]]; then
  fail "found something: ${failed[*]}; run the fuzzer on the file in $found"
fi
say "Nothing found"
