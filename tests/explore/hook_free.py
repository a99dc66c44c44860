#!/usr/bin/env python3
"""Shows that the hook of SharedWord costs the shipped code nothing.

Usage: hook_free.py strip ROOT DIRECTORY FILE...
       hook_free.py compare SHIPPED... -- HOOK_FREE... -- HOOKED...

`strip` writes copies of the sources without a trace of the hook below
DIRECTORY. `compare` takes object files, of the shipped library, of the stripped
copies and of the hooked library, and exits with status 1 unless each of the
first holds the same instructions as its stripped copy. The hooked ones must
differ and name the hook: otherwise nothing was compared.
"""

import os
import re
import subprocess
import sys
from typing import Dict, List

HEADER = "src/common/sync/shared_word.h"
# A call, or the scope object that makes two.
CALL = re.compile(r"^ *(?:const SharedAccessScope scope|"
                  r"(?:internal::)?OnSharedAccess)\([^;{]*\);\n", re.MULTILINE)
HOOKS = re.compile(r"^#ifdef TRACERING_SHARED_WORD_HOOK\n.*?^#endif\n",
                   re.MULTILINE | re.DOTALL)
NAMES = ("OnSharedAccess", "SharedAccessScope", "shared_word_hook",
         "shared_word_done_hook")


def strip(root: str, directory: str, files: List[str]) -> None:
    for name in files:
        with open(os.path.join(root, name), encoding="utf-8") as source:
            text = source.read()
        text, calls = CALL.subn("", HOOKS.sub("", text))
        if any(word in text for word in NAMES):
            sys.exit(f"{name} still speaks of the hook")
        if calls == 0:
            sys.exit(f"{name} never did speak of the hook")
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stripped:
            stripped.write(text)


def code(path: str) -> str:
    """Instructions and what they refer to, section by section."""
    text = subprocess.run(
        ["objdump", "-d", "-r", "--no-show-raw-insn", path], check=True,
        stdout=subprocess.PIPE, text=True).stdout
    return "\n".join(line for line in text.splitlines()
                     if "file format" not in line)


def by_name(paths: List[str]) -> Dict[str, str]:
    return {os.path.basename(path): path for path in paths}


def compare(shipped: List[str], stripped: List[str], hooked: List[str]) -> int:
    originals, twins = by_name(shipped), by_name(hooked)
    wrong = 0
    for name, path in sorted(by_name(stripped).items()):
        ours, free, with_hook = code(originals[name]), code(path), code(
            twins[name])
        instructions = sum(":\t" in line for line in ours.splitlines())
        verdict = "the same code"
        if ours != free:
            verdict = "DIFFERS from its copy without the hook"
        elif any(word in ours for word in NAMES):
            verdict = "REFERS to the hook"
        elif ours == with_hook or "shared_word_hook" not in with_hook:
            verdict = "HAS no hook in the hooked library either"
        elif instructions == 0:
            verdict = "HAS no code"
        wrong += verdict != "the same code"
        print(f"{name:24} {instructions:6} instructions  {verdict}")
    if not stripped:
        print("nothing to compare")
    return 1 if wrong or not stripped else 0


def main() -> int:
    arguments = sys.argv[1:]
    if len(arguments) > 3 and arguments[0] == "strip":
        strip(arguments[1], arguments[2], arguments[3:])
        return 0
    if arguments[:1] == ["compare"] and arguments.count("--") == 2:
        first = arguments.index("--")
        second = arguments.index("--", first + 1)
        return compare(arguments[1:first], arguments[first + 1:second],
                       arguments[second + 1:])
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
