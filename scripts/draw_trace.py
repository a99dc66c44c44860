#!/usr/bin/env python3
"""Draws a trace file as a picture: a row for each thread, with its slices and
instants, and a line for each counter.

Usage: scripts/draw_trace.py [--start MS] [--length MS] TRACE PICTURE.svg

MS count from the first event; default: all of it. Needs nothing but Python's
standard library. The picture has its own colours for light and dark pages.
"""

import argparse
import itertools
import struct
import sys
import zlib
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple
from xml.sax.saxutils import escape

# Fields of the trace format: see include/tracering/trace_fields.h.
PACKET, TIMESTAMP, EVENT, COMPRESSED, TRACK, SAMPLE = 1, 8, 11, 50, 60, 66
COMPRESSED_TAG = b"\x92\x03"
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4

WIDTH, LABELS, MARGIN = 960, 150, 12
SLICE_HEIGHT, INSTANT_HEIGHT, COUNTER_HEIGHT = 17, 16, 44
# What is narrower is drawn that wide, and what would lie on it left out.
MIN_WIDTH = 0.5
# Good behind dark text on light and dark pages.
COLOURS = ("#8ab4f8", "#f6aea9", "#81c995", "#fdd663", "#c58af9", "#78d9ec",
           "#fcad70", "#ff8bcb", "#b5c99a", "#a8a4e6")
STYLE = """
  text { font: 11px system-ui, sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; } .row { fill: #f3f5f8; } .grid { stroke: #d8dee4; }
  .dim { fill: #656d76; } .in { fill: #15171a; } .mark { fill: #cf222e; }
  .flow { stroke: #57606a; fill: none; stroke-dasharray: 3 2; }
  .line { stroke: #0969da; fill: none; } .area { fill: #0969da; opacity: .15; }
  .sample { stroke: #8250df; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .page { fill: #0d1117; } .row { fill: #171c23; }
    .grid { stroke: #30363d; } .dim { fill: #8d96a0; } .mark { fill: #ff7b72; }
    .in { fill: #15171a; } .flow { stroke: #9198a1; } .line { stroke: #58a6ff; }
    .area { fill: #58a6ff; } .sample { stroke: #c297ff; }
  }
"""


class NotATrace(Exception):
    pass


# The wire format of protobuf.


