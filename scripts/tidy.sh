#!/usr/bin/env bash
# Runs clang-tidy on the sources that changed since a revision.
#
#   scripts/tidy.sh [REVISION]    default: the last commit's parent
#   scripts/tidy.sh --all
#
# Looks at the sources of the libraries, the programs and the test helpers; a
# header is checked through the sources that include it. Tests themselves are
# left out: GoogleTest's macros cost minutes and show nothing.
source "$(dirname "$0")/common.sh"
if [[ $# -gt 1 ]]; then
  echo "usage: scripts/tidy.sh [REVISION | --all]" >&2
  exit 2
fi
base=${1:-HEAD~1}

ensure_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" \
  "${TIDY_PACKAGES[@]}"

folders=(src examples tools tests/support)
mapfile -t all < <(git ls-files -- "${folders[@]}" | grep '\.cc$' |
  grep -v '_test\.cc$')
if [[ $base == --all ]]; then
  sources=("${all[@]}")
else
  git rev-parse --verify --quiet "$base^{commit}" >/dev/null ||
    fail "$base is no revision of this repository"
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- \
    include "${folders[@]}")
  sources=()
  # The changed sources, and those that include a changed header directly.
  for source in "${all[@]}"; do
    for file in "${changed[@]}"; do
      if [[ $file == "$source" ]] || grep -qF "\"${file#include/}\"" "$source"
      then
        sources+=("$source")
        break
      fi
    done
  done
fi
if [[ ${#sources[@]} -eq 0 ]]; then
  say "clang-tidy: no source changed since $base"
  exit 0
fi

cmake --preset dev >/dev/null
# Generated protobuf headers are included by some of the sources.
cmake --build --preset dev --target tracering_test_proto >/dev/null
say "clang-tidy: ${#sources[@]} sources"
printf '%s\0' "${sources[@]}" |
  xargs -0 -P "$(num_jobs)" -n 1 clang-tidy-14 --quiet -p build/dev
