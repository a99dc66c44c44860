#!/usr/bin/env bash
# Installs what is missing, builds the demo and runs it: one process reads every
# file below a directory and traces what it does, another one records it. Ends
# with what is in the trace.
#
#   scripts/demo.sh [TRACE]
#
# Leaves the trace in TRACE (default: demo.pftrace in the current directory).
trace=$(realpath -m -- "${1:-demo.pftrace}")
source "$(dirname "$0")/common.sh"
if [[ $# -gt 1 || ${1:-} == -* ]]; then
  echo "usage: scripts/demo.sh [TRACE]" >&2
  exit 2
fi

if [[ -d $trace || ! -d $(dirname -- "$trace") ]]; then
  fail "cannot write to $trace: it must be a file in a folder that exists"
fi

ensure_packages "${BUILD_PACKAGES[@]}"
say "Building the demo"
cmake --preset demo >/dev/null
cmake --build --preset demo -j "$(num_jobs)" --target demo_producer tracering

# The compiler's own headers: the build above needs them, so they are there.
directory=/usr/include
say "Recording two threads that read everything below $directory"
build/demo/tools/tracering record -o "$trace" -- \
  build/demo/examples/demo_producer --dir "$directory" --threads 2
if [[ ! -s $trace ]]; then fail "there is no trace in $trace"; fi

say "What is in it (build/demo/tools/tracering dump --summary $trace)"
build/demo/tools/tracering dump --summary "$trace"

cat <<END

To look at it, open https://ui.perfetto.dev in a browser and drop the file
  $trace
onto the page. It is read there and uploaded nowhere. For a picture without a
browser: scripts/draw_trace.py --length 5 "$trace" picture.svg
END
