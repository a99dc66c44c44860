#!/usr/bin/env python3
"""Turns the comments of a header into what Doxygen reads; docs/Doxyfile calls
it for each file.

Usage: scripts/doxygen_filter.py HEADER

A comment that stands right above a declaration, or behind it on its line,
documents it, and the one that a file opens with the file, and the class that it
is named after if that has none of its own. Those in function bodies, and those
that stand alone, do not. Lines that are indented within a comment are code.
"""

import re
import sys
from typing import List

COMMENT = re.compile(r"(\s*)//(?!/)(.*)$")
TRAILING = re.compile(r"(.*[;,{}\w)])\s+// ?(.*)$")
CLASS = re.compile(r"(\s*)(?:class|struct) (?:\[\[\w+\]\] |[A-Z_]+ )*(\w+)"
                   r"[^;()]*\{")
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum)\b[^();]*$|"
                   r"\bextern \"C\"\s*$")


def escape(text: str) -> str:
    """Outside of backticks nothing but text."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([\\@<>#$&])", r"\\\1", parts[i])
    return "`".join(parts)


def block(comment: List[str], first: str) -> List[str]:
    """The lines of one comment; `first` stands in front of them."""
    indent = COMMENT.match(comment[0]).group(1)
    out = [f"{indent}/// {first}"] if first else []
    in_code = in_list = False
    for line in comment:
        text = COMMENT.match(line).group(2)
        content = text[1:] if text.startswith(" ") else text
        is_code = content.startswith("  ") and not in_list
        if content and not content.startswith(" "):
            in_list = content.startswith("- ")
        if is_code != in_code and (is_code or content):
            out.append(f"{indent}/// " + ("@code" if is_code else "@endcode"))
            in_code = is_code
        out.append(f"{indent}/// {content if in_code else escape(content)}")
    if in_code:
        out.append(f"{indent}/// @endcode")
    return out


class Filter:

    def __init__(self, header: str):
        self.header = header  # as users include it
        self.opening: List[str] = []  # comment of the file
        self.out: List[str] = []
        self.scopes: List[bool] = []  # of each brace: may hold declarations
        self.statement = ""

    def in_declarations(self) -> bool:
        return all(self.scopes)

    def note_code(self, line: str) -> None:
        code = re.sub(r'"(?:[^"\\]|\\.)*"', lambda m: '"C"' if m.group(0) ==
                      '"C"' else '""', line.split("//")[0])
        for c in code:
            if c == "{":
                self.scopes.append(bool(SCOPE.search(self.statement)))
                self.statement = ""
            elif c == "}":
                if self.scopes:
                    self.scopes.pop()
                self.statement = ""
            elif c == ";":
                self.statement = ""
            else:
                self.statement += c
        self.statement += " "

    def run(self, lines: List[str]) -> List[str]:
        i = 0
        is_first = True
        while i < len(lines):
            end = i
            while end < len(lines) and COMMENT.match(lines[end]):
                end += 1
            if end == i:
                self.code(lines[i])
                i += 1
                continue
            comment = lines[i:end]
            following = lines[end].strip() if end < len(lines) else ""
            if is_first:
                self.opening = comment
                self.out += block(comment, "@file")
            elif self.documents(following):
                self.out += block(comment, "")
            else:
                self.out += comment
            is_first = False
            i = end
        return self.out

    def documents(self, following: str) -> bool:
        if not self.in_declarations() or following.startswith("}"):
            return False
        return bool(following) and (not following.startswith("#") or
                                    following.startswith("#define"))

    def description(self, indent: str, name: str) -> List[str]:
        """Of a class that has no comment."""
        file_name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() + ".h"
        if self.header.split("/")[-1] == file_name:
            return block(self.opening, "")
        return [f"{indent}/// See {self.header}."]

    def code(self, line: str) -> None:
        opens = CLASS.match(line)
        if (opens and self.in_declarations() and
                not self.out[-1].lstrip().startswith(("///", "template"))):
            self.out += self.description(opens.group(1), opens.group(2))
        if not line.lstrip().startswith("#"):
            trailing = TRAILING.match(line)
            was_in_declarations = self.in_declarations()
            self.note_code(line)
            if (trailing and was_in_declarations and self.in_declarations() and
                    not trailing.group(2).startswith(("namespace", "NOLINT"))):
                line = f"{trailing.group(1)}  ///< {escape(trailing.group(2))}"
        self.out.append(line)


def main(arguments: List[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with open(arguments[0], encoding="utf-8") as file:
        lines = file.read().split("\n")
    header = arguments[0].split("include/")[-1]
    sys.stdout.write("\n".join(Filter(header).run(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
