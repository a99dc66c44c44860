#!/usr/bin/env python3
"""Runs the benchmark programs of a build and reports what came out.

Every program runs several times, in turn with the others, so that a disturbed
moment costs one sample of each. A row is a benchmark: the floor that the same
program measured just before, the median time, the spread (half the distance of
the quartiles, over the median), the median of the ratios of time to floor, and
for the hot paths the instructions of one iteration, counted by callgrind, which
do not depend on what else the machine does. scripts/bench.sh builds and calls.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

# Programs whose threads or processes choose their cores themselves.
UNPINNED = {"spacing_benchmark", "two_core_benchmark", "two_process_benchmark"}

# Minutes of work, or pauses, that prove nothing more in a smoke run.
NOT_IN_SMOKE = "BM_WritersStored/(8|16|32|64)|BM_IdleRing/1?0"

# Whose instructions are counted: program, benchmark.
COUNTED = [
    ("writer_benchmark", "BM_Fragment/64/256/manual_time"),
    ("writer_benchmark", "BM_Fragment/64/4096/manual_time"),
    ("writer_benchmark", "BM_Packet36/manual_time"),
    ("writer_benchmark", "BM_Packet36_Batch16/manual_time"),
    ("writer_benchmark", "BM_Append_Varint1/manual_time"),
    ("writer_benchmark", "BM_Append_Timestamp7/manual_time"),
    ("writer_benchmark", "BM_Append_String16/manual_time"),
    ("writer_benchmark", "BM_Append_EmptyMessage/manual_time"),
    ("track_event_benchmark", "BM_Instant/manual_time"),
    ("track_event_benchmark", "BM_InstantArgs/manual_time"),
    ("drain_benchmark", "BM_Drain/4096/64/manual_time"),
    ("drain_benchmark", "BM_Drain/4096/200/manual_time"),
    ("drain_benchmark", "BM_Drain/256/64/manual_time"),
    ("store_benchmark", "BM_Rewrite36/manual_time"),
    ("profile_benchmark", "BM_ProfileWrite32/manual_time"),
]


def short_name(name):
    """The stable name, without what the library appends."""
    name = re.sub(r"/iterations:\d+", "", name)
    return re.sub(r"/(manual_time|real_time)", "", name)


def command(program, build):
    path = str(build / "benchmarks" / program)
    prefix = []
    if program not in UNPINNED and len(os.sched_getaffinity(0)) > 1:
        prefix = ["taskset", "-c", str(max(os.sched_getaffinity(0)))]
    if os.geteuid() == 0:
        # Ahead of whatever else the machine has to do.
        prefix = ["nice", "-n", "-20"] + prefix
    return prefix + [path]


def run(program, build, options):
    """One run of one program: the list of its benchmarks."""
    done = subprocess.run(
        command(program, build) + ["--benchmark_format=json"] + options,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program} failed:\n{done.stdout}{done.stderr}")
    if not done.stdout.strip():
        return []  # nothing matched the filter
    entries = json.loads(done.stdout)["benchmarks"]
    for entry in entries:
        if entry.get("error_occurred"):
            sys.exit(f"{entry['name']}: {entry['error_message']}")
    return entries


def smoke(programs, build):
    for program in programs:
        entries = run(program, build, ["--benchmark_min_time=0.00001",
                                       f"--benchmark_filter=-{NOT_IN_SMOKE}"])
        print(f"{program}: {len(entries)} benchmarks ran")


def count_instructions(program, build, name):
    """Instructions per iteration inside TimedRegion (benchmarks/floor.h)."""
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--toggle-collect=*TimedRegion*",
             f"--callgrind-out-file={scratch}/out",
             str(build / "benchmarks" / program),
             f"--benchmark_filter=^{name}$", "--benchmark_min_time=0.0001",
             "--benchmark_format=json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            check=True)
    collected = int(re.search(r"Collected : (\d+)", done.stderr).group(1))
    return collected / json.loads(done.stdout)["benchmarks"][0]["timed"]


def collect(programs, build, arguments):
    samples = {}
    options = [f"--benchmark_min_time={arguments.min_time}"]
    if arguments.filter:
        options.append(f"--benchmark_filter={arguments.filter}")
    for repetition in range(arguments.repetitions):
        print(f"\rrun {repetition + 1} of {arguments.repetitions}",
              end="", file=sys.stderr, flush=True)
        for program in programs:
            for entry in run(program, build, options):
                samples.setdefault(short_name(entry["name"]), []).append(entry)
    print(file=sys.stderr)

    results = {}
    for name, entries in samples.items():
        times = sorted(entry.get("median_ns", entry["real_time"])
                       for entry in entries)
        result = {"median_ns": statistics.median(times), "min_ns": times[0],
                  "max_ns": times[-1], "samples": len(times)}
        if len(times) >= 4:
            quartiles = statistics.quantiles(times, n=4)
            result["spread"] = ((quartiles[2] - quartiles[0]) / 2 /
                                result["median_ns"])
        for key in ("floor_ns", "vs_floor", "items_per_second",
                    "bytes_per_second", "scrapes", "holes", "bytes", "p99_ns",
                    "signalled_sleeps", "signals", "writer_cpu_ns"):
            if key in entries[0]:
                result[key] = statistics.median(e[key] for e in entries)
        results[name] = result
    return results


def add_counts(results, build):
    for program, name in COUNTED:
        if short_name(name) in results:
            results[short_name(name)]["instructions"] = count_instructions(
                program, build, name)


def number(value, digits=4):
    """Digits that matter, without an exponent."""
    if value == 0:
        return "0"
    for limit, unit in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= limit:
            return f"{value / limit:.{digits}g}{unit}"
    if abs(value) < 0.01:
        return f"{value:.1e}"
    return f"{value:.{digits}g}" if abs(value) < 1e4 else f"{value:.0f}"


def print_table(results, old):
    header = ["benchmark", "floor ns", "median ns", "spread", "ratio",
              "instructions", "rate"]
    if old:
        header += ["was ns", "now/was"]
    rows = [header]
    for name, result in results.items():
        rate = ""
        if "items_per_second" in result:
            rate = number(result["items_per_second"], 3) + "/s"
        if "bytes_per_second" in result:
            rate = number(result["bytes_per_second"], 3) + "B/s"
        row = [name,
               number(result["floor_ns"]) if "floor_ns" in result else "",
               number(result["median_ns"]),
               f"{100 * result['spread']:.0f} %" if "spread" in result else "",
               f"{result['vs_floor']:.2f}" if "vs_floor" in result else "",
               (f"{result['instructions']:.0f}"
                if "instructions" in result else ""), rate]
        if old:
            before = old.get(name, {}).get("median_ns")
            row += ([number(before), f"{result['median_ns'] / before:.2f}"]
                    if before else ["", ""])
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in
                  zip(row[1:], widths[1:])]
        print("  ".join(cells).rstrip())


def machine():
    model = ""
    for line in open("/proc/cpuinfo", encoding="ascii", errors="replace"):
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    compiler = subprocess.run(["c++", "--version"], stdout=subprocess.PIPE,
                              text=True, check=False).stdout.split("\n")[0]
    return {"processor": model, "cores": os.cpu_count(),
            "kernel": platform.release(), "compiler": compiler}


def measure_lttng():
    """The events of benchmarks/peers, in a session of a daemon of our own."""
    source = pathlib.Path("benchmarks/peers/lttng_peer.c")
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        program = f"{scratch}/lttng_peer"
        subprocess.run(["gcc", "-O2", "-I", str(source.parent), str(source),
                        "-o", program, "-llttng-ust", "-ldl"], check=True)
        environment = dict(os.environ, LTTNG_HOME=scratch,
                           LTTNG_RUNDIR=f"{scratch}/run")

        def quietly(*words):
            subprocess.run(words, env=environment, check=True,
                           stdout=subprocess.DEVNULL)

        daemon = subprocess.Popen(
            ["lttng-sessiond", "--no-kernel"], env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(100):
                probe = subprocess.run(["lttng", "--no-sessiond", "list"],
                                       env=environment, check=False,
                                       stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
                if probe.returncode == 0:
                    break
            quietly("lttng", "--no-sessiond", "create", "peer",
                    f"--output={scratch}/trace")
            quietly("lttng", "--no-sessiond", "enable-channel", "-u", "main",
                    "--subbuf-size=4M", "--num-subbuf=8")
            quietly("lttng", "--no-sessiond", "enable-event", "-u", "-c",
                    "main", "tracering_peer:*")
            quietly("lttng", "--no-sessiond", "start")
            for mode in ("enabled", "disabled"):
                if mode == "disabled":
                    quietly("lttng", "--no-sessiond", "destroy")
                prefix = ["taskset", "-c", "1"] if os.cpu_count() > 1 else []
                output = subprocess.run(
                    prefix + [program, mode], env=environment, check=True,
                    stdout=subprocess.PIPE, text=True).stdout
                for line in output.splitlines():
                    name, nanoseconds = line.split()
                    results[f"LTTng-UST {name}"] = {
                        "median_ns": float(nanoseconds)}
        finally:
            daemon.terminate()
            daemon.wait()
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--filter", help="regular expression of names")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--min-time", type=float, default=0.05,
                        help="seconds that a sample takes at least")
    parser.add_argument("--no-counts", action="store_true",
                        help="without instructions, which take a minute")
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--compare", type=pathlib.Path)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()

    programs = sorted(path.stem for path in
                      pathlib.Path("benchmarks").glob("*_benchmark.cc"))
    if arguments.smoke:
        smoke(programs, arguments.build)
        return
    old = {}
    if arguments.compare:
        old = json.loads(arguments.compare.read_text())["results"]
    results = collect(programs, arguments.build, arguments)
    if not arguments.no_counts:
        add_counts(results, arguments.build)
    if arguments.peers:
        results.update(measure_lttng())
    about = machine()
    print(", ".join(f"{key}: {value}" for key, value in about.items()))
    print_table(results, old)
    if arguments.save:
        arguments.save.write_text(json.dumps(
            {"machine": about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
