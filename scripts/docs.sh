#!/usr/bin/env bash
# Builds the reference of the public headers, build/docs/html/index.html.
# Installs Doxygen if it is missing. Any warning of it is an error.
source "$(dirname "$0")/common.sh"
if [[ $# -ne 0 ]]; then
  echo "usage: scripts/docs.sh" >&2
  exit 2
fi

ensure_packages "${DOCS_PACKAGES[@]}"
mkdir -p build
rm -rf build/docs
doxygen docs/Doxyfile || fail "the reference has warnings, see above"
say "The reference is in build/docs/html/index.html"
