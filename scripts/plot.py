#!/usr/bin/env python3
"""Draws the plots of docs/performance.md from a saved run of scripts/bench.sh.

Usage: scripts/plot.py RESULTS.json DIRECTORY

Plain SVG, without libraries; a series has one colour in all plots.
"""

import json
import math
import pathlib
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 40, 50
COLOURS = ["#1b6ca8", "#d1495b", "#66a182", "#edae49", "#6b4e9b", "#555555"]


def nice_ticks(low, high):
    """Powers of two for logarithmic axes."""
    first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
    step = max(1, (last - first) // 8)
    return [2.0**power for power in range(first, last + 1, step)]


def label(value):
    if value >= 1024 and value % 1024 == 0:
        return f"{value / 1024:g} Ki"
    return f"{value:g}"


def line_plot(path, title, x_title, y_title, series):
    """`series`: name -> list of (x, y), all above 0. Both axes are
    logarithmic."""
    points = [point for line in series.values() for point in line]
    if not points:
        return
    x_ticks = sorted({x for x, _ in points})
    y_ticks = nice_ticks(min(y for _, y in points), max(y for _, y in points))
    if len(y_ticks) == 1:
        y_ticks.append(2 * y_ticks[0])
    x_low, x_high = math.log2(x_ticks[0]), math.log2(x_ticks[-1])
    y_low, y_high = math.log2(y_ticks[0]), math.log2(y_ticks[-1])

    def place(x, y):
        return (LEFT + (math.log2(x) - x_low) / (x_high - x_low) *
                (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - (math.log2(y) - y_low) / (y_high - y_low) *
                (HEIGHT - TOP - BOTTOM))

    out = start(title, WIDTH, HEIGHT)
    for tick in y_ticks:
        _, y = place(x_ticks[0], tick)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" '
                   f'y2="{y:.1f}" stroke="#dddddd"/>')
        out.append(text(LEFT - 8, y + 4, label(tick), "end"))
    for tick in x_ticks:
        x, y = place(tick, y_ticks[0])
        out.append(text(x, y + 18, label(tick), "middle"))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_title,
                    "middle"))
    out.append(f'<g transform="translate(16,{(TOP + HEIGHT - BOTTOM) / 2}) '
               f'rotate(-90)">{text(0, 0, y_title, "middle")}</g>')
    for index, (name, line) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        places = [place(x, y) for x, y in sorted(line)]
        path_data = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        out.append(f'<polyline points="{path_data}" fill="none" '
                   f'stroke="{colour}" stroke-width="2"/>')
        for x, y in places:
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" '
                       f'fill="{colour}"/>')
        y = TOP + 10 + 20 * index
        out.append(f'<rect x="{WIDTH - RIGHT + 16}" y="{y - 9}" width="12" '
                   f'height="12" fill="{colour}"/>')
        out.append(text(WIDTH - RIGHT + 34, y + 2, name, "start"))
    finish(path, out)


def bar_plot(path, title, x_title, bars):
    """`bars`: name -> value, drawn from 0, with a line at 1."""
    height = TOP + BOTTOM + 24 * len(bars)
    left = 230
    scale = (WIDTH - left - 60) / max([1.2] + list(bars.values()))
    out = start(title, WIDTH, height)
    for index, (name, value) in enumerate(bars.items()):
        y = TOP + 24 * index
        out.append(text(left - 8, y + 13, name, "end"))
        out.append(f'<rect x="{left}" y="{y}" width="{value * scale:.1f}" '
                   f'height="17" fill="{COLOURS[0]}"/>')
        out.append(text(left + value * scale + 6, y + 13, f"{value:.2f}",
                        "start"))
    x = left + scale
    out.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" '
               f'y2="{height - BOTTOM}" stroke="{COLOURS[1]}" '
               'stroke-width="2"/>')
    out.append(text(left, height - 18, x_title, "start"))
    finish(path, out)


def start(title, width, height):
    return [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
            f'height="{height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            f'<text x="{width / 2}" y="22" text-anchor="middle" '
            f'font-size="14">{escape(title)}</text>']


def text(x, y, content, anchor):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f'{escape(content)}</text>')


def finish(path, out):
    path.write_text("\n".join(out + ["</svg>"]) + "\n")


def by_parameter(results, prefix, index, value="median_ns"):
    """Points (parameter, value) of the benchmarks `prefix`/..., by the number
    at `index` behind the prefix."""
    points = []
    for name, result in results.items():
        if name.startswith(prefix + "/") and value in result:
            numbers = name[len(prefix) + 1:].split("/")
            points.append((float(numbers[index]), result[value]))
    return points


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    results = json.loads(pathlib.Path(sys.argv[1]).read_text())["results"]
    directory = pathlib.Path(sys.argv[2])

    bars = {name: result["vs_floor"] for name, result in results.items()
            if "vs_floor" in result and name in (
                "BM_Fragment/64/4096", "BM_Fragment/64/256", "BM_Packet36",
                "BM_Packet36_Batch16", "BM_Instant", "BM_InstantArgs",
                "BM_Drain/4096/64", "BM_Drain/4096/200", "BM_Drain/256/64",
                "BM_DrainInto32MiB/4096/64", "BM_ProfileWrite32",
                "BM_EndToEnd64")}
    bar_plot(directory / "ratios.svg", "Time over floor", "1 = the floor",
             bars)
    line_plot(directory / "fragments.svg", "A fragment, by chunk size",
              "chunk size, bytes", "ns",
              {f"{size} bytes": by_parameter(results, f"BM_Fragment/{size}", 0)
               for size in (16, 64, 200)})
    line_plot(directory / "packets.svg", "A packet of one string, by its size",
              "string, bytes", "ns",
              {f"chunks of {chunk}": [
                  (x, results[f"BM_PacketOfSize/{x}/{chunk}"]["median_ns"])
                  for x in (8, 64, 512, 4096, 65536)
                  if f"BM_PacketOfSize/{x}/{chunk}" in results]
               for chunk in (256, 1024, 4096, 32768)})
    stored = by_parameter(results, "BM_WritersStored", 0, "items_per_second")
    line_plot(directory / "writers.svg",
              "64-byte packets stored, by number of writers", "writers",
              "million packets / s",
              {"2 cores": [(x, y / 1e6) for x, y in stored]})


if __name__ == "__main__":
    main()
