#!/usr/bin/env python3
"""Checks what CMake and the compiler cannot: which room may include which, who
may touch shared words, and the shape of every file.

Usage: scripts/lint.py [ROOT]

Prints one line per finding, `path:line: [rule] text`, and exits with status 1
if there is any. Needs nothing but Python's standard library. Each rule has a
case in tests/lint/lint_test.py that shows it catching a violation.
"""

import os
import re
import sys
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

CODE_DIRS = ("include", "src", "tests", "examples", "tools", "benchmarks")
TEXT_DIRS = CODE_DIRS + ("cmake", "scripts", "docs", ".ci")
CPP_SUFFIXES = (".h", ".cc", ".c")
LIMITED_SUFFIXES = CPP_SUFFIXES + (".proto", ".py", ".sh", ".cmake", ".txt")
TEXT_SUFFIXES = LIMITED_SUFFIXES + (".md", ".json", ".in")
MAX_COLUMNS = 80
# Comment lines that a file opens with. A source may instead point to the header
# that says it; a test says what it tests.
MIN_HEADER_LINES = 3
POINTS_TO_HEADER = re.compile(r"\b[Ss]ee [\w/]+\.h\b")

# The headers of C++17, and what POSIX adds for times and ids.
STD_HEADERS = frozenset("""
    algorithm any array atomic bitset cassert cctype cerrno cfenv cfloat
    charconv chrono cinttypes climits clocale cmath codecvt complex
    condition_variable csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib
    cstring ctime cuchar cwchar cwctype deque exception execution filesystem
    forward_list fstream functional future initializer_list iomanip ios iosfwd
    iostream istream iterator limits list locale map memory memory_resource
    mutex new numeric optional ostream queue random ratio regex
    scoped_allocator set shared_mutex sstream stack stdexcept streambuf string
    string_view strstream system_error thread tuple type_traits typeindex
    typeinfo unordered_map unordered_set utility valarray variant vector
    sys/types.h time.h
    """.split())
# What a header that C reads may stand on.
C_HEADERS = frozenset(("stdbool.h", "stddef.h", "stdint.h"))
LOGGING_HEADERS = ("cstdio", "fstream", "iostream", "ostream", "stdio.h",
                   "syslog.h", "absl/log/", "fmt/ostream.h")
CONCURRENCY_HEADERS = ("atomic", "condition_variable", "future", "mutex",
                       "shared_mutex", "thread")
# The public id types that the ABI speaks of.
ID_HEADERS = ("tracering/ids.h", "tracering/data_loss.h")


class Include(NamedTuple):
    path: str
    angled: bool


def is_std(include: Include) -> bool:
    return include.angled and include.path in STD_HEADERS


def is_fmt(include: Include) -> bool:
    return include.path.startswith("fmt/")


def is_system(include: Include) -> bool:
    """A header of the C library or of Linux."""
    return (include.angled and include.path.endswith(".h") and
            not is_fmt(include) and not include.path.startswith("google/"))


def under(*prefixes: str) -> Callable[[Include], bool]:
    return lambda include: include.path.startswith(prefixes)


def is_public(include: Include) -> bool:
    return (include.path.startswith("tracering/") and
            not include.path.startswith("tracering/internal/"))


ABSL_STATUS = under("absl/status/")
ABSL = under("absl/")
OURS = under("tracering/")


class Room(NamedTuple):
    """A part of the tree: what its files may include, first match of path."""

    prefix: str
    may_include: Tuple[Callable[[Include], bool], ...]
    never: Tuple[str, ...] = ()  # refused even where the above allows it
    why: str = ""


