#!/usr/bin/env bash
# Formats all C++ of the tree with clang-format 14, the version whose result the
# tests expect. With --check it changes nothing and fails where it would.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(-i)
case "${1:-}" in
  "") ;;
  --check) mode=(--dry-run -Werror) ;;
  *)
    echo "usage: scripts/format.sh [--check]" >&2
    exit 2
    ;;
esac

formatter=""
for candidate in clang-format-14 clang-format; do
  if "$candidate" --version 2>/dev/null | grep -q 'version 14\.'; then
    formatter=$candidate
    break
  fi
done
if [[ -z $formatter ]]; then
  echo "clang-format 14 is not installed (apt-get install clang-format-14)" >&2
  exit 77
fi

dirs=()
for dir in include src tests examples tools benchmarks; do
  if [[ -d $dir ]]; then dirs+=("$dir"); fi
done
find "${dirs[@]}" \( -name '*.h' -o -name '*.cc' -o -name '*.c' \) -print0 |
  xargs -0 "$formatter" "${mode[@]}"
