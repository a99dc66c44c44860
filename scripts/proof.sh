#!/usr/bin/env bash
# The long part of the proof: what takes too long for every build.
#
#   scripts/proof.sh                 all parts
#   scripts/proof.sh PART...         some: explore mutants scale fuzz soak
#
#   explore   every interleaving of the configurations, the long ones included
#   mutants   each seeded fault of the protocol has to be caught
#   scale     a hundred thousand threads, a thousand killed processes, a
#             thousand services beside 16 threads (also under ThreadSanitizer)
#   fuzz      each fuzzer for ten minutes
#   soak      processes that are killed, frozen and restarted for 20 minutes
#
# Prints a summary, and exits with status 0 only if every part passed.
source "$(dirname "$0")/common.sh"

PARTS=(explore mutants scale fuzz soak)
BUILD=build/dev

part_explore() {
  cmake --build --preset dev -j "$(num_jobs)" --target explore &&
    "$BUILD/tests/explore/explore" --long
}

part_mutants() {
  cmake --build --preset dev -j "$(num_jobs)" --target explore_mutants &&
    python3 tests/explore/mutants.py run "$BUILD/tests/explore"
}

part_scale() {
  cmake --build --preset dev -j "$(num_jobs)" --target integration_test &&
    TRACERING_FULL_SCALE=1 "$BUILD/tests/integration/integration_test" \
      --gtest_filter='ScaleTest.*' &&
    cmake --preset tsan &&
    cmake --build --preset tsan -j "$(num_jobs)" --target integration_test &&
    TRACERING_FULL_SCALE=1 build/tsan/tests/integration/integration_test \
      --gtest_filter='ScaleTest.SessionsComeAndGo*:ScaleTest.Thread*'
}

part_fuzz() {
  scripts/fuzz.sh 600
}

part_soak() {
  cmake --build --preset dev -j "$(num_jobs)" --target soak &&
    "$BUILD/tests/soak/soak" --seconds 1200 --seed "$RANDOM"
}

parts=("$@")
if [[ ${#parts[@]} -eq 0 ]]; then parts=("${PARTS[@]}"); fi
for part in "${parts[@]}"; do
  if [[ " ${PARTS[*]} " != *" $part "* ]]; then
    echo "usage: scripts/proof.sh [${PARTS[*]}]" >&2
    exit 2
  fi
done

ensure_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" \
  "${SANITIZER_PACKAGES[@]}"
cmake --preset dev

summary=()
failed=0
for part in "${parts[@]}"; do
  say "$part"
  started=$SECONDS
  verdict=passed
  "part_$part" || verdict=FAILED
  if [[ $verdict != passed ]]; then failed=1; fi
  summary+=("$(printf '%-10s %s in %d s' "$part" "$verdict" \
    $((SECONDS - started)))")
done

say "Summary"
printf '%s\n' "${summary[@]}"
exit "$failed"