# The room table of the design. The first prefix that matches decides.
ROOMS = (
    Room("include/tracering/c/",
         (lambda include: include.angled and include.path in C_HEADERS,
          under("tracering/c/", "tracering/export.h")),
         why="headers of the C API are read by C compilers"),
    Room("include/tracering/", (is_std, ABSL_STATUS, OURS),
         why="public headers stand on std, absl/status and each other"),
    Room("src/common/abi/", (is_std, under("src/common/abi/", *ID_HEADERS)),
         never=CONCURRENCY_HEADERS + LOGGING_HEADERS,
         why="the ABI room is constexpr arithmetic over std and the ids"),
    Room("src/common/sync/", (is_std, under("src/common/sync/")),
         why="the sync room stands on std alone"),
    Room("src/common/os/",
         (is_std, is_system, is_fmt, ABSL, under("src/common/os/")),
         why="the os room knows std, Linux and absl status only"),
    Room("src/common/control/",
         (is_std, is_fmt, ABSL, OURS,
          under("src/common/control/", "src/common/abi/")),
         why="control messages know the ABI and do no I/O"),
    Room("src/common/ring/",
         (is_std, is_system, is_fmt, ABSL, OURS,
          under("src/common/ring/", "src/common/abi/", "src/common/sync/",
                "src/common/os/")),
         never=LOGGING_HEADERS,
         why="the ring stands on abi, sync and os, and logs nothing"),
    Room("src/common/profile/",
         (is_std, is_system, is_fmt, ABSL, OURS,
          under("src/common/profile/", "src/common/sync/", "src/common/os/")),
         why="the profile buffer is a leaf over sync and os"),
    Room("src/producer/",
         (is_std, is_system, is_fmt, ABSL, OURS,
          under("src/common/", "src/producer/")),
         why="the producer never includes the consumer"),
    Room("src/consumer/",
         (is_std, is_system, is_fmt, ABSL, OURS,
          under("src/common/abi/", "src/common/control/", "src/common/os/",
                "src/common/ring/", "src/consumer/")),
         why="the consumer knows abi, control, os and ring, no producer"),
    Room("src/", (), why="every source belongs to a room of the table"),
    Room("examples/",
         (is_std, is_system, is_fmt, ABSL, is_public, under("examples/")),
         why="examples see what users see"),
    Room("tools/",
         (is_std, is_system, is_fmt, ABSL, is_public, under("tools/")),
         why="tools see what users see"),
    # The oracles share no code with what they judge.
    Room("tests/support/ring_decoder.",
         (is_std, is_system, is_fmt, under("tests/support/")),
         why="the ring decoder is independent of the product"),
    Room("tests/support/group_codec.",
         (is_std, is_fmt, under("google/", "tests/support/")),
         why="the group codec is independent of the product"),
    Room("tests/producer/", (lambda include: True,),
         never=("src/consumer/", "tracering/consumer"),
         why="tests of writers decode with tests/support, not the consumer"),
)

INCLUDE = re.compile(r'\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")')

# Where words of the mapping may be touched, and how. Everything else either has
# no access to them or goes through the classes of src/common/ring.
SYNC_ROOM = ("src/common/sync/",)
WORD_ROOMS = SYNC_ROOM + ("src/common/ring/",)
# These rooms use SharedWord for what is shared with a signal handler.
SHARED_WORD_ROOMS = WORD_ROOMS + ("src/common/profile/",)
NO_ATOMIC_ROOMS = ("src/common/abi/", "src/common/control/")


class Ban(NamedTuple):
    pattern: "re.Pattern[str]"
    scope: Tuple[str, ...]
    except_in: Tuple[str, ...]
    rule: str
    why: str


PRODUCT = ("include/", "src/", "examples/", "tools/")
BANS = (
    Ban(re.compile(r"\b__(?:atomic|sync)_\w+|\batomic_ref\b"), PRODUCT,
        SYNC_ROOM, "atomics",
        "use SharedWord for words in the mapping, std::atomic for others"),
    Ban(re.compile(r"\batomic_thread_fence\b"), PRODUCT, SYNC_ROOM, "atomics",
        "fences live in src/common/sync, where tests can see them"),
    Ban(re.compile(r"\bSharedWord\b|\bSharedFence\w*"), PRODUCT,
        SHARED_WORD_ROOMS, "atomics",
        "words in the mapping are touched in src/common/ring"),
    Ban(re.compile(r"_cast<[^>]*\batomic\b"), PRODUCT, (), "atomics",
        "memory is not an atomic because a cast says so: use SharedWord"),
    Ban(re.compile(r"reinterpret_cast<\s*(?:const\s+)?(?:std::)?u?int(?:32|64)"
                   r"_t(?:\s+const)?\s*[*&]"), PRODUCT, WORD_ROOMS, "atomics",
        "a word may be in the mapping: go through src/common/ring, or memcpy"),
    Ban(re.compile(r"\bvolatile\b(?!\s+(?:std::)?sig_atomic_t)"), PRODUCT, (),
        "atomics", "volatile orders nothing: use SharedWord or std::atomic"),
    Ban(re.compile(r"\bstd::atomic\b|\bstd::memory_order"), NO_ATOMIC_ROOMS,
        (), "atomics", "this room holds values, never shared state"),
    Ban(re.compile(r"\b(?:std::cerr|std::cout|f?printf\s*\(|fmt::print|"
                   r"syslog\s*\()"),
        ("src/common/abi/", "src/common/ring/"), (), "logging",
        "this room never logs"),
    Ban(re.compile(r"\b(?:sleep_for|sleep_until|nanosleep|u?sleep)\s*\("),
        # The pauses of a soak are its load.
        ("tests/",), ("tests/soak/", "tests/support/eventually.h"), "sleep",
        "tests wait for what happens (tests/support/eventually.h), never for "
        "a while"),
    Ban(re.compile(r"\b(?:throw|try|catch)\b(?=\s*[\w({\";])"),
        ("include/", "src/"), ("src/producer/containment.h",), "exceptions",
        "errors are absl::Status or an outcome, never an exception"),
)