def varint(data: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than ten bytes")


def fields(data: bytes) -> Iterator[Tuple[int, object]]:
    """Numbers and values: an int, or the bytes of what has a length."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value = data[at:at + size]
            if len(value) != size:
                raise IndexError
            at += size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value = int.from_bytes(data[at:at + size], "little")
            at += size
        else:
            raise ValueError(f"a field of wire type {kind}")
        yield tag >> 3, value


def packets(data: bytes) -> Iterator[bytes]:
    """Those of a file, compressed ones included, as far as they are whole."""
    try:
        for number, value in fields(data):
            if number != PACKET:
                raise NotATrace("it is no trace")
            if value[:2] == COMPRESSED_TAG:
                deflated = dict(fields(value))[COMPRESSED]
                yield from packets(zlib.decompress(deflated))
            else:
                yield value
    except IndexError:
        pass  # cut off
    except (ValueError, TypeError, zlib.error) as error:
        raise NotATrace(f"it is no trace: {error}") from error


# What is in the trace.


class Slice(NamedTuple):
    begin: int
    end: int
    depth: int
    name: str


class Track:

    def __init__(self):
        self.name = ""
        self.kind = "track"
        self.pid = self.tid = self.parent = 0
        self.unit = ""
        self.slices: List[Slice] = []
        self.instants: List[Tuple[int, str]] = []
        self.values: List[Tuple[int, float]] = []
        self.samples: List[int] = []
        self.open: List[Tuple[int, str]] = []

    def with_unit(self, value: float) -> str:
        if self.unit == "bytes":
            for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20),
                               ("KiB", 1 << 10)):
                if value >= size:
                    return f"{value / size:.3g} {unit}"
        if self.unit == "ns":
            return readable(value)
        return f"{value:,.6g} {self.unit}".rstrip()


class Event(NamedTuple):
    time: int
    kind: int
    track: int
    name: str
    value: float
    flows: Tuple[int, ...]


def text_of(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def as_double(bits: int) -> float:
    return struct.unpack("<d", bits.to_bytes(8, "little"))[0]


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


class Trace:

    def __init__(self, data: bytes):
        self.tracks: Dict[int, Track] = {}
        self.threads: Dict[Tuple[int, int], Track] = {}
        self.events: List[Event] = []
        self.samples: List[Tuple[int, int, int]] = []  # time, pid, tid
        self.flows: Dict[int, List[Tuple[int, int]]] = {}
        for packet in packets(data):
            try:
                self.add(dict(fields(packet)))
            except (AttributeError, IndexError, TypeError, ValueError):
                pass  # somebody else's, or broken
        self.events.sort(key=lambda event: event.time)
        for event in self.events:
            self.place(event)
        for track in self.tracks.values():
            while track.open:
                begin, name = track.open.pop()
                track.slices.append(Slice(begin, self.events[-1].time,
                                          len(track.open), name))
        for time, pid, tid in self.samples:
            if (pid, tid) in self.threads:
                self.threads[(pid, tid)].samples.append(time)

    def add(self, packet: Dict[int, object]) -> None:
        time = packet.get(TIMESTAMP, 0)
        if TRACK in packet:
            self.describe(packet[TRACK])
        elif EVENT in packet:
            self.events.append(self.event(time, packet[EVENT]))
        elif SAMPLE in packet:
            sample = dict(fields(packet[SAMPLE]))
            if 17 not in sample:  # else it tells how many were lost
                self.samples.append((time, sample[2], sample[3]))

    def describe(self, data: bytes) -> None:
        values = dict(fields(data))
        track = self.tracks.setdefault(values.get(1, 0), Track())
        track.parent = values.get(5, 0)
        name = values.get(2, b"")
        if 3 in values:
            process = dict(fields(values[3]))
            track.kind, track.pid = "process", process.get(1, 0)
            name = process.get(6, name)
        elif 4 in values:
            thread = dict(fields(values[4]))
            track.kind = "thread"
            track.pid, track.tid = thread.get(1, 0), thread.get(2, 0)
            name = thread.get(5, name)
            self.threads[(track.pid, track.tid)] = track
        elif 8 in values:
            track.kind = "counter"
            counter = dict(fields(values[8]))
            track.unit = {1: "ns", 3: "bytes"}.get(
                counter.get(3, 0), text_of(counter.get(6, b"")))
        track.name = text_of(name)

    @staticmethod
    def event(time: int, data: bytes) -> Event:
        kind = track = 0
        name, value, flows = "", 0.0, []
        for number, content in fields(data):
            if number == 9:
                kind = content
            elif number == 11:
                track = content
            elif number == 23:
                name = text_of(content)
            elif number == 30:
                value = float(signed(content))
            elif number == 44:
                value = as_double(content)
            elif number in (47, 48):
                flows.append(content)
        return Event(time, kind, track, name, value, tuple(flows))

    def place(self, event: Event) -> None:
        track = self.tracks.setdefault(event.track, Track())
        for flow in event.flows:
            self.flows.setdefault(flow, []).append((event.time, event.track))
        if event.kind == BEGIN:
            track.open.append((event.time, event.name))
        elif event.kind == END and track.open:
            begin, name = track.open.pop()
            track.slices.append(Slice(begin, event.time, len(track.open), name))
        elif event.kind == INSTANT:
            track.instants.append((event.time, event.name))
        elif event.kind == COUNTER:
            track.values.append((event.time, event.value))

    def process_of(self, track: Track) -> int:
        for _ in range(64):
            if track.pid or track.parent not in self.tracks:
                break
            track = self.tracks[track.parent]
        return track.pid


# The picture.


class Picture:

    def __init__(self, trace: Trace, begin: int, end: int, title: str):
        self.trace, self.begin, self.end = trace, begin, end
        self.scale = (WIDTH - LABELS - MARGIN) / max(end - begin, 1)
        self.out: List[str] = []
        self.y = 26.0
        self.at: Dict[int, float] = {}  # where the row of a track is
        self.colours: Dict[str, str] = {}
        self.text(MARGIN, 17, title, "dim")

    def x(self, time: int) -> float:
        time = min(max(time, self.begin), self.end)
        return LABELS + (time - self.begin) * self.scale

    def shows(self, begin: int, end: int) -> bool:
        return begin <= self.end and end >= self.begin

    def colour(self, name: str) -> str:
        index = len(self.colours) % len(COLOURS)
        return self.colours.setdefault(name, COLOURS[index])

    def text(self, x: float, y: float, content: str, kind: str = "",
             anchor: str = "start") -> None:
        marks = f' class="{kind}"' if kind else ""
        if anchor != "start":
            marks += f' text-anchor="{anchor}"'
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}"{marks}>'
                        f'{clean(content)}</text>')

    def draw(self) -> str:
        top = self.y
        self.y += 18
        for uuid, track, heading in self.rows():
            if heading:
                self.text(MARGIN, self.y + 16, heading, "dim")
                self.y += 22
            self.at[uuid] = self.y
            if track.kind == "counter":
                self.counter(track)
            else:
                self.events(track)
            self.y += 4
        self.draw_flows()
        height = self.y + MARGIN
        grid: List[str] = []
        zero = self.trace.events[0].time
        for tick, label in ticks(self.begin, self.end, zero):
            x = self.x(tick)
            grid.append(f'<line x1="{x:.1f}" y1="{top + 14:.1f}" x2="{x:.1f}" '
                        f'y2="{height - MARGIN:.1f}" class="grid"/>')
            self.text(min(x, WIDTH - MARGIN - 3 * len(label)), top + 10, label,
                      "dim", "middle")
        return "\n".join(
            [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
             f'height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}">',
             f"<style>{STYLE}</style>",
             f'<rect class="page" width="{WIDTH}" height="{height:.0f}"/>'] +
            grid + self.out + ["</svg>"]) + "\n"

    def rows(self) -> Iterator[Tuple[int, Track, str]]:
        """Tracks with something to show, and the process above the first."""
        order = {"thread": 0, "process": 1, "track": 2, "counter": 3}
        names = {track.pid: track.name for track in self.trace.tracks.values()
                 if track.kind == "process"}
        shown = [(self.trace.process_of(track), order[track.kind], track.tid,
                  uuid, track) for uuid, track in self.trace.tracks.items()
                 if self.has_content(track)]
        last: Optional[int] = None
        for pid, _, _, uuid, track in sorted(shown, key=lambda row: row[:3]):
            heading = ""
            if pid != last:
                heading = f"{names.get(pid, 'process')} {pid}"
            last = pid
            yield uuid, track, heading

    def has_content(self, track: Track) -> bool:
        return (any(self.shows(s.begin, s.end) for s in track.slices) or
                any(self.shows(t, t) for t, _ in track.instants) or
                any(self.shows(t, t) for t, _ in track.values))

    def events(self, track: Track) -> None:
        slices = [s for s in track.slices if self.shows(s.begin, s.end)]
        slices.sort(key=lambda s: (s.depth, s.begin))
        instants = self.apart([i for i in track.instants
                               if self.shows(i[0], i[0])])
        above = INSTANT_HEIGHT if instants else 0
        depth = max((s.depth for s in slices), default=-1) + 1
        samples = self.apart([(t,) for t in sorted(track.samples)
                              if self.shows(t, t)])
        height = above + depth * SLICE_HEIGHT + (6 if samples else 0)
        self.label(track.name, height)
        last: Dict[int, float] = {}
        for s in slices:
            x, right = self.x(s.begin), self.x(s.end)
            if right < last.get(s.depth, -1.0) + MIN_WIDTH:
                continue
            width = max(right - x, MIN_WIDTH)
            last[s.depth] = x + width
            y = self.y + above + s.depth * SLICE_HEIGHT
            self.out.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                f'height="{SLICE_HEIGHT - 1}" fill="{self.colour(s.name)}">'
                f'<title>{clean(s.name)}, {readable(s.end - s.begin)}</title>'
                '</rect>')
            shown = fitting(s.name, width - 6)
            if shown:
                self.text(x + 3, y + 12, shown, "in")
        for index, (time, name) in enumerate(instants):
            x, y = self.x(time), self.y + 5
            self.out.append(f'<path class="mark" d="M{x:.1f} {y - 4:.1f}l4 5-4 '
                            f'5-4-5z"><title>{clean(name)}</title></path>')
            room = (self.x(instants[index + 1][0]) if index + 1 < len(instants)
                    else WIDTH - MARGIN) - x - 10
            if fitting(name, room) == name:
                self.text(x + 7, y + 6, name, "dim")
        for (time,) in samples:
            x, y = self.x(time), self.y + height - 5
            self.out.append(f'<line class="sample" x1="{x:.1f}" y1="{y:.1f}" '
                            f'x2="{x:.1f}" y2="{y + 5:.1f}"/>')
        self.y += height

    def apart(self, marks: List[tuple]) -> List[tuple]:
        """Without those that would lie upon others."""
        kept: List[tuple] = []
        for mark in marks:
            if not kept or self.x(mark[0]) >= self.x(kept[-1][0]) + 2:
                kept.append(mark)
        return kept

    def counter(self, track: Track) -> None:
        self.label(track.name, COUNTER_HEIGHT)
        before = [v for v in track.values if v[0] < self.begin][-1:]
        values = before + [v for v in track.values if self.shows(v[0], v[0])]
        low = min(0.0, min(v for _, v in values))
        high = max(v for _, v in values)
        factor = (COUNTER_HEIGHT - 6) / ((high - low) or 1)
        base = self.y + COUNTER_HEIGHT - 2
        points: List[str] = []
        last_x = -1.0
        for time, value in values:
            x = self.x(time)
            if points and x < last_x + MIN_WIDTH:
                continue
            y = base - (value - low) * factor
            points.append(f"H{x:.1f}V{y:.1f}" if points else
                          f"M{x:.1f} {y:.1f}")
            last_x = x
        line = "".join(points) + f"H{self.x(self.end):.1f}"
        first = self.x(values[0][0])
        self.out.append(f'<path class="area" d="{line}V{base:.1f}H{first:.1f}z'
                        '"/>')
        self.out.append(f'<path class="line" d="{line}"/>')
        self.text(MARGIN, self.y + 27, f"up to {track.with_unit(high)}", "dim")
        self.y += COUNTER_HEIGHT

    def label(self, name: str, height: float) -> None:
        self.out.append(f'<rect class="row" x="{LABELS}" y="{self.y:.1f}" '
                        f'width="{WIDTH - LABELS - MARGIN}" '
                        f'height="{height:.1f}"/>')
        self.text(MARGIN, self.y + 13,
                  fitting(name or "(no name)", LABELS - MARGIN - 6))

    def draw_flows(self) -> None:
        for steps in self.trace.flows.values():
            for (t0, from_track), (t1, to_track) in zip(steps, steps[1:]):
                if (from_track == to_track or from_track not in self.at or
                        to_track not in self.at or
                        not self.begin <= t0 <= t1 <= self.end):
                    continue
                x0, y0 = self.x(t0), self.at[from_track] + 15
                x1, y1 = self.x(t1), self.at[to_track] + 8
                bend = max(20.0, (x1 - x0) / 2)
                self.out.append(
                    f'<path class="flow" d="M{x0:.1f} {y0:.1f}C{x0 + bend:.1f} '
                    f'{y0:.1f} {x1 - bend:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"/>')


def clean(text: str) -> str:
    """What XML may hold."""
    return escape("".join(c if c.isprintable() else "\ufffd" for c in text))


def fitting(text: str, width: float) -> str:
    """As much of the text as fits into so many pixels."""
    room = int(width / 6)
    if len(text) <= room:
        return text
    return text[:room - 1] + "\u2026" if room > 3 else ""


def readable(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def ticks(begin: int, end: int, zero: int) -> Iterator[Tuple[int, str]]:
    step = 1
    for factor in itertools.cycle((2, 2.5, 2)):
        if (end - begin) / step <= 10:
            break
        step = int(step * factor)
    for tick in range(begin + (zero - begin) % step, end + 1, step):
        yield tick, readable(tick - zero) if tick != zero else "0"


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(usage=__doc__.split("\n")[3][7:])
    parser.add_argument("--start", type=float, default=0.0)
    parser.add_argument("--length", type=float)
    parser.add_argument("trace")
    parser.add_argument("picture")
    options = parser.parse_args(arguments)
    try:
        with open(options.trace, "rb") as file:
            trace = Trace(file.read())
    except (OSError, NotATrace) as error:
        print(f"draw_trace.py: {options.trace}: {error}", file=sys.stderr)
        return 1
    if not trace.events:
        print(f"draw_trace.py: {options.trace}: there are no track events",
              file=sys.stderr)
        return 1
    zero, last = trace.events[0].time, trace.events[-1].time
    begin = zero + int(options.start * 1e6)
    end = last if options.length is None else begin + int(options.length * 1e6)
    if begin >= last or end <= zero or end <= begin:
        print(f"draw_trace.py: nothing is there between {options.start:g} ms "
              f"and the end: the trace has {readable(last - zero)}",
              file=sys.stderr)
        return 1
    end = min(end, last)
    title = (f"{len(trace.events)} events in {readable(last - zero)}; "
             f"{readable(end - begin)} of them")
    try:
        with open(options.picture, "w", encoding="utf-8") as file:
            file.write(Picture(trace, begin, end, title).draw())
    except OSError as error:
        print(f"draw_trace.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
