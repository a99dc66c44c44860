#!/usr/bin/env bash
# Installs what is missing, builds the demo and runs it: one process reads every
# file below a directory and traces what it does, another one records it.
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
cmake --build --preset demo -j "$(num_jobs)" --target demo_consumer \
  demo_producer

scratch=$(mktemp -d)
consumer=""
clean_up() {
  if [[ -n $consumer ]]; then kill "$consumer" 2>/dev/null || true; fi
  rm -rf "$scratch"
}
trap clean_up EXIT

# The compiler's own headers: the build above needs them, so they are there.
directory=/usr/include
export TRACERING_SOCKET="$scratch/tracering.sock"

say "Recording two threads that read everything below $directory"
build/demo/examples/demo_consumer --output "$trace" --exit-when-idle &
consumer=$!
build/demo/examples/demo_producer --dir "$directory" --threads 2
wait "$consumer" || fail "demo_consumer exited with status $?"
consumer=""
if [[ ! -s $trace ]]; then fail "there is no trace in $trace"; fi

say "The trace is in $trace ($(stat -c %s "$trace") bytes)"
cat <<'END'
To look at it, open https://ui.perfetto.dev in a browser and drop the file onto
the page. It is read there and uploaded nowhere.
END