# What may open a declaration at namespace level in the ABI room.
ABI_OPENERS = re.compile(
    r"(?:#|//|\}|\)|namespace\b|class\b|struct\b|enum\b|using\b|template\b|"
    r"static_assert\b|constexpr\b|inline constexpr\b|public:|private:)")


TEST_CASE = re.compile(r"^\s*TEST(?:_[FP])?\(\s*(\w+)\s*,\s*(\w+)\s*\)",
                       re.MULTILINE)
NAMED_TEST = re.compile(r"`(\w+Test\.\w+)`")


# Documents whose every piece of C++ is a run of lines of a program.
GUIDE = re.compile(r"docs/guide-\w+\.md$")
CPP_BLOCK = re.compile(r"^```cpp\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
QUOTABLE = ("examples/", "tests/package/")


def dedented_lines(lines: List[str]) -> List[str]:
    """The lines without the indentation that all of them have."""
    indent = min((len(line) - len(line.lstrip()) for line in lines
                  if line.strip()), default=0)
    return [line[indent:] for line in lines]


def contains_lines(lines: List[str], wanted: List[str]) -> bool:
    first = wanted[0].strip()
    return any(line.strip() == first and
               dedented_lines(lines[i:i + len(wanted)]) == wanted
               for i, line in enumerate(lines))


class Finding(NamedTuple):
    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: [{self.rule}] {self.text}"


def strip_comments_and_strings(lines: List[str]) -> List[str]:
    """The code of each line, so that prose may name what code must not do."""
    result = []
    in_block = False
    for line in lines:
        code = ""
        i = 0
        while i < len(line):
            if in_block:
                end = line.find("*/", i)
                in_block = end < 0
                i = len(line) if end < 0 else end + 2
            elif line.startswith("//", i):
                break
            elif line.startswith("/*", i):
                in_block = True
                i += 2
            elif line[i] == '"' and not INCLUDE.match(line):
                i += 1
                while i < len(line) and line[i] != '"':
                    i += 2 if line[i] == "\\" else 1
                i += 1
                code += '""'
            else:
                code += line[i]
                i += 1
        result.append(code)
    return result


class Linter:

    def __init__(self, root: str):
        self.root = root
        self.findings: List[Finding] = []

    def run(self) -> List[Finding]:
        for path in self.files():
            with open(os.path.join(self.root, path), encoding="utf-8",
                      errors="replace") as file:
                text = file.read()
            lines = text.split("\n")
            self.check_text(path, text, lines)
            if path.endswith(CPP_SUFFIXES):
                self.check_cpp(path, lines)
            elif path.endswith(".proto"):
                self.check_file_header(path, lines)
        self.check_public_headers_are_listed()
        self.check_readme_shows_tested_programs()
        self.check_guides_quote()
        self.check_named_tests_exist()
        return self.findings

    def files(self) -> Iterator[str]:
        """Paths relative to the root, with forward slashes, sorted."""
        for name in sorted(os.listdir(self.root)):
            path = os.path.join(self.root, name)
            if os.path.isfile(path) and name.endswith(TEXT_SUFFIXES):
                yield name
        for top in TEXT_DIRS:
            for directory, subdirs, names in os.walk(
                    os.path.join(self.root, top)):
                subdirs[:] = sorted(d for d in subdirs if d != "__pycache__")
                for name in sorted(names):
                    if name.endswith(TEXT_SUFFIXES) or top == ".ci":
                        yield os.path.relpath(os.path.join(directory, name),
                                              self.root)

    def add(self, path: str, line: int, rule: str, text: str) -> None:
        self.findings.append(Finding(path, line, rule, text))

    # Shape of the text.

    def check_text(self, path: str, text: str, lines: List[str]) -> None:
        if text and not text.endswith("\n"):
            self.add(path, len(lines), "text", "no newline at the end")
        if text.endswith("\n\n"):
            self.add(path, len(lines) - 1, "text", "empty line at the end")
        limited = path.endswith(LIMITED_SUFFIXES)
        for number, line in enumerate(lines, 1):
            if "\t" in line:
                self.add(path, number, "text", "tab")
            if line != line.rstrip():
                self.add(path, number, "text", "trailing space")
            if limited and len(line) > MAX_COLUMNS and "://" not in line:
                self.add(path, number, "columns",
                         f"{len(line)} columns, at most {MAX_COLUMNS}")

    def check_file_header(self, path: str, lines: List[str]) -> None:
        count = 0
        while count < len(lines) and lines[count].startswith("//"):
            count += 1
        opening = " ".join(line.strip("/ ") for line in lines[:count])
        wanted = MIN_HEADER_LINES
        if path.endswith((".cc", ".c")) and (
                path.startswith("tests/") or
                POINTS_TO_HEADER.search(opening)):
            wanted = 1
        if count < wanted:
            self.add(path, 1, "file-header",
                     f"the file opens with {count} comment lines, not "
                     f"{wanted}: what this is, what it must not know, "
                     "threading, trust, or `see NAME.h`")

    # C++.

    def check_cpp(self, path: str, lines: List[str]) -> None:
        self.check_file_header(path, lines)
        if path.endswith(".h"):
            self.check_guard(path, lines)
        code = strip_comments_and_strings(lines)
        room = self.room_of(path)
        for number, line in enumerate(code, 1):
            match = INCLUDE.match(line)
            if match:
                include = Include(match.group(1) or match.group(2),
                                  match.group(1) is not None)
                self.check_include(path, number, include, room)
                continue
            for ban in BANS:
                if (path.startswith(ban.scope) and
                        not path.startswith(ban.except_in)):
                    found = ban.pattern.search(line)
                    if found:
                        self.add(path, number, ban.rule,
                                 f"`{found.group(0).strip()}`: {ban.why}")
        if path.startswith("src/common/abi/"):
            self.check_abi(path, code)

    @staticmethod
    def room_of(path: str) -> Optional[Room]:
        for room in ROOMS:
            if path.startswith(room.prefix):
                return room
        return None

    def check_include(self, path: str, number: int, include: Include,
                      room: Optional[Room]) -> None:
        if not include.angled:
            self.check_include_exists(path, number, include.path)
        if room is None:
            return
        refused = (include.path in room.never or
                   include.path.startswith(
                       tuple(n for n in room.never if "/" in n)))
        if refused or not any(allows(include) for allows in room.may_include):
            self.add(path, number, "rooms",
                     f"{room.prefix} may not include {include.path}: "
                     f"{room.why}")

    def check_include_exists(self, path: str, number: int,
                             included: str) -> None:
        if included.endswith((".pb.h", ".inc")):
            return  # generated, or for somebody else's macros
        if included.startswith("tracering/"):
            file = os.path.join("include", included)
        elif included.startswith(tuple(f"{d}/" for d in CODE_DIRS)):
            file = included
        elif included.startswith(("absl/", "fmt/", "gmock/", "gtest/")):
            return
        else:
            self.add(path, number, "include-path",
                     f'"{included}" is not a path from the root or of a '
                     "public header")
            return
        if not os.path.exists(os.path.join(self.root, file)):
            self.add(path, number, "include-path", f"{file} does not exist")

    def check_guard(self, path: str, lines: List[str]) -> None:
        stem = path[len("include/"):] if path.startswith("include/") else path
        guard = re.sub(r"[^A-Z0-9]", "_", stem.upper()) + "_"
        if not guard.startswith("TRACERING_"):
            guard = "TRACERING_" + guard
        text = "\n".join(lines)
        opening = f"\n#ifndef {guard}\n#define {guard}\n"
        if opening not in text:
            self.add(path, 1, "header-guard", f"the guard should be {guard}")
        elif not text.rstrip().endswith(f"#endif  // {guard}"):
            self.add(path, len(lines), "header-guard",
                     f"should end with: #endif  // {guard}")

    def check_abi(self, path: str, code: List[str]) -> None:
        if path.endswith(".cc"):
            self.add(path, 1, "abi", "the ABI room has headers only")
        continued = False
        for number, line in enumerate(code, 1):
            if not line.strip():
                continue
            if (line[0] != " " and not continued and
                    not ABI_OPENERS.match(line)):
                self.add(path, number, "abi",
                         f"`{line.strip()}` is not constexpr")
            continued = (line[0] not in " #" and
                         line.rstrip()[-1] not in ";{}:")

    # Every public header belongs to one library, whose header set installs it
    # and compiles it alone.

    def check_public_headers_are_listed(self) -> None:
        listed: Dict[str, List[str]] = {}
        for room in ("common", "producer", "consumer"):
            lists = f"src/{room}/CMakeLists.txt"
            full = os.path.join(self.root, lists)
            if not os.path.exists(full):
                continue
            with open(full, encoding="utf-8") as file:
                for name in re.findall(r"^\s*(tracering/\S+\.h)\b", file.read(),
                                       re.MULTILINE):
                    listed.setdefault(name, []).append(lists)
        for path in self.files():
            if not (path.startswith("include/") and path.endswith(".h")):
                continue
            name = path[len("include/"):]
            count = len(listed.get(name, []))
            if count != 1:
                self.add(path, 1, "header-set",
                         f"listed in {count} of the libraries' HEADERS "
                         "(src/*/CMakeLists.txt), not in one")

    # The README's programs are those that the package test builds and runs.

    def check_readme_shows_tested_programs(self) -> None:
        programs = os.path.join(self.root, "tests", "package")
        if not os.path.isdir(programs):
            return
        with open(os.path.join(self.root, "README.md"),
                  encoding="utf-8") as file:
            readme = file.read()
        for name in sorted(os.listdir(programs)):
            if not name.endswith(".cc"):
                continue
            with open(os.path.join(programs, name), encoding="utf-8") as file:
                program = re.sub(r"\A(?://.*\n)+", "", file.read())
            if f"```cpp\n{program}```\n" not in readme:
                self.add("README.md", 1, "readme",
                         f"does not show tests/package/{name} as it is")

    # The code in the guides is that of programs which are built and tested.

    def check_guides_quote(self) -> None:
        quotable = None
        for path in self.files():
            if not GUIDE.match(path):
                continue
            if quotable is None:
                quotable = list(self.quotable_texts())
            with open(os.path.join(self.root, path), encoding="utf-8") as file:
                text = file.read()
            for block in CPP_BLOCK.finditer(text):
                wanted = dedented_lines(block.group(1).split("\n"))
                if not any(contains_lines(lines, wanted)
                           for lines in quotable):
                    self.add(path, text.count("\n", 0, block.start()) + 1,
                             "quotes", "no program in "
                             f"{' or '.join(QUOTABLE)} has these lines")

    def quotable_texts(self) -> Iterator[List[str]]:
        for path in self.files():
            if path.startswith(QUOTABLE) and path.endswith(CPP_SUFFIXES):
                with open(os.path.join(self.root, path),
                          encoding="utf-8") as file:
                    yield file.read().split("\n")

    # The table of scenarios names tests; a renamed test must not leave a claim
    # behind that nothing supports.

    def check_named_tests_exist(self) -> None:
        path = "docs/testing.md"
        if not os.path.exists(os.path.join(self.root, path)):
            return
        tests = set()
        for name in self.files():
            if name.startswith("tests/") and name.endswith(".cc"):
                with open(os.path.join(self.root, name),
                          encoding="utf-8") as file:
                    tests.update(f"{suite}.{case}" for suite, case in
                                 TEST_CASE.findall(file.read()))
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                for named in NAMED_TEST.findall(line):
                    if named not in tests:
                        self.add(path, number, "named-tests",
                                 f"there is no test {named}")


def main(arguments: List[str]) -> int:
    if len(arguments) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    here = os.path.dirname(os.path.abspath(__file__))
    root = arguments[0] if arguments else os.path.dirname(here)
    findings = Linter(root).run()
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
