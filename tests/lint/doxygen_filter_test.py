#!/usr/bin/env python3
"""Shows what scripts/doxygen_filter.py makes of the comments of a header, and
which ones it leaves alone."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
sys.dont_write_bytecode = True

import doxygen_filter  # noqa: E402, needs the path above


class DoxygenFilterTest(unittest.TestCase):

    def filter(self, *lines, header="tracering/x.h"):
        """What becomes of the lines behind a first comment."""
        opening = ["// What this is.", ""]
        out = doxygen_filter.Filter(header).run(opening + list(lines))
        self.assertEqual(out[:3], ["/// @file", "/// What this is.", ""])
        return out[3:]

    def test_comment_above_a_declaration_documents_it(self):
        self.assertEqual(self.filter("// Waits.", "void Wait();"),
                         ["/// Waits.", "void Wait();"])
        self.assertEqual(self.filter("// As a macro.", "#define X 1"),
                         ["/// As a macro.", "#define X 1"])

    def test_comment_that_stands_alone_documents_nothing(self):
        for after in ("", "#include <x>", "}"):
            self.assertEqual(self.filter("// Alone.", after),
                             ["// Alone.", after])

    def test_comment_behind_a_member_documents_it(self):
        self.assertEqual(
            self.filter("// A pair.", "struct Pair {",
                        "  int first = 0;  // of two", "};")[2:3],
            ["  int first = 0;  ///< of two"])

    def test_comments_in_functions_document_nothing(self):
        lines = ["inline int F(int x) {", "  // Twice.", "  x *= 2;  // so",
                 "  return x;", "}"]
        self.assertEqual(self.filter(*lines), lines)
        # A class within namespaces holds declarations; so does extern "C".
        self.assertEqual(
            self.filter("namespace a {", 'extern "C" {', "// G.", "void G();",
                        "}", "}  // namespace a")[2:4],
            ["/// G.", "void G();"])

    def test_indented_lines_are_code_unless_in_a_list(self):
        self.assertEqual(
            self.filter("// So:", "//", "//   F(<x>);", "//", "// or not.",
                        "void F();")[:6],
            ["/// So:", "/// ", "/// @code", "///   F(<x>);", "/// ",
             "/// @endcode"])
        self.assertEqual(
            self.filter("// - one", "//   line", "void F();")[:2],
            ["/// - one", "///   line"])

    def test_text_is_no_markup(self):
        self.assertEqual(self.filter("// $X/<uid>, `a<b>`", "int f();")[0],
                         "/// \\$X/\\<uid\\>, `a<b>`")

    def test_class_without_a_comment_has_that_of_its_file(self):
        for line in ("class FooBar {", "class EXPORT [[x]] FooBar : Y {"):
            self.assertEqual(
                self.filter(line, "};", header="tracering/foo_bar.h"),
                ["/// What this is.", line, "};"])
        self.assertEqual(self.filter("struct FooOptions {", "};"),
                         ["/// See tracering/x.h.", "struct FooOptions {",
                          "};"])


if __name__ == "__main__":
    unittest.main()
