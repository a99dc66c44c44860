# shellcheck shell=bash disable=SC2034
# What the other scripts share; sourced, never run.
#
# Brings the shell into the root of the tree, stops it at the first error,
# answers --help with the comment at the head of the script, and installs Debian
# packages where they are missing.

set -euo pipefail
if [[ ${1:-} == --help ]]; then
  sed -n '1d;/^#/!q;s/^# \{0,1\}//p' "$0"
  exit 0
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Debian 12 packages by purpose. Without recommended packages, so what is needed
# of those is named.
BUILD_PACKAGES=(cmake g++ libabsl-dev libfmt-dev ninja-build zlib1g-dev)
TEST_PACKAGES=(clang-format-14 dpkg-dev file libbenchmark-dev libgmock-dev
  libgtest-dev libprotobuf-dev pkg-config protobuf-compiler python3 relacy-dev)
SANITIZER_PACKAGES=(clang libclang-rt-14-dev)
TIDY_PACKAGES=(clang-tidy-14)
DOCS_PACKAGES=(doxygen python3)

say() { printf '\n== %s\n' "$*"; }

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# The number of compile and test jobs to run at once.
num_jobs() { nproc 2>/dev/null || echo 2; }

# ensure_packages PACKAGE...: installs those that are missing, with apt as root
# or through sudo; says what to install where it cannot.
ensure_packages() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "note: not a Debian system; this needs what Debian calls: $*" >&2
    return
  fi
  for package in "$@"; do
    if ! dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null |
      grep -qx installed; then
      missing+=("$package")
    fi
  done
  if [[ ${#missing[@]} -eq 0 ]]; then return; fi

  local become=()
  if [[ $(id -u) -ne 0 ]]; then
    # In a terminal sudo may ask for a password; elsewhere it must not.
    local sudo_options=()
    if [[ ! -t 0 ]]; then sudo_options=(-n); fi
    if ! command -v sudo >/dev/null; then
      fail "these packages are missing, and there is no sudo to install them" \
        "with; as root, run: apt-get install ${missing[*]}"
    fi
    become=(sudo "${sudo_options[@]}")
  fi
  say "Installing ${missing[*]}"
  become+=(env DEBIAN_FRONTEND=noninteractive apt-get -q)
  if ! { "${become[@]}" update &&
    "${become[@]}" install -y --no-install-recommends "${missing[@]}"; } \
    </dev/null; then
    fail "could not install the packages above; as root, run:" \
      "apt-get install ${missing[*]}"
  fi
}
