// The program `tracering` as a user runs it, in a directory of the test's own.
//
// Knows nothing of what the program is made of.
#ifndef TRACERING_TESTS_TOOLS_TOOL_TEST_H_
#define TRACERING_TESTS_TOOLS_TOOL_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/trace_file_checker.h"

namespace tracering::test {

struct ToolResult {
  int status = -1;
  std::string output;
  std::string errors;
};

class ToolTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return directory_.Path(name);
  }
  static ChildProcess Start(
      std::vector<std::string> arguments,
      std::vector<std::pair<std::string, std::string>> env = {}) {
    arguments.insert(arguments.begin(), TRACERING_TOOL);
    return ChildProcess::Spawn(std::move(arguments), std::move(env));
  }
  static ToolResult Finish(ChildProcess& child) {
    const auto exit = child.Wait();
    ToolResult result;
    result.status = exit.has_value() ? exit->code : -1;
    result.output = child.output();
    result.errors = child.error_output();
    return result;
  }
  static ToolResult Run(std::vector<std::string> arguments) {
    ChildProcess child = Start(std::move(arguments));
    return Finish(child);
  }

  // As a script would: the line is "exec tracering `line`" after `before`.
  static ToolResult RunInShell(const std::string& line,
                               const std::string& before = "") {
    ChildProcess child = ChildProcess::Spawn(
        {"/bin/sh", "-c", before + "\nexec " TRACERING_TOOL " " + line});
    return Finish(child);
  }

  // Wrong: status 2, nothing on standard output, and `complaint` in the text.
  static void ExpectUsageError(std::vector<std::string> arguments,
                               const std::string& complaint) {
    const ToolResult result = Run(std::move(arguments));
    EXPECT_EQ(result.status, 2) << result.errors;
    EXPECT_THAT(result.errors, ::testing::HasSubstr(complaint));
    EXPECT_EQ(result.output, "");
  }

  static void WriteFile(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static std::string ReadFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TempDir directory_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_TOOLS_TOOL_TEST_H_
