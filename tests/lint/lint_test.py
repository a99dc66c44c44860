#!/usr/bin/env python3
"""Shows each rule of scripts/lint.py catching a violation in a small tree of
its own, and leaving alone the nearest thing that is allowed."""

import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
sys.dont_write_bytecode = True

import lint  # noqa: E402, needs the path above

OPENING = "// What this is.\n// What it must not know.\n// Threading.\n"


def source(*lines):
    return OPENING + "".join(f"{line}\n" for line in lines)


def header(guard, *lines):
    return (OPENING + f"#ifndef {guard}\n#define {guard}\n" +
            "".join(f"{line}\n" for line in lines) +
            f"#endif  // {guard}\n")


def public_header(name, *lines):
    guard = "TRACERING_" + name.upper().replace("/", "_").replace(".", "_")
    return header(guard + "_", *lines)


class LintTest(unittest.TestCase):

    def lint(self, files):
        """The rules that the tree of `files` (path to text) breaks."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text)
            return [f.rule for f in lint.Linter(root).run()]

    def include(self, path, *included, existing=()):
        """Lints a source at `path` that includes `included`."""
        files = {name: public_header(name[len("include/tracering/"):])
                 for name in existing}
        files["src/common/CMakeLists.txt"] = "".join(
            f"    {name[len('include/'):]}\n" for name in existing)
        for name in included:
            if name.startswith('"src/'):
                name = name.strip('"')
                guard = lint.re.sub("[^A-Z0-9]", "_", name.upper())
                files[name] = header(f"TRACERING_{guard}_")
        files[path] = source(*(f"#include {i}" for i in included))
        return self.lint(files)

    # Rooms.

    def test_public_headers_never_include_src(self):
        files = {
            "include/tracering/x.h":
                public_header("x.h", '#include "src/common/ring/ring.h"'),
            "src/common/ring/ring.h":
                header("TRACERING_SRC_COMMON_RING_RING_H_"),
            "src/common/CMakeLists.txt": "    tracering/x.h\n",
        }
        self.assertEqual(self.lint(files), ["rooms"])
        files["include/tracering/x.h"] = public_header(
            "x.h", "#include <string_view>", '#include "absl/status/status.h"')
        self.assertEqual(self.lint(files), [])

    def test_headers_for_c_stand_on_c(self):
        files = {
            "include/tracering/c/x.h":
                public_header("c/x.h", "#include <stdint.h>",
                              '#include "tracering/y.h"'),
            "include/tracering/y.h": public_header("y.h"),
            "src/common/CMakeLists.txt":
                "    tracering/c/x.h\n    tracering/y.h\n",
        }
        self.assertEqual(self.lint(files), ["rooms"])
        files["include/tracering/c/x.h"] = public_header(
            "c/x.h", "#include <cstdint>")
        self.assertEqual(self.lint(files), ["rooms"])
        files["include/tracering/c/x.h"] = public_header(
            "c/x.h", "#include <stdint.h>")
        self.assertEqual(self.lint(files), [])

    def test_public_headers_use_no_other_part_of_abseil(self):
        files = {
            "include/tracering/x.h": public_header(
                "x.h", '#include "absl/strings/string_view.h"'),
            "src/common/CMakeLists.txt": "    tracering/x.h\n",
        }
        self.assertEqual(self.lint(files), ["rooms"])

    def test_public_headers_belong_to_exactly_one_library(self):
        files = {"include/tracering/x.h": public_header("x.h")}
        self.assertEqual(self.lint(files), ["header-set"])
        files["src/common/CMakeLists.txt"] = "    tracering/x.h\n"
        self.assertEqual(self.lint(files), [])
        files["src/producer/CMakeLists.txt"] = "    tracering/x.h\n"
        self.assertEqual(self.lint(files), ["header-set"])

    def test_abi_knows_std_and_ids_only(self):
        abi = "src/common/abi/x.h"
        guard = "TRACERING_SRC_COMMON_ABI_X_H_"
        for bad in ("<atomic>", "<unistd.h>", "<iostream>", "<sys/mman.h>",
                    "<fmt/format.h>", '"absl/status/status.h"'):
            self.assertEqual(
                self.lint({abi: header(guard, f"#include {bad}")}), ["rooms"],
                bad)
        self.assertEqual(self.lint({abi: header(guard, "#include <cstdint>")}),
                         [])

    def test_abi_knows_no_other_room(self):
        self.assertEqual(
            self.include("src/common/abi/x.h", '"src/common/sync/y.h"')[-1:],
            ["rooms"])

    def test_sync_stands_on_std_alone(self):
        sync = "src/common/sync/x.cc"
        self.assertEqual(self.include(sync, "<atomic>"), [])
        self.assertEqual(self.include(sync, '"src/common/abi/y.h"'), ["rooms"])
        self.assertEqual(self.include(sync, "<unistd.h>"), ["rooms"])

    def test_os_knows_linux_and_nothing_of_ours(self):
        os_room = "src/common/os/x.cc"
        self.assertEqual(
            self.include(os_room, "<sys/mman.h>", '"absl/status/status.h"'),
            [])
        for bad in ("abi", "ring", "sync", "control"):
            self.assertEqual(
                self.include(os_room, f'"src/common/{bad}/y.h"'), ["rooms"])
        self.assertEqual(
            self.include(os_room, '"tracering/ids.h"',
                         existing=("include/tracering/ids.h",)), ["rooms"])

    def test_control_does_no_io(self):
        control = "src/common/control/x.cc"
        self.assertEqual(self.include(control, '"src/common/abi/y.h"'), [])
        self.assertEqual(self.include(control, '"src/common/os/y.h"'),
                         ["rooms"])
        self.assertEqual(self.include(control, "<sys/socket.h>"), ["rooms"])

    def test_ring_knows_neither_side_and_logs_nothing(self):
        ring = "src/common/ring/x.cc"
        self.assertEqual(
            self.include(ring, '"src/common/abi/a.h"', '"src/common/os/b.h"',
                         '"src/common/sync/c.h"'), [])
        for bad in ('"src/producer/y.h"', '"src/consumer/y.h"',
                    '"src/common/control/y.h"', "<cstdio>", "<iostream>"):
            self.assertEqual(self.include(ring, bad), ["rooms"], bad)

    def test_profile_is_a_leaf(self):
        profile = "src/common/profile/x.cc"
        self.assertEqual(self.include(profile, '"src/common/sync/y.h"'), [])
        for bad in ("common/abi", "common/ring", "producer", "consumer"):
            self.assertEqual(self.include(profile, f'"src/{bad}/y.h"'),
                             ["rooms"], bad)

    def test_producer_and_consumer_never_include_each_other(self):
        self.assertEqual(
            self.include("src/producer/x.cc", '"src/consumer/y.h"'), ["rooms"])
        self.assertEqual(
            self.include("src/consumer/x.cc", '"src/producer/y.h"'), ["rooms"])
        self.assertEqual(
            self.include("src/consumer/x.cc", '"src/common/profile/y.h"'),
            ["rooms"])
        self.assertEqual(
            self.include("src/producer/x.cc", '"src/common/ring/y.h"'), [])

    def test_every_source_has_a_room(self):
        self.assertEqual(self.include("src/misc/x.cc", "<vector>"), ["rooms"])

    def test_examples_and_tools_see_what_users_see(self):
        public = ("include/tracering/producer.h",)
        inner = ("include/tracering/internal/wire.h",)
        for program in ("examples/x.cc", "tools/x.cc"):
            self.assertEqual(
                self.include(program, '"tracering/producer.h"', "<unistd.h>",
                             existing=public), [])
            self.assertEqual(
                self.include(program, '"src/common/os/y.h"'), ["rooms"])
            self.assertEqual(
                self.include(program, '"tracering/internal/wire.h"',
                             existing=inner), ["rooms"])

    def test_oracles_share_nothing_with_the_product(self):
        for oracle in ("ring_decoder", "group_codec"):
            path = f"tests/support/{oracle}.cc"
            self.assertEqual(self.include(path, '"src/common/abi/y.h"'),
                             ["rooms"])
            self.assertEqual(self.include(path, "<string>"), [])

    def test_writer_tests_never_include_the_consumer(self):
        path = "tests/producer/x_test.cc"
        self.assertEqual(self.include(path, '"src/consumer/y.h"'), ["rooms"])
        self.assertEqual(
            self.include(path, '"tracering/consumer.h"',
                         existing=("include/tracering/consumer.h",)),
            ["rooms"])
        self.assertEqual(self.include(path, '"src/producer/y.h"'), [])
        self.assertEqual(
            self.include("tests/integration/x_test.cc", '"src/consumer/y.h"'),
            [])

    def test_includes_are_paths_that_exist(self):
        path = "src/producer/x.cc"
        self.assertIn("include-path", self.include(path, '"y.h"'))
        self.assertEqual(
            self.lint({path: source('#include "src/producer/gone.h"')}),
            ["include-path"])

    # Atomics.

    def code(self, path, line):
        return self.lint({path: source(line)})

    def test_builtins_only_in_sync(self):
        for line in ("__atomic_load_n(word, __ATOMIC_ACQUIRE);",
                     "__sync_synchronize();", "std::atomic_ref<int> r(i);"):
            self.assertIn("atomics", self.code("src/consumer/x.cc", line))
            self.assertIn("atomics", self.code("src/common/ring/x.cc", line))
            self.assertEqual(self.code("src/common/sync/x.cc", line), [])

    def test_fences_only_in_sync(self):
        line = "std::atomic_thread_fence(std::memory_order_seq_cst);"
        self.assertEqual(self.code("src/producer/x.cc", line), ["atomics"])
        self.assertEqual(self.code("src/common/ring/x.cc", line), ["atomics"])
        self.assertEqual(self.code("src/common/sync/x.cc", line), [])

    def test_shared_words_only_in_ring_sync_and_profile(self):
        line = "SharedWord<uint32_t>& word = Word();"
        for room in ("producer", "consumer", "common/os"):
            self.assertEqual(self.code(f"src/{room}/x.cc", line), ["atomics"])
        for room in ("ring", "sync", "profile"):
            self.assertEqual(self.code(f"src/common/{room}/x.cc", line), [])

    def test_no_cast_makes_memory_atomic(self):
        line = "auto* a = reinterpret_cast<std::atomic<uint32_t>*>(bytes);"
        for room in ("producer", "common/ring", "common/sync"):
            self.assertEqual(self.code(f"src/{room}/x.cc", line), ["atomics"])

    def test_no_cast_to_a_plain_word(self):
        for cast in ("const uint32_t*", "std::uint64_t*", "int32_t&"):
            line = f"auto w = reinterpret_cast<{cast}>(bytes);"
            self.assertEqual(self.code("src/consumer/x.cc", line), ["atomics"])
            self.assertEqual(self.code("src/common/ring/x.cc", line), [])
        self.assertEqual(
            self.code("src/consumer/x.cc",
                      "auto b = reinterpret_cast<const uint8_t*>(bytes);"), [])

    def test_no_volatile(self):
        self.assertEqual(self.code("src/producer/x.cc", "volatile int x;"),
                         ["atomics"])
        self.assertEqual(
            self.code("src/producer/x.cc", "volatile sig_atomic_t x;"), [])

    def test_process_private_atomics_stay_out_of_value_rooms(self):
        line = "std::atomic<int> x;"
        self.assertEqual(self.code("src/producer/x.cc", line), [])
        self.assertEqual(self.code("src/consumer/x.cc", line), [])
        self.assertEqual(self.code("src/common/control/x.cc", line),
                         ["atomics"])

    def test_comments_and_strings_may_name_anything(self):
        for line in ("// never volatile, never __atomic_load_n",
                     'const char* text = "volatile";'):
            self.assertEqual(self.code("src/producer/x.cc", line), [])

    def test_ring_never_logs(self):
        line = 'fprintf(stderr, "x");'
        self.assertEqual(self.code("src/common/ring/x.cc", line), ["logging"])
        self.assertEqual(self.code("src/consumer/x.cc", line), [])

    def test_no_exceptions(self):
        for line in ("throw Error();", "try {", "} catch (...) {"):
            self.assertEqual(self.code("src/producer/x.cc", line),
                             ["exceptions"], line)
        self.assertEqual(self.code("src/producer/x.cc", "TryClaim();"), [])

    def test_tests_never_sleep(self):
        for line in ("std::this_thread::sleep_for(kSome);", "usleep(10);",
                     "sleep(1);"):
            self.assertEqual(self.code("tests/x_test.cc", line), ["sleep"])
            self.assertEqual(self.code("src/producer/x.cc", line), [])
        self.assertEqual(self.code("tests/x_test.cc", "AwaitAsleep(tid);"), [])

    # The ABI room.

    def test_abi_is_constexpr(self):
        abi = "src/common/abi/x.h"
        guard = "TRACERING_SRC_COMMON_ABI_X_H_"
        self.assertEqual(
            self.lint({abi: header(guard, "inline int F() { return 1; }")}),
            ["abi"])
        self.assertEqual(self.lint({abi: header(guard, "int counter = 0;")}),
                         ["abi"])
        self.assertEqual(
            self.lint({abi: header(guard, "constexpr int F(int a,",
                                   "                int b) {",
                                   "  return a + b;", "}",
                                   "inline constexpr int kTwo = 2;")}), [])

    def test_abi_has_headers_only(self):
        self.assertEqual(self.code("src/common/abi/x.cc", "constexpr int k=1;"),
                         ["abi"])

    # Shape of files.

    def test_file_header(self):
        self.assertEqual(self.lint({"src/producer/x.cc": "int x;\n"}),
                         ["file-header"])
        for good in ("// One.\n// Two.\n// Three.\n", "// Calls; see x.h.\n",
                     "// Calls; see\n// x.h.\n"):
            self.assertEqual(self.lint({"src/producer/x.cc": good}), [], good)
        for bad in ("// One.\n// Two.\n", "// Calls.\n"):
            self.assertEqual(self.lint({"src/producer/x.cc": bad}),
                             ["file-header"], bad)
        self.assertEqual(self.lint({"tests/x_test.cc": "// Tests of x.\n"}), [])
        self.assertEqual(
            self.lint({"docs/x.proto": "// one\n// two\nsyntax = 3;\n"}),
            ["file-header"])

    def test_header_guard(self):
        path = "src/producer/x.h"
        good = header("TRACERING_SRC_PRODUCER_X_H_")
        self.assertEqual(self.lint({path: good}), [])
        self.assertEqual(self.lint({path: header("X_H")}), ["header-guard"])
        self.assertEqual(
            self.lint({path: good.replace("#endif  //", "#endif")}),
            ["header-guard"])
        self.assertEqual(
            self.lint({"include/tracering/a_b.h": public_header("a_b.h"),
                       "src/common/CMakeLists.txt": "  tracering/a_b.h\n"}),
            [])

    def test_eighty_columns(self):
        self.assertEqual(self.code("src/producer/x.cc", "x" * 80), [])
        self.assertEqual(self.code("src/producer/x.cc", "x" * 81), ["columns"])
        self.assertEqual(self.lint({"scripts/x.sh": "x" * 81 + "\n"}),
                         ["columns"])
        self.assertEqual(self.lint({"docs/x.md": "x" * 81 + "\n"}), [])

    def test_tabs_trailing_spaces_and_the_last_line(self):
        for text in ("a\tb\n", "a \n", "a", "a\n\n"):
            self.assertEqual(self.lint({"docs/x.md": text}), ["text"], text)
        self.assertEqual(self.lint({"docs/x.md": "a\n"}), [])

    def test_readme_shows_the_programs_that_are_tested(self):
        files = {"tests/package/x.cc": source("int main() {}"),
                 "README.md": "```cpp\nint main() {}\n```\n"}
        self.assertEqual(self.lint(files), [])
        files["README.md"] = "```cpp\nint main() { return 0; }\n```\n"
        self.assertEqual(self.lint(files), ["readme"])

    def test_guides_quote_programs(self):
        files = {"examples/x.cc": source("int main() {", "  Start();", "",
                                         "  Stop();", "}"),
                 "docs/guide-x.md": "```cpp\nStart();\n\nStop();\n```\n"}
        self.assertEqual(self.lint(files), [])
        files["docs/guide-x.md"] = "```cpp\nStart();\nStop();\n```\n"
        self.assertEqual(self.lint(files), ["quotes"])
        # Other languages, and other documents, may show what they like.
        files["docs/guide-x.md"] = "```sh\nstart\n```\n"
        files["docs/y.md"] = "```cpp\n...\n```\n"
        self.assertEqual(self.lint(files), [])

    def test_tests_that_are_named_exist(self):
        files = {"tests/x_test.cc": source("TEST(XTest,", "     Works) {}"),
                 "docs/testing.md": "Shown by `XTest.Works`.\n"}
        self.assertEqual(self.lint(files), [])
        files["docs/testing.md"] = "Shown by `XTest.Gone`.\n"
        self.assertEqual(self.lint(files), ["named-tests"])

    def test_top_level_files_count(self):
        self.assertEqual(self.lint({"docs/x.md": "", "README.md": "a \n"}),
                         ["text"])


if __name__ == "__main__":
    unittest.main()
