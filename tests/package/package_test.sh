#!/usr/bin/env bash
# Builds and runs a project of somebody else against this one, in every way that
# is promised: the installed CMake package, pkg-config, add_subdirectory with
# shared libraries, Debian packages.
#
#   package_test.sh SOURCE_DIR BUILD_DIR
#
# BUILD_DIR must be built. Leaves nothing behind.
set -euo pipefail
source_dir=$1
build_dir=$2
user_dir=$source_dir/tests/package
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TRACERING_SOCKET=$scratch/tracering.sock
prefix=$scratch/prefix

# run_user DIR: the programs in DIR, each recorded by one of them, which ends
# when the other's standard output does.
run_user() {
  local program
  for program in trace c_trace; do
    rm -f "$scratch/out.pftrace"
    (cd "$scratch" && "$1/$program" | "$1/record")
    grep -q my_app "$scratch/out.pftrace"
    grep -q work "$scratch/out.pftrace"
  done
}

# build_user NAME ARGUMENT...: the project in $scratch/NAME.
build_user() {
  local name=$1
  shift
  cmake -S "$user_dir" -B "$scratch/$name" -G Ninja "$@" >"$scratch/log" || {
    cat "$scratch/log"
    return 1
  }
  cmake --build "$scratch/$name"
}

echo "== the installed package"
cmake --install "$build_dir" --prefix "$prefix" >/dev/null
build_user installed -DCMAKE_PREFIX_PATH="$prefix"
# A project without C++ links the same.
build_user only_c -DCMAKE_PREFIX_PATH="$prefix" -DONLY_C=ON
mv "$scratch/only_c/c_trace" "$scratch/installed"
run_user "$scratch/installed"
# A component that does not exist must not be found.
sed 's/COMPONENTS producer/COMPONENTS nonsense/' "$user_dir/CMakeLists.txt" \
  >"$scratch/CMakeLists.txt"
if cmake -S "$scratch" -B "$scratch/nonsense" -G Ninja \
  -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/log" 2>&1; then
  echo "find_package found a component that does not exist" >&2
  exit 1
fi
grep -q nonsense "$scratch/log"

echo "== pkg-config"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tracering-producer.pc)")
export PKG_CONFIG_PATH
mkdir "$scratch/pkg-config"
for pair in trace:producer record:consumer; do
  program=${pair%:*}
  # Flags are words, to be split.
  # shellcheck disable=SC2046
  "${CXX:-c++}" -std=c++17 "$user_dir/$program.cc" \
    -o "$scratch/pkg-config/$program" \
    $(pkg-config --cflags --libs "tracering-${pair#*:}")
done
# A C compiler links it, too.
# shellcheck disable=SC2046
"${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror "$user_dir/c_trace.c" \
  -o "$scratch/pkg-config/c_trace" \
  $(pkg-config --cflags --libs tracering-producer)
run_user "$scratch/pkg-config"

echo "== add_subdirectory, shared libraries"
# With all that packages need: compiling the libraries is what takes long.
build_user sub -DBUILD_SHARED_LIBS=ON -DCMAKE_UNITY_BUILD=ON \
  -DTRACERING_SOURCE_DIR="$source_dir" -DCMAKE_INSTALL_PREFIX=/usr \
  -DTRACERING_INSTALL=ON -DTRACERING_PACKAGE=ON -DTRACERING_BUILD_TOOLS=ON
run_user "$scratch/sub"

echo "== what shared libraries are called, need and show"
rooms=$scratch/sub/tracering/src
for room in common producer consumer; do
  library=$rooms/$room/libtracering_$room.so
  readelf -d "$library" >"$scratch/dynamic"
  grep -q "SONAME.*\[libtracering_$room\.so\.0\.1\]" "$scratch/dynamic"
  # One shared object holds the common part, and both libraries refer to it.
  if [[ $room != common ]]; then
    grep -q 'NEEDED.*\[libtracering_common\.so\.0\.1\]' "$scratch/dynamic"
  fi
  # Nothing but our own, whatever of others it has instantiated.
  nm -D --defined-only "$library" | cut -c 20- >"$scratch/symbols"
  if grep -vE '^(tracering_|_Z(T.|GV|Z|GVZ)?NK?9tracering)' "$scratch/symbols"
  then
    echo "$library shows the symbols above, which are not ours" >&2
    exit 1
  fi
  if [[ $room != common ]] &&
    c++filt <"$scratch/symbols" |
    grep -E '::Impl::|tracering::(abi|control|os)::'; then
    echo "$library shows the symbols above, which are not for others" >&2
    exit 1
  fi
  grep -q '^_ZN9tracering' "$scratch/symbols"
done

echo "== Debian packages"
debs=$scratch/debs
(cd "$scratch/sub" && cpack -G DEB -B "$debs" >"$scratch/log" 2>&1) || {
  cat "$scratch/log"
  exit 1
}
root=$scratch/root
for deb in "$debs"/*.deb; do dpkg -x "$deb" "$root"; done
# depends PACKAGE PATTERN...: it depends on each of them.
depends() {
  local name=$1 pattern
  shift
  dpkg-deb -f "$debs/${name}"_*.deb Depends >"$scratch/depends"
  for pattern in "$@"; do
    grep -q "$pattern" "$scratch/depends" || {
      echo "$name does not depend on $pattern, but on:" >&2
      cat "$scratch/depends" >&2
      exit 1
    }
  done
}
depends libtracering0.1 'libc6 (>=' libabsl libfmt libstdc++6
depends libtracering-dev 'libtracering0.1 (= 0\.1\.0)' libabsl-dev
depends tracering 'libtracering0.1 (= 0\.1\.0)' 'libc6 (>='
dpkg-deb -I "$debs"/libtracering0.1_*.deb shlibs |
  grep -x 'libtracering_producer 0\.1 libtracering0\.1 (= 0\.1\.0)' >/dev/null
test -e "$root/usr/share/man/man1/tracering.1"
test -e "$root/usr/share/bash-completion/completions/tracering"
test -e "$root/usr/share/doc/tracering/copyright"
# A program is built with the packages, and recorded with their tool.
PKG_CONFIG_PATH=$(dirname "$(find "$root" -name tracering-producer.pc)")
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export LD_LIBRARY_PATH
build_user packaged -DCMAKE_PREFIX_PATH="$root/usr" -DONLY_C=ON
rm "$scratch/pkg-config/c_trace" "$scratch/out.pftrace"
# shellcheck disable=SC2046
"${CC:-cc}" -std=c11 "$user_dir/c_trace.c" -o "$scratch/pkg-config/c_trace" \
  $(pkg-config --cflags --libs tracering-producer)
for built in packaged pkg-config; do
  "$root/usr/bin/tracering" record -o "$scratch/out.pftrace" -- \
    "$scratch/$built/c_trace"
  "$root/usr/bin/tracering" dump "$scratch/out.pftrace" |
    grep my_app >/dev/null
done
