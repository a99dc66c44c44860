#!/usr/bin/env python3
"""Which lines of src/ and include/ a build with --coverage has run, by room.

Usage: coverage.py BUILD_DIRECTORY [--missing]

A line counts once, however many programs it is compiled into, and was run if
it was in one of them. --missing names those that were not.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from typing import Dict, Iterator, List

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Of each file: of each line, how often it was run.
Counts = Dict[str, Dict[int, int]]


def reports(build: str) -> Iterator[dict]:
    """What gcov says of each object file."""
    notes = []
    for directory, _, names in os.walk(build):
        notes += [os.path.join(directory, name)
                  for name in names if name.endswith(".gcda")]
    for start in range(0, len(notes), 20):
        done = subprocess.run(
            ["gcov", "--json-format", "--stdout"] + notes[start:start + 20],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            check=True)
        for line in done.stdout.splitlines():
            if line:
                yield json.loads(line)


def count(build: str) -> Counts:
    counts: Counts = defaultdict(lambda: defaultdict(int))
    for report in reports(build):
        where = report["current_working_directory"]
        for file in report["files"]:
            path = os.path.normpath(os.path.join(where, file["file"]))
            path = os.path.relpath(path, ROOT)
            if not path.startswith(("src/", "include/")):
                continue
            for line in file["lines"]:
                counts[path][line["line_number"]] += line["count"]
    return counts


def ranges(lines: List[int]) -> str:
    """Lines in a row as first-last."""
    parts: List[List[int]] = []
    for line in lines:
        if parts and line == parts[-1][1] + 1:
            parts[-1][1] = line
        else:
            parts.append([line, line])
    return " ".join(f"{first}-{last}" if first != last else str(first)
                    for first, last in parts)


def main() -> int:
    arguments = sys.argv[1:]
    if not arguments or arguments[1:] not in ([], ["--missing"]):
        sys.exit(__doc__)
    counts = count(os.path.abspath(arguments[0]))
    if not counts:
        sys.exit(f"nothing was run in {arguments[0]}")
    rooms: Dict[str, List[int]] = defaultdict(lambda: [0, 0])
    for path, lines in counts.items():
        for room in (os.path.dirname(path), "total"):
            rooms[room][0] += sum(1 for count in lines.values() if count)
            rooms[room][1] += len(lines)
    print(f"{'room':32} {'run':>6} {'of':>6} {'%':>6}")
    for room in sorted(rooms, key=lambda room: (room == "total", room)):
        run, total = rooms[room]
        print(f"{room:32} {run:6} {total:6} {100 * run / total:6.1f}")
    if arguments[1:]:
        print()
        for path in sorted(counts):
            missing = sorted(line for line, count in counts[path].items()
                             if not count)
            if missing:
                print(f"{path}: {ranges(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
